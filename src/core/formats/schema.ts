/**
 * The part of JSON Schema that our resources need. One schema serves the reader of documents
 * (fields.ts), the CustomResourceDefinitions (k8s/crds) and docs/resources.md.
 */

export interface Schema {
  readonly type: 'object' | 'array' | 'string' | 'integer' | 'boolean'
  /** A line of Markdown. */
  readonly description?: string
  /** The default, as a line of Markdown. */
  readonly otherwise?: string
  readonly properties?: Readonly<Record<string, Schema>>
  readonly required?: readonly string[]
  /** The values of a map. */
  readonly additionalProperties?: Schema
  readonly items?: Schema
  readonly minItems?: number
  readonly maxItems?: number
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
  /** Texts that match the pattern but are refused; `ignoreCase` covers A to Z. */
  readonly refuses?: readonly {
    readonly pattern: string
    readonly ignoreCase?: boolean
    readonly message: string
  }[]
  /**
   * Rules that no keyword can express, in CEL for the API server. The reader's code has an
   * equivalent with the same message.
   */
  readonly rules?: readonly Rule[]
}

export interface Rule {
  readonly cel: string
  readonly message: string
}

/** An object whose fields must be present if they are in `required`. */
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

/** A DNS label and a DNS name in lower case (RFC 1123). */
export const dnsLabel = '^[a-z0-9]([-a-z0-9]*[a-z0-9])?$'
export const dnsName = '^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$'
