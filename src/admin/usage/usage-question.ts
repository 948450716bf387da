/** The parameters of `GET /v1/usage` → a query of the ledger that the caller may make. */

import { hash } from 'node:crypto'
import type { FromSchema } from 'json-schema-to-ts'
import { invalidRequest } from '../../formats/errors.ts'
import { type Labels, problemOfLabels } from '../../formats/labels.ts'
import { parseJson } from '../../formats/parse-json.ts'
import { isPlainText } from '../../formats/plain-text.ts'
import { dayMs, hourMs, parseTimestamp } from '../../formats/time.ts'
import type { Caller } from '../../identity/rules/caller.ts'
import { userInLines } from '../../ratelimit/rules/counter-key.ts'
import { type UsageQuery, type UsageUnit, usageDimensions, usageUnits } from '../../usage/store.ts'
import { requirePlainText } from '../http/body.ts'
import { string } from '../http/schema.ts'
import { limitFilters, nameSchema } from './limit-state.ts'

export const timeSchema = {
  type: 'string',
  maxLength: 64,
  examples: ['2026-03-01', '2026-03-01T12:00:00Z'],
} as const

export const usageParameters = {
  type: 'object',
  additionalProperties: false,
  properties: {
    from: {
      ...timeSchema,
      description:
        'A day or a time (RFC 3339), rounded down to the hour; by default the beginning of this month. Days and months are in UTC.',
    },
    to: {
      ...timeSchema,
      description: 'Its end, excluded, rounded up to the hour; by default now. At most 366 days.',
    },
    group_by: string(
      'At most one of hour, day and month, and any of subscription, model, user, key, organization, cost_center and one label, as label:<name>, separated by commas; by default day.',
      { maxLength: 256, examples: ['month,model,key'] },
    ),
    user: { ...nameSchema, description: 'Only of this user; any for an administrator.' },
    key: { ...nameSchema, description: 'Only of the key with this id.' },
    ...limitFilters,
    organization: { ...nameSchema, description: 'Only of this organization.' },
    cost_center: { ...nameSchema, description: 'Only of this cost center.' },
    label: {
      ...nameSchema,
      description: 'Only of keys that have this label now.',
      examples: ['team=search'],
    },
    format: string(
      'focus, for administrators: FOCUS 1.2 as CSV, whole days, by everything that usage is summed by. csv and focus omit the sample usage of tollgate demo.',
      { enum: ['json', 'csv', 'focus'], default: 'json' },
    ),
    cursor: {
      ...nameSchema,
      maxLength: 8_192,
      description:
        'The next_cursor of the previous page, with otherwise the same parameters; for CSV it is in the header link.',
    },
  },
} as const

type Parameters = FromSchema<typeof usageParameters, { keepDefaultedPropertiesOptional: true }>

/** Groups in a page. */
export const usagePageSize = 1_000
const maxDays = 366

/**
 * The query of this caller, who sees only what is in `scope`; throws `invalid_request`, naming the
 * parameter. `now` in milliseconds since the epoch.
 */
export function readUsageQuestion(raw: Parameters, scope: Scope, now: number) {
  const { cursor, from, to } = raw
  const groups = raw.format === 'focus' ? readFocus(raw) : readGroups(raw)
  const { unit, by, label } = groups
  const filters = readFilters(raw)
  const labels = readLabel(raw.label)
  const only = { ...filters, ...scope }
  // Another user's key gets the result of an unused one.
  const isForeign = Object.entries(filters).some(([field, value]) => only[field as 'key'] !== value)
  // A cursor continues this query and no other; it does not widen what the caller may see.
  const digest = hash('sha256', JSON.stringify([groups, only, labels, from, to]), 'hex').slice(
    0,
    16,
  )
  const length = by.length + (unit === undefined ? 0 : 1)
  const page = cursor === undefined ? undefined : readCursor(cursor, digest, length, unit)
  const begin = page?.from ?? readTimeField('from', from) ?? startOfMonth(now)
  const end = page?.to ?? readTimeField('to', to) ?? now
  const { format } = raw
  const wholeMs = format === 'focus' ? dayMs : hourMs
  const span = wholeSpanOf(begin, end, wholeMs, maxDays)
  return {
    query: {
      ...span,
      unit,
      by,
      only,
      label,
      labels,
      // The usage of `tollgate demo` is not in files, whose readers would take it for real.
      onlyReal: format === 'csv' || format === 'focus',
      after: page?.after,
      limit: isForeign ? 0 : usagePageSize + 1,
    },
    /** The cursor of the page after this group. */
    cursorAfter: (group: readonly (string | number)[]) =>
      Buffer.from(JSON.stringify([digest, span.from, span.to, ...group])).toString('base64url'),
  }
}

/** The usage a caller may see: its own, or with a key only the key's. Undefined for all usage. */
type Scope = Readonly<Partial<Record<'user' | 'key', string>>> | undefined

