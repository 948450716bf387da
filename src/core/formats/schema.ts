/**
 * The part of JSON Schema that our resources need. One schema serves the reader of documents
 * (fields.ts), the types of what it reads (`ValueOf`), the CustomResourceDefinitions (k8s/crds) and
 * docs/resources.md.
 */

/** `Value` is the type of a valid value as it is read. */
export interface Schema<Value = unknown> {
  readonly type: 'object' | 'array' | 'string' | 'integer' | 'boolean'
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
  /** The most bytes of all texts of a list, in UTF-8. */
  readonly maxBytes?: number
  /** Whether the first items of a list that is too long are in force. */
  readonly cut?: boolean
  /** The most entries of a map. */
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
  /** The pattern in words, as the end of "must be …". */
  readonly form?: string
  /** The name of one item of a list. */
  readonly item?: string
  /** A field of a list's items of which no two may have the same text. */
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
  /** What no keyword can express. */
  readonly rules?: readonly Rule[]
  /** What is read if the field is missing. */
  readonly missing?: unknown
  /** Whether the field is not read, given its object. */
  readonly unless?: (of: Readonly<Record<string, unknown>>) => boolean
  /** Only a type; there is no such field. */
  readonly value?: Value
}

type Properties = Readonly<Record<string, Schema>>

/** The type of what is read by a schema. */
export type ValueOf<Of> = Of extends Schema<infer Value> ? Value : never

export interface Rule {
  /** For the API server; undefined: its own validation is enough. */
  readonly cel?: string
  readonly message: string
  /** The same for a text that is otherwise valid, or for an object as it is written. */
  readonly holds: (value: never) => boolean
}

interface Filled {
  readonly missing: unknown
}

const mark = Symbol('must be there')

interface Required {
  readonly [mark]: true
}

type Present<Of> = {
  readonly [Name in keyof Of]: Of[Name] extends Required | Filled ? Name : never
}[keyof Of]

/** The fields of an object; one that may be missing is undefined then. */
type Fields<Of> = { readonly [Name in Present<Of>]: ValueOf<Of[Name]> } & {
  readonly [Name in Exclude<keyof Of, Present<Of>>]?: ValueOf<Of[Name]> | undefined
}

/** The same field, which must be there. */
export function required<Value>(field: Schema<Value>): Schema<Value> & Required {
  return { ...field, [mark]: true }
}

export function object<Of extends Properties>(
  properties: Of,
  more: Partial<Schema> = {},
): Schema<Fields<Of>> {
  const required = Object.keys(properties).filter((name) => mark in (properties[name] as Schema))
  return schema('object', { properties, ...(required.length > 0 && { required }), ...more })
}

/** What a list and a text have at most that do not say it. */
const most = { items: 5_000, length: 1_024 }

/** Empty if missing. Of one that does not say how long it may be, the first items are in force. */
export function list<Item>(
  items: Schema<Item>,
  more: Partial<Schema> = {},
): Schema<readonly Item[]> & Filled {
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

export function boolean(more: Partial<Schema> = {}): Schema<boolean> {
  return schema('boolean', more)
}

/** A map of strings to strings, of which the first entries are in force; empty if missing. */
export function labels(
  more: Partial<Schema> = {},
  maxLength = 4_096,
): Schema<Readonly<Record<string, string>>> & Filled {
  const additionalProperties = { type: 'string', maxLength } as const
  return {
    ...schema('object', { additionalProperties, maxProperties: 1_000, ...more }),
    missing: {},
  }
}

/** The same field, which is read as `missing` if it is missing. */
export function filled<Value>(of: Schema<Value>, missing: unknown): Schema<Value> & Filled {
  return { ...of, missing }
}

function schema<Value>(type: Schema['type'], more: Partial<Schema>): Schema<Value> {
  return { type, ...more } as Schema<Value>
}

/** A DNS label and a DNS name in lower case (RFC 1123). */
export const dnsLabel = '^[a-z0-9]([-a-z0-9]*[a-z0-9])?$'
export const dnsName = '^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$'
