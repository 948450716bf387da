/** An object whose fields are set one after another, where a copy per field would cost too much. */
export type Mutable<Value> = { -readonly [Name in keyof Value]: Value[Name] }
