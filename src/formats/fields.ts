/** Reads a document by its schema; one pass finds all problems, with their places. */

import { getOrAdd } from './lists.ts'
import type { Rule, Schema } from './schema.ts'

/** A position in a document: field names and list indexes from the root. */
export type FieldPath = readonly (string | number)[]

/** A parsed JSON object, not validated. */
export type JsonObject = Readonly<Record<string, unknown>>

/** One problem of a document; `message` says how to fix it. */
export interface FieldProblem {
  readonly path: FieldPath
  readonly message: string
  /** Whether the document is in force nevertheless. */
  readonly isMild?: boolean
}

/** Maximum number of characters of a field's name in a path. */
const shownLength = 100

/** `spec.modelRefs[2].name`, as kubectl prints it, in one line. */
export function formatPath(path: FieldPath): string {
  let shown = ''
  for (const step of path) {
    if (typeof step === 'number') shown += `[${step}]`
    else shown += `${shown === '' ? '' : '.'}${showName(step)}`
  }
  return shown
}

function showName(name: string): string {
  const cut = name.length > shownLength ? `${name.slice(0, shownLength)}…` : name
  return cut.replace(/\p{Cc}/gu, '?')
}

/** The value at a path in a document. */
export function valueAt(document: unknown, path: FieldPath): unknown {
  let value = document
  for (const step of path) {
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, step)) return undefined
    value = (value as Readonly<Record<string | number, unknown>>)[step]
  }
  return value
}

/**
 * Reads the value by its schema: without other fields, null counting as missing, as in Kubernetes. Appends the
 * problems; if one is not mild, the result is incomplete and must not be used.
 */
export function readFields<Value>(
  raw: unknown,
  schema: Schema<Value>,
  problems: FieldProblem[],
  path: FieldPath = [],
): Value {
  return read(raw ?? schema.missing, schema, problems, path) as Value
}

function read(value: unknown, schema: Schema, problems: FieldProblem[], path: FieldPath): unknown {
  if (schema.mild) return readMildly(value, { ...schema, mild: false }, problems, path)
  const problem = (message: string): undefined => void problems.push({ path, message })
  if (value === undefined || value === null) return problem('is required')
  if (schema.type === 'boolean') {
    return typeof value === 'boolean' ? value : problem('must be true or false')
  }
  if (schema.orText !== undefined && typeof value === 'string') {
    return read(value, schema.orText, problems, path)
  }
  if (schema.type === 'integer' || schema.type === 'number') {
    const wrong = breaksNumber(value, schema) ?? broken(value, schema)?.message
    return wrong === undefined ? value : problem(wrong)
  }
  if (schema.type === 'string') {
    if (typeof value !== 'string') return problem(`must be a string, is ${describe(value)}`)
    const wrong = breaks(value, schema) ?? broken(value, schema)?.message
    return wrong === undefined ? value : problem(wrong)
  }
  if (schema.type === 'array') {
    if (!Array.isArray(value)) return problem('must be a list')
    return readItems(value, schema, problems, path)
  }
  if (!isObject(value)) return problem(`must be ${schema.form ?? 'an object'}`)
  if (schema.additionalProperties !== undefined) return readMap(value, schema, problems, path)
  if (schema.properties === undefined) return value
  const fields: Record<string, unknown> = {}
  const wrong = broken(value, schema)
  for (const [name, inside] of Object.entries(schema.properties)) {
    if (name === wrong?.instead) continue
    const inner = inside.unless?.(value) ? undefined : (value[name] ?? inside.missing)
    if (inner === undefined && !schema.required?.includes(name)) continue
    fields[name] = read(inner, inside, problems, [...path, name])
  }
  return wrong === undefined ? fields : problem(wrong.message)
}

/** undefined if anything in the value is wrong. */
function readMildly(
  value: unknown,
  schema: Schema,
  problems: FieldProblem[],
  path: FieldPath,
): unknown {
  const own: FieldProblem[] = []
  const result = read(value, schema, own, path)
  for (const problem of own) problems.push({ ...problem, isMild: true })
  return own.length === 0 ? result : undefined
}

function readItems(
  raw: readonly unknown[],
  schema: Schema,
  problems: FieldProblem[],
  path: FieldPath,
): unknown {
  const { item = 'item', items: inside, unique } = schema
  const { minItems = 0, maxItems = Number.POSITIVE_INFINITY } = schema
  const problem = (message: string): void => void problems.push({ path, message })
  const tooMany = raw.length > maxItems
  if (raw.length < minItems) problem(`needs at least ${minItems} ${item}`)
  if (tooMany && !schema.cut) return problem(`must have at most ${maxItems} ${item}s`)
  const items = firstOf(raw, schema)
  if (items.length < raw.length) {
    const most = tooMany ? `${maxItems} ${item}s` : `${schema.maxBytes} bytes`
    const message = `must have at most ${most}; the first ${items.length} are in force`
    problems.push({ path, message, isMild: true })
  }
  if (inside === undefined) return items
  if (unique !== undefined) refuseRepeats(items, unique, problems, path)
  return items.map((each, index) => read(each, inside, problems, [...path, index]))
}