/** The scope of a caller who is not an administrator. */
export function usageScopeOf(caller: Caller): Scope {
  return { user: userInLines(caller.user), ...(caller.by === 'key' && { key: caller.keyId }) }
}

function readFilters(raw: Parameters): UsageQuery['only'] {
  const given = usageDimensions.flatMap((dimension) => {
    const value = raw[dimension]
    if (value === undefined) return []
    requirePlainText(dimension, value)
    return [[dimension, dimension === 'user' ? userInLines(value) : value] as const]
  })
  return Object.fromEntries(given)
}

type Groups = Pick<UsageQuery, 'unit' | 'by' | 'label'>

/** A label as `<name>=<value>`: names have no `=`. */
function readLabel(raw: string | undefined): Labels | undefined {
  if (raw === undefined) return undefined
  const [name = ''] = raw.split('=', 1)
  const labels = { [name]: raw.slice(name.length + 1) }
  const problem = problemOfLabels(labels)
  if (problem === undefined) return labels
  throw invalidRequest(`label must be like team=search; it ${problem}`)
}

/** A row of FOCUS is a price times a quantity: it has one subscription, model and list of prices. */
function readFocus({ group_by: raw }: Parameters): Groups {
  if (raw !== undefined) throw invalidRequest('group_by has no meaning with format=focus.')
  return { unit: 'day', by: [...usageDimensions, 'rate', 'prices'] }
}

function readGroups({ group_by: raw = 'day' }: Parameters): Groups {
  const words = raw.split(',')
  for (const word of words) {
    if (isOf(usageUnits, word) || isOf(usageDimensions, word) || isLabel(word)) continue
    const known = [...usageUnits, ...usageDimensions, 'label:<name>']
    throw invalidRequest(`group_by may name ${known.join(', ')}.`)
  }
  const [label, ...further] = words.filter(isLabel)
  if (further.length > 0) throw invalidRequest('group_by may name only one label.')
  if (new Set(words).size < words.length) throw invalidRequest('group_by names something twice.')
  const [unit, another] = words.filter((word) => isOf(usageUnits, word))
  if (another !== undefined)
    throw invalidRequest('group_by may name only one of hour, day and month.')
  const by = usageDimensions.filter((dimension) => words.includes(dimension))
  if (label === undefined) return { unit, by }
  return { unit, by: [...by, 'label'], label: label.slice(labelPrefix.length) }
}

const labelPrefix = 'label:'

function isLabel(word: string): boolean {
  if (!word.startsWith(labelPrefix)) return false
  return problemOfLabels({ [word.slice(labelPrefix.length)]: 'any' }) === undefined
}

function isOf<Word extends string>(words: readonly Word[], word: string): word is Word {
  return (words as readonly string[]).includes(word)
}

/** Milliseconds since the epoch; throws `invalid_request`, naming the field. */
export function readTimeField(
  field: 'from' | 'to' | 'until',
  raw: string | undefined,
): number | undefined {
  if (raw === undefined) return undefined
  const at = parseTimestamp(raw)
  if (isTime(at)) return at
  throw invalidRequest(
    `${field} must be a day like 2026-03-01, or a time like 2026-03-01T12:00:00Z.`,
  )
}

/** Whole hours or days, of `wholeMs`; refuses a span without any, or with too many. */
export function wholeSpanOf(begin: number, end: number, wholeMs: number, maxDays: number) {
  const from = Math.floor(begin / wholeMs) * wholeMs
  const to = Math.ceil(end / wholeMs) * wholeMs
  if (from >= to) throw invalidRequest('from must be before to.')
  if (to - from > maxDays * dayMs) {
    throw invalidRequest(`from must be at most ${maxDays} days before to.`)
  }
  return { from, to }
}

function startOfMonth(now: number): number {
  const date = new Date(now)
  return Date.UTC(date.getUTCFullYear(), date.getUTCMonth())
}

function readCursor(
  raw: string,
  digest: string,
  length: number,
  unit: UsageUnit | undefined,
): Pick<UsageQuery, 'from' | 'to'> & { readonly after: readonly (string | number)[] } {
  const value = parseJson(Buffer.from(raw, 'base64url').toString())
  const [own, from, to, ...after]: readonly unknown[] = Array.isArray(value) ? value : []
  const isOurs =
    own === digest &&
    [from, to, ...(unit === undefined ? [] : after.slice(0, 1))].every(isTime) &&
    after.length === length &&
    after
      .slice(unit === undefined ? 0 : 1)
      .every((value) => typeof value === 'string' && isPlainText(value))
  if (!isOurs)
    throw invalidRequest(
      'cursor is not one of this query: send it with the same parameters as the request that returned it.',
    )
  return { from: Number(from), to: Number(to), after: after as (string | number)[] }
}

/** The last day that ends in a year of four digits, as RFC 3339 writes them. */
const lastTime = Date.UTC(9999, 11, 31)

function isTime(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0 && (value as number) <= lastTime
}
