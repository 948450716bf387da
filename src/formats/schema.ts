/**
 * The subset of JSON Schema that our resources need. One schema serves the reader of documents (fields.ts), the types
 * of its results (`ValueOf`), the CustomResourceDefinitions (k8s/crds) and docs/resources.md.
 */

/** `Value` is the type of a valid value as it is read. */
export interface Schema<Value = unknown> {
  readonly type: 'object' | 'array' | 'string' | 'integer' | 'number' | 'boolean'
  /** For an integer: the form of a text that may be written instead. */
  readonly orText?: Schema
  /** A line of Markdown. */
  readonly description?: string
  /** The default, as a line of Markdown. */
  readonly otherwise?: string
  /** An object without properties, or a list without items, is read as it is. */
  readonly properties?: Properties
  readonly required?: readonly string[]
  /** The values of a map. */
  readonly additionalProperties?: Schema
  readonly items?: Schema
  readonly minItems?: number
  readonly maxItems?: number
  /** Maximum number of bytes of all texts of a list, in UTF-8. */
  readonly maxBytes?: number
  /** Whether the first items of a list that is too long are in force. */
  readonly cut?: boolean
  /** Maximum number of entries of a map. */
  readonly maxProperties?: number
  /** In code points, as JSON Schema and Kubernetes count. */
  readonly minLength?: number
  readonly maxLength?: number
  /** A regular expression that RE2 and JavaScript read alike. */
  readonly pattern?: string
  readonly enum?: readonly string[]
  readonly minimum?: number
  readonly maximum?: number
  readonly format?: 'int32' | 'int64' | 'date-time'
  /** The pattern, or a similar object, in words, as the end of "must be …". */
  readonly form?: string
  /** Suggests what an invalid text was probably intended to be, or where it belongs; undefined if unknown. */
  readonly hint?: (text: string) => string | undefined
  /** The name of one item of a list. */
  readonly item?: string
  /** A field of a list's items that must be unique. */
  readonly unique?: string
  /** Fields of foreign definitions that are known and not read. */
  readonly others?: readonly string[]
  /** Whether an unknown field in it, however deep, takes it out of force. */
  readonly closed?: boolean
  /** Whether the document is in force without it if something in it is wrong. */
  readonly mild?: boolean
  /** Texts that match the pattern but are refused; `ignoreCase` covers A to Z. */
  readonly refuses?: readonly {
    readonly pattern: string
    readonly ignoreCase?: boolean
    readonly message: string
  }[]
  /** Rules that no keyword can express. */
  readonly rules?: readonly Rule[]
  /** The value that is read if the field is missing. */
  readonly missing?: unknown
  /** Whether the field is ignored, given its object. */
  readonly unless?: (of: Readonly<Record<string, unknown>>) => boolean
  /** Only a type; there is no such field. */
  readonly value?: Value
}

type Properties = Readonly<Record<string, Schema>>

/** The type of the values that a schema reads. */
export type ValueOf<Of> = Of extends Schema<infer Value> ? Value : never

export interface Rule {
  /** For the API server; undefined if its own validation suffices. */
  readonly cel?: string
  readonly message: string
  /** A field of the object: if the rule is broken, no other problem of it is reported. */
  readonly instead?: string
  /** The rule for a text that is otherwise valid, or for an object as it is written. */
  readonly holds: (value: never) => boolean
}

const mark = Symbol('may be left out')

interface Optional {
  readonly [mark]: true
}

/** Marks a field as one that may be absent. Readers of a schema as JSON do not see the mark. */
export function optional<const Of extends object>(field: Of): Of & Optional {
  return { ...field, [mark]: true }
}

/** These fields, each of which may be missing. */
export function partial<const Of extends Properties>(
  fields: Of,
): { readonly [Name in keyof Of]: Of[Name] & Optional } {
  const marked = Object.entries(fields).map(([name, field]) => [name, optional(field)])
  return Object.fromEntries(marked) as { [Name in keyof Of]: Of[Name] & Optional }
}

/** The names of the fields that are not optional. */
type RequiredName<Of> = {
  [Name in keyof Of & string]: Of[Name] extends Optional ? never : Name
}[keyof Of & string]