/** The first items, as many as may be in force by their number and total bytes. */
function firstOf(items: readonly unknown[], { maxItems, maxBytes }: Schema): readonly unknown[] {
  const first = maxItems === undefined ? items : items.slice(0, maxItems)
  if (maxBytes === undefined) return first
  let left = maxBytes
  const end = first.findIndex((item) => {
    left -= typeof item === 'string' ? Buffer.byteLength(item) : 0
    return left < 0
  })
  return end < 0 ? first : first.slice(0, end)
}

function refuseRepeats(
  items: readonly unknown[],
  field: string,
  problems: FieldProblem[],
  path: FieldPath,
): void {
  const seen = new Set<unknown>()
  for (const [index, item] of items.entries()) {
    const text = isObject(item) ? item[field] : undefined
    if (typeof text !== 'string' || text === '') continue
    if (seen.has(text)) {
      problems.push({ path: [...path, index, field], message: `"${text}" is there twice` })
    }
    seen.add(text)
  }
}

/** A map of strings; null counts as missing here too. */
function readMap(
  map: Readonly<Record<string, unknown>>,
  { additionalProperties = { type: 'string' }, maxProperties = Number.POSITIVE_INFINITY }: Schema,
  problems: FieldProblem[],
  path: FieldPath,
): unknown {
  const all = Object.entries(map).filter(([, text]) => text !== null)
  const entries = all.slice(0, maxProperties)
  if (entries.length < all.length) {
    const message = `must have at most ${maxProperties} entries; only the first ${maxProperties} are used`
    problems.push({ path, message, isMild: true })
  }
  for (const [name, text] of entries) {
    const wrong = typeof text === 'string' ? breaks(text, additionalProperties) : 'must be a string'
    if (wrong !== undefined) problems.push({ path: [...path, name], message: wrong })
  }
  return Object.fromEntries(entries)
}

function broken(value: unknown, { rules = [] }: Schema): Rule | undefined {
  return rules.find(({ holds }) => !holds(value as never))
}

function breaksNumber(value: unknown, { type, minimum, maximum }: Schema): string | undefined {
  const isOne = type === 'integer' ? Number.isInteger(value) : typeof value === 'number'
  const number = isOne ? Number(value) : Number.NaN
  if (number >= (minimum ?? Number.NaN) && number <= (maximum ?? Number.NaN)) return undefined
  const whole = type === 'integer' ? 'whole ' : ''
  return `must be a ${whole}number from ${minimum} to ${maximum}${hintForNumber(value)}`
}

/** In YAML 1_000 and 1'000 are texts. */
function hintForNumber(value: unknown): string {
  return typeof value === 'string' && /^\d{1,3}([_,'’ ]\d{3})+$/.test(value)
    ? ` (did you mean ${value.replace(/\D/g, '')}?)`
    : ''
}

/** How a text violates its schema. The length is checked before the pattern, which takes longer. */
function breaks(text: string, schema: Schema): string | undefined {
  const { minLength = 0, maxLength = Number.POSITIVE_INFINITY, pattern, refuses = [] } = schema
  const length = lengthOf(text)
  if (length < minLength) return text === '' ? 'must not be empty' : `needs ${minLength} characters`
  if (length > maxLength) return `must have at most ${maxLength} characters`
  if (schema.enum?.includes(text) === false) {
    return `must be one of ${schema.enum.join(', ')}${hintFor(text, schema)}`
  }
  if (pattern !== undefined && !compiled(pattern).test(text)) {
    return `must be ${schema.form}${hintFor(text, schema)}`
  }
  return refuses.find(({ pattern, ignoreCase }) => compiled(pattern, ignoreCase).test(text))
    ?.message
}

function hintFor(text: string, { hint }: Schema): string {
  const found = hint?.(text)
  return found === undefined ? '' : ` (${found})`
}

/** In code points, as JSON Schema counts. */
function lengthOf(text: string): number {
  const pairs = text.match(/[\ud800-\udbff][\udc00-\udfff]/g)
  return text.length - (pairs?.length ?? 0)
}

const expressions = new Map<string, RegExp>()

function compiled(pattern: string, ignoreCase = false): RegExp {
  const make = () => new RegExp(pattern, ignoreCase ? 'i' : '')
  return getOrAdd(expressions, `${ignoreCase}${pattern}`, make)
}

/** Whether this is an object: not a list and not null. */
export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** Describes a value that is not a text. YAML reads `2e-6` and `true` as text only if they are quoted. */
function describe(value: unknown): string {
  if (Array.isArray(value)) return 'a list'
  return isObject(value) ? 'an object' : `a ${typeof value}: write it in quotes`
}
