/**
 * JSON Schema as far as our resources need it. One description serves three: the reader of
 * documents (fields.ts), the CustomResourceDefinitions (k8s/crds) and docs/resources.md.
 */

export interface Schema {
  readonly type: 'object' | 'array' | 'string' | 'integer' | 'boolean'
  /** A line of Markdown. */
  readonly description?: string
  /** What holds where it is left out; a line of Markdown. */
  readonly otherwise?: string
  readonly properties?: Readonly<Record<string, Schema>>
  readonly required?: readonly string[]
  /** Of a map: what each value is. */
  readonly additionalProperties?: Schema
  readonly items?: Schema
  readonly minItems?: number
  readonly maxItems?: number
  /** In code points, as JSON Schema and Kubernetes count. */
  readonly minLength?: number
  readonly maxLength?: number
  /** In what RE2 and JavaScript read alike. */
  readonly pattern?: string
  readonly enum?: readonly string[]
  readonly minimum?: number
  readonly maximum?: number
  readonly format?: 'int32' | 'int64' | 'date-time'
  /** What a pattern asks for, as the end of "must be …". */
  readonly form?: string
  /** What one item of a list is called. */
  readonly item?: string
  /** Texts that are refused although they have the form; `ignoreCase` goes for A to Z. */
  readonly refuses?: readonly {
    readonly pattern: string
    readonly ignoreCase?: boolean
    readonly message: string
  }[]
  /**
   * What no keyword says, in CEL for the API server. The reader's code has its counterpart, and
   * says the same message.
   */
  readonly rules?: readonly Rule[]
}

export interface Rule {
  readonly cel: string
  readonly message: string
}

/** An object whose fields have to be there when they are named in `required`. */
export function object(
  properties: Readonly<Record<string, Schema>>,
  required: readonly string[] = [],
  more: Partial<Schema> = {},
): Schema {
  return { type: 'object', properties, ...(required.length > 0 && { required }), ...more }
}

export function list(items: Schema, more: Partial<Schema> = {}): Schema {
  return { type: 'array', items, ...more }
}

export function text(more: Partial<Schema> = {}): Schema {
  return { type: 'string', ...more }
}

export function integer(minimum: number, maximum: number, more: Partial<Schema> = {}): Schema {
  const format = minimum < -2_147_483_648 || maximum > 2_147_483_647 ? 'int64' : 'int32'
  return { type: 'integer', format, minimum, maximum, ...more }
}

export function boolean(more: Partial<Schema> = {}): Schema {
  return { type: 'boolean', ...more }
}

/** A map of strings to strings. */
export function labels(more: Partial<Schema> = {}): Schema {
  return { type: 'object', additionalProperties: { type: 'string' }, ...more }
}

/** A name of one part, and one of several, as RFC 1123 has them in lower case. */
export const dnsLabel = '^[a-z0-9]([-a-z0-9]*[a-z0-9])?$'
export const dnsName = '^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$'
