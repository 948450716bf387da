/**
 * Reads the fields of a document by its schema. Every reader returns a value of the right type or
 * undefined, and records what was wrong and where. One pass finds all problems.
 */

import type { Schema } from './schema.ts'

/** A position in a document: field names and list indexes from the root. */
export type FieldPath = readonly (string | number)[]

/** One problem of a document; `message` says how to fix it. */
export interface FieldProblem {
  readonly path: FieldPath
  readonly message: string
}

/** `spec.modelRefs[2].name`, as kubectl prints it. */
export function showPath(path: FieldPath): string {
  let shown = ''
  for (const step of path) {
    if (typeof step === 'number') shown += `[${step}]`
    else shown += shown === '' ? step : `.${step}`
  }
  return shown
}

/** A cursor on one value of the document; children share its list of problems. */
export interface Field {
  readonly path: FieldPath
  /** Whether there is a value (null counts as missing, as in Kubernetes). */
  readonly present: boolean
  /**
   * A field of an object. Throws if the schema does not have it, since that is a bug in the caller.
   */
  at(name: string): Field
  /** Whether this is an object; records a problem if not. */
  object(): boolean
  /** The cursors of a list's items; empty if missing. */
  list(): readonly Field[]
  /** The items of a list of strings, all of which must be present. */
  texts(): readonly string[]
  /** An optional field that must be an object if present. */
  inside(name: string): Field
  string(): string | undefined
  requiredString(): string
  integer(): number | undefined
  requiredInteger(): number
  boolean(): boolean | undefined
  /** A map of strings to strings; empty if missing. */
  strings(): Readonly<Record<string, string>>
  problem(message: string): void
}

/** A cursor on the whole document. Problems are appended to `problems`. */
export function readField(
  value: unknown,
  problems: FieldProblem[],
  schema: Schema,
  path: FieldPath = [],
): Field {
  const present = value !== undefined && value !== null
  const problem = (message: string): void => void problems.push({ path, message })

  const field: Field = {
    path,
    present,
    problem,
    at(name) {
      const inside = schema.properties?.[name] ?? schema.additionalProperties
      if (inside === undefined) throw new Error(`no schema has ${showPath([...path, name])}`)
      return readField(isObject(value) ? value[name] : undefined, problems, inside, [...path, name])
    },
    object() {
      if (isObject(value)) return true
      problem(present ? 'must be an object' : 'is required')
      return false
    },
    list() {
      if (present && !Array.isArray(value)) {
        problem('must be a list')
        return []
      }
      const items: readonly unknown[] = Array.isArray(value) ? value : []
      const { item = 'item', minItems = 0, maxItems = Number.POSITIVE_INFINITY } = schema
      const inside = schema.items
      if (inside === undefined) throw new Error(`no schema has the items of ${showPath(path)}`)
      if (items.length < minItems) problem(`needs at least ${minItems} ${item}`)
      if (items.length > maxItems) {
        problem(`must have at most ${maxItems} ${item}s`)
        return []
      }
      return items.map((each, index) => readField(each, problems, inside, [...path, index]))
    },
    texts: () => field.list().map((item) => item.requiredString()),
    inside(name) {
      const inner = field.at(name)
      if (inner.present) inner.object()
      return inner
    },
    string() {
      if (!present) return undefined
      const wrong =
        typeof value === 'string'
          ? breaks(value, schema)
          : `must be a string, is ${typeName(value)}`
      if (wrong === undefined) return value as string
      problem(wrong)
      return undefined
    },
    requiredString() {
      if (!present) problem('is required')
      return field.string() ?? ''
    },
    integer() {
      if (!present) return undefined
      const { minimum = Number.NaN, maximum = Number.NaN } = schema
      if (Number.isInteger(value) && Number(value) >= minimum && Number(value) <= maximum) {
        return value as number
      }
      problem(`must be a whole number from ${minimum} to ${maximum}`)
      return undefined
    },
    requiredInteger() {
      if (!present) problem('is required')
      return field.integer() ?? schema.minimum ?? 0
    },
    boolean() {
      if (!present) return undefined
      if (typeof value === 'boolean') return value
      problem('must be true or false')
      return undefined
    },
    strings() {
      if (!present || !field.object()) return {}
      // null counts as missing here too.
      const entries = Object.entries(value as object).filter(([, text]) => text !== null)
      for (const [name, text] of entries) {
        if (typeof text !== 'string') field.at(name).problem('must be a string')
      }
      return Object.fromEntries(entries.filter(([, text]) => typeof text === 'string'))
    },
  }
  return field
}

/** How a text violates its schema. The length is checked before the pattern, which takes longer. */
function breaks(text: string, schema: Schema): string | undefined {
  const { minLength = 0, maxLength = Number.POSITIVE_INFINITY, pattern, refuses = [] } = schema
  const length = lengthOf(text)
  if (length < minLength) return text === '' ? 'must not be empty' : `needs ${minLength} characters`
  if (length > maxLength) return `must have at most ${maxLength} characters`
  if (schema.enum?.includes(text) === false) return `must be one of ${schema.enum.join(', ')}`
  if (pattern !== undefined && !compiled(pattern).test(text)) return `must be ${schema.form}`
  return refuses.find(({ pattern, ignoreCase }) => compiled(pattern, ignoreCase).test(text))
    ?.message
}

/** In code points, as JSON Schema counts. */
function lengthOf(text: string): number {
  const pairs = text.match(/[\ud800-\udbff][\udc00-\udfff]/g)
  return text.length - (pairs?.length ?? 0)
}

const expressions = new Map<string, RegExp>()

function compiled(pattern: string, ignoreCase = false): RegExp {
  const key = `${ignoreCase}${pattern}`
  const known = expressions.get(key) ?? new RegExp(pattern, ignoreCase ? 'i' : '')
  expressions.set(key, known)
  return known
}

/** Whether this is an object: not a list and not null. */
export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function typeName(value: unknown): string {
  return Array.isArray(value) ? 'a list' : `a ${typeof value}`
}
