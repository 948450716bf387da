/** Reads the head of a line, which line-head.ts has written. */

import { isObject } from '../../formats/fields.ts'
import type { Mutable } from '../../formats/mutable.ts'
import { parseObject } from '../../formats/parse-json.ts'
import { parseEstimate } from '../../ratelimit/rules/unreported.ts'
import type { DecidedBy } from './line-head.ts'
import { type HeldUsage, nothingReported, type Usage } from './usage.ts'

/** The head of a line. */
export interface LineHead {
  readonly startedAt: number
  readonly by: DecidedBy
  /** Undefined if nothing was held. */
  readonly held: Omit<HeldUsage, 'id' | 'tookMs' | 'isBroken'> | undefined
  /** The part of the usage that is known at admission, with the request's id; the line's other fields complete it. */
  readonly usage: Mutable<Usage & Required<Pick<Usage, 'response'>>>
}

/** Reads a head, from text or parsed; returns undefined for anything else. Never throws. */
export function parseLineHead(written: unknown): LineHead | undefined {
  const fields = typeof written === 'string' ? parseObject(written) : written
  if (!isObject(fields)) return undefined
  const { start, id, by, user, subscription, model, key, group, payer, cap, held } = fields
  const { prices, weights, limits, windows, key_limits: keyLimits, pool, organization } = fields
  if (!isWholeNumber(start) || typeof id !== 'string' || id === '') return undefined
  if (typeof user !== 'string' || typeof subscription !== 'string') return undefined
  if (typeof model !== 'string' || (by !== 'check' && by !== 'table')) return undefined
  // Assigned one by one: this runs for each line, and spreading takes longer than parsing.
  const usage: LineHead['usage'] = {
    user,
    subscription,
    model,
    status: 0,
    bytes: 0,
    reported: nothingReported,
    response: { id, endedAt: start },
  }
  if (typeof key === 'string') usage.keyId = key
  if (typeof group === 'string') usage.group = group
  if (typeof payer === 'string') usage.payer = payer
  if (typeof cap === 'string') usage.keyCounters = cap
  const estimate = parseEstimate(fields.estimate)
  if (estimate !== undefined) usage.estimate = estimate
  if (typeof prices === 'string') usage.prices = prices
  if (typeof weights === 'string') usage.weights = weights
  if (limits !== undefined || keyLimits !== undefined) {
    usage.limits = [...textsIn(limits), ...textsIn(keyLimits)]
    if (typeof pool === 'string') usage.pool = pool
    if (typeof organization === 'string') usage.organization = organization
    if (fields.cost_limit === true || fields.key_cost_limit === true) usage.hasCostLimit = true
  }
  if (typeof windows === 'string') usage.windows = windows
  if (fields.charge === 'admission') usage.chargesAdmission = true
  return { startedAt: start, by, held: isObject(held) ? readHeld(held) : undefined, usage }
}

function textsIn(list: unknown): readonly string[] {
  return Array.isArray(list) ? list.filter((each) => typeof each === 'string') : []
}

function readHeld({ at, bytes, max, choices, cap }: Readonly<Record<string, unknown>>) {
  if (!isWholeNumber(at)) return undefined
  return {
    admittedAt: at,
    bytes: isWholeNumber(bytes) ? bytes : undefined,
    maxOutput: isWholeNumber(max) ? max : undefined,
    choices: isWholeNumber(choices) ? choices : undefined,
    ceiling: typeof cap === 'number' ? cap : undefined,
  }
}

/** A whole number of 0 or more that JSON has not rounded. */
export function isWholeNumber(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0
}