/** The names of fields that must be written: fields without a default that are not optional. */
export function requiredNames<Of extends Readonly<Record<string, object>>>(
  fields: Of,
): RequiredName<Of>[] {
  const isRequired = (field: object) => !(mark in field) && !hasDefault(field)
  return Object.keys(fields).filter((name) =>
    isRequired(fields[name] as object),
  ) as RequiredName<Of>[]
}

/** Whether the field has a valid default; an invalid one only serves the message about a missing field. */
function hasDefault({ missing, minItems = 0, rules = [] }: Partial<Schema>): boolean {
  return (
    missing !== undefined && minItems === 0 && rules.every(({ holds }) => holds(missing as never))
  )
}

/** The type that is read: an optional field may be undefined, every other one is present. */
type Fields<Of> = { readonly [Name in RequiredName<Of>]: ValueOf<Of[Name]> } & {
  readonly [Name in Exclude<keyof Of, RequiredName<Of>>]?: ValueOf<Of[Name]> | undefined
}

/** An object with these fields, all required except `optional` ones and those with a default. */
export function object<Of extends Properties>(
  properties: Of,
  more: Partial<Schema> = {},
): Schema<Fields<Of>> {
  const required = requiredNames(properties)
  return schema('object', { properties, ...(required.length > 0 && { required }), ...more })
}

/** The default maxima of a list and a text. */
const most = { items: 5_000, length: 1_024 }

/** Empty if missing. Without a maximum of its own, the first items are in force. */
export function list<Item>(
  items: Schema<Item>,
  more: Partial<Schema> = {},
): Schema<readonly Item[]> {
  const bound = more.maxItems === undefined && { maxItems: most.items, cut: true }
  return { ...schema('array', { items, ...more, ...bound }), missing: [] }
}

export function text(more: Partial<Schema> = {}): Schema<string> {
  const isBound = more.maxLength !== undefined || more.enum !== undefined
  return schema('string', isBound ? more : { ...more, maxLength: most.length })
}

/** One of these texts. */
export function oneOf<const Choice extends string>(
  choices: readonly Choice[],
  more: Partial<Schema> = {},
): Schema<Choice> {
  return schema('string', { ...more, enum: choices })
}

export function integer(
  minimum: number,
  maximum: number,
  more: Partial<Schema> = {},
): Schema<number> {
  const format = minimum < -2_147_483_648 || maximum > 2_147_483_647 ? 'int64' : 'int32'
  return schema('integer', { format, minimum, maximum, ...more })
}

/** A number that need not be whole. */
export function number(
  minimum: number,
  maximum: number,
  more: Partial<Schema> = {},
): Schema<number> {
  return schema('number', { minimum, maximum, ...more })
}

/** An integer or a text, each validated by its own schema. */
export function integerOrText(of: Schema<number>, orText: Schema<string>): Schema<number | string> {
  return { ...of, orText } as Schema<number | string>
}

export function boolean(more: Partial<Schema> = {}): Schema<boolean> {
  return schema('boolean', more)
}

/** A map of strings, whose first entries are in force; empty if missing. */
export function labels(
  more: Partial<Schema> = {},
  maxLength = 4_096,
): Schema<Readonly<Record<string, string>>> {
  const additionalProperties = { type: 'string', maxLength } as const
  return {
    ...schema('object', { additionalProperties, maxProperties: 1_000, ...more }),
    missing: {},
  }
}

/** Adds a default, `missing`, to a field. */
export function withDefault<Value>(of: Schema<Value>, missing: unknown): Schema<Value> {
  return { ...of, missing }
}

function schema<Value>(type: Schema['type'], more: Partial<Schema>): Schema<Value> {
  return { type, ...more } as Schema<Value>
}

/** Whether a field has a value; null counts as missing. */
export function isWritten(value: unknown): boolean {
  return value !== undefined && value !== null
}

/** A DNS label and a DNS name in lower case (RFC 1123). */
export const dnsLabel = '^[a-z0-9]([-a-z0-9]*[a-z0-9])?$'
export const dnsName = '^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$'
