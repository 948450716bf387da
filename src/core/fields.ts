/**
 * Reads the fields of a document that a person wrote: every reader answers a value of the right
 * type or undefined, and notes what was wrong and where. One pass finds all the problems.
 */

/** Where in a document: field names and list positions from the root. */
export type FieldPath = readonly (string | number)[]

/** One thing wrong with a document; `message` says the mend. */
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

export interface StringRule {
  readonly min?: number
  readonly max?: number
  readonly pattern?: RegExp
  /** What the pattern asks for, as the end of "must be …". */
  readonly form?: string
  readonly oneOf?: readonly string[]
}

export interface NumberRule {
  readonly min: number
  readonly max: number
}

/** A cursor on one value of the document; children share its list of problems. */
export interface Field {
  readonly path: FieldPath
  /** Whether the value is there at all (null counts as left out, as in Kubernetes). */
  readonly present: boolean
  at(name: string): Field
  /** An object, else a problem; says whether it is one. */
  object(): boolean
  /** The cursors of a list's items; empty when left out. A list shorter than `min` is a problem. */
  list(rule?: { min?: number; what?: string }): readonly Field[]
  string(rule?: StringRule): string | undefined
  requiredString(rule?: StringRule): string
  integer(rule: NumberRule): number | undefined
  requiredInteger(rule: NumberRule): number
  boolean(): boolean | undefined
  /** A map of strings to strings; empty when left out. */
  strings(): Readonly<Record<string, string>>
  problem(message: string): void
}

/** A cursor on the whole document. Problems are appended to `problems` as they are found. */
export function readField(
  value: unknown,
  problems: FieldProblem[],
  path: FieldPath = ['$'],
): Field {
  const shownPath = path[0] === '$' ? path.slice(1) : path
  const present = value !== undefined && value !== null
  const problem = (message: string): void => void problems.push({ path: shownPath, message })

  const field: Field = {
    path: shownPath,
    present,
    problem,
    at: (name) => readField(isObject(value) ? value[name] : undefined, problems, [...path, name]),
    object() {
      if (isObject(value)) return true
      problem(present ? 'must be an object' : 'is required')
      return false
    },
    list({ min = 0, what = 'item' } = {}) {
      if (present && !Array.isArray(value)) {
        problem('must be a list')
        return []
      }
      const items: readonly unknown[] = Array.isArray(value) ? value : []
      if (items.length < min) problem(`needs at least ${min} ${what}`)
      return items.map((item, index) => readField(item, problems, [...path, index]))
    },
    string(rule = {}) {
      if (!present) return undefined
      if (typeof value !== 'string') {
        problem(`must be a string, is ${typeName(value)}`)
        return undefined
      }
      const wrong = breaks(value, rule)
      if (wrong !== undefined) {
        problem(wrong)
        return undefined
      }
      return value
    },
    requiredString(rule = {}) {
      if (!present) problem('is required')
      return field.string(rule) ?? ''
    },
    integer({ min, max }) {
      if (!present) return undefined
      if (typeof value === 'number' && Number.isInteger(value) && value >= min && value <= max) {
        return value
      }
      problem(`must be a whole number from ${min} to ${max}`)
      return undefined
    },
    requiredInteger(rule) {
      if (!present) problem('is required')
      return field.integer(rule) ?? rule.min
    },
    boolean() {
      if (!present) return undefined
      if (typeof value === 'boolean') return value
      problem('must be true or false')
      return undefined
    },
    strings() {
      if (!present || !field.object()) return {}
      const entries = Object.entries(value as object)
      for (const [name, text] of entries) {
        if (typeof text !== 'string') field.at(name).problem('must be a string')
      }
      return Object.fromEntries(entries.filter(([, text]) => typeof text === 'string'))
    },
  }
  return field
}

function breaks(
  text: string,
  { min = 0, max, pattern, form, oneOf }: StringRule,
): string | undefined {
  if (text.length < min) return text === '' ? 'must not be empty' : `needs ${min} characters`
  if (max !== undefined && text.length > max) return `must have at most ${max} characters`
  if (oneOf !== undefined && !oneOf.includes(text)) return `must be one of ${oneOf.join(', ')}`
  if (pattern !== undefined && !pattern.test(text)) return `must be ${form}`
  return undefined
}

/** An object with fields: no list, not null. */
export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function typeName(value: unknown): string {
  return Array.isArray(value) ? 'a list' : `a ${typeof value}`
}
