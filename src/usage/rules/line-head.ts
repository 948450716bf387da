/**
 * Writes the head of a line: the facts known of a request at its admission, as one JSON object that the gateway copies
 * as text. All values are escaped here, so that no name can end the object, and bounded, so that a line is never longer
 * than `lineBytes`.
 */

import { cutText, toBoundedJson } from '../../formats/bounded-text.ts'
import { parsePayer } from '../../models/rules/payer.ts'
import { maxGroupBytes, maxUserBytes } from '../../ratelimit/rules/counter-key.ts'
import type { HoldRecord } from '../../ratelimit/rules/hold.ts'
import { formatEstimate } from '../../ratelimit/rules/unreported.ts'

/**
 * Length of the longest line that a gateway's script writes, with both of its line ends: for a request with 20 limits
 * by name from each of four resources, all with the longest names.
 */
export const lineBytes = 16_384

/** What admitted the request: a Check, or the decision table. */
export type DecidedBy = 'check' | 'table'

/** The part that many requests share. */
export interface LineSubject {
  readonly subscription: string
  /** `<namespace>/<name>`. */
  readonly model: string
  readonly payer: string | undefined
  readonly group: string | undefined
  /** Members of the object (models/rules/tariff.ts), if there are any. */
  readonly tariff?: string | undefined
}

/** The part of one request. */
export interface LineRequest {
  /** When its first byte arrived, by the gateway's clock, in milliseconds since the epoch. */
  readonly startedAt: number
  /** The gateway's request id. */
  readonly id: string
  readonly by: DecidedBy
  readonly user: string
  /** Empty for identity tokens. */
  readonly keyId: string
  /** The counters of its key with which it was admitted, if any. */
  readonly keyCounters: string | undefined
  /**
   * The group whose counter the request uses; empty for the users listed by name, undefined if no limit is per group.
   */
  readonly pool?: string | undefined
  /** Its key's limits by name: members of the object (`KeyLimits.charged`). */
  readonly keyLimits?: string | undefined
  readonly held: HoldRecord | undefined
}

/** Maximum bytes of each value with its quotes and escapes; together they leave room for all figures. */
const most = {
  id: 80,
  user: maxUserBytes,
  key: 80,
  keyCounters: 176,
  subscription: 272,
  model: 352,
  group: maxGroupBytes,
  payerField: 160,
}

/** Members of the object; cache them for the requests that share them. */
export function formatSubject({ subscription, model, payer, group, tariff }: LineSubject): string {
  let text = `"subscription":${toBoundedJson(subscription, most.subscription)},"model":${toBoundedJson(model, most.model)}`
  if (payer !== undefined) text += `,"payer":${JSON.stringify(boundPayer(payer))}`
  if (group !== undefined) text += `,"group":${toBoundedJson(group, most.group)}`
  return tariff === undefined ? text : `${text},${tariff}`
}

/** Members of the object that describe the caller. */
export function formatCaller({
  user,
  keyId,
  keyCounters,
  pool,
  keyLimits,
}: Pick<LineRequest, 'user' | 'keyId' | 'keyCounters' | 'pool' | 'keyLimits'>): string {
  let text = `"user":${toBoundedJson(user, most.user)}`
  if (keyId !== '') text += `,"key":${toBoundedJson(keyId, most.key)}`
  if (keyCounters !== undefined) text += `,"cap":${toBoundedJson(keyCounters, most.keyCounters)}`
  if (pool !== undefined) text += `,"pool":${toBoundedJson(pool, most.group)}`
  if (keyLimits !== undefined) text += `,${keyLimits}`
  return text
}

/** The object up to its subject, which `formatSubject` returns. `start` is first, because the script reads it there. */
export function headBeforeSubject({
  startedAt,
  id,
  by,
}: Pick<LineRequest, 'startedAt' | 'id' | 'by'>) {
  return `{"start":${startedAt},"id":${toBoundedJson(id, most.id)},"by":"${by}",`
}

/** The object after its subject. */
export function headAfterSubject(asked: Omit<LineRequest, 'startedAt' | 'id' | 'by'>): string {
  const { held } = asked
  return `,${formatCaller(asked)}${held === undefined ? '' : writeHeld(held)}}`
}

/** Leaves out unknown numbers. Concatenated, because `JSON.stringify` takes longer than the rest of the line. */
function writeHeld({ admittedAt, bytes, maxOutput, choices, ceiling, estimate }: HoldRecord) {
  const rest = `${member('bytes', bytes)}${member('max', maxOutput)}${member('choices', choices)}${member('cap', ceiling)}`
  const estimated = estimate && `,"estimate":"${formatEstimate(estimate)}"`
  return `,"held":{"at":${admittedAt}${rest}}${estimated ?? ''}`
}

function member(name: string, value = Number.POSITIVE_INFINITY): string {
  return Number.isFinite(value) ? `,"${name}":${value}` : ''
}

/** Cuts the values of a payer that are too long, one by one: cut as a whole, its text could not be parsed. */
function boundPayer(payer: string): string {
  const longest = 'organization=&cost_center=&rate='.length + 3 * most.payerField
  if (payer.length <= longest) return payer
  const written = new URLSearchParams()
  const { organization, costCenter, rate } = parsePayer(payer)
  for (const [name, value] of Object.entries({ organization, cost_center: costCenter, rate })) {
    const isLong = urlEncode(value).length > most.payerField
    if (value !== '') written.set(name, isLong ? cutText(value, most.payerField, urlEncode) : value)
  }
  return written.toString()
}

function urlEncode(value: string): string {
  return new URLSearchParams([['', value]]).toString().slice(1)
}
