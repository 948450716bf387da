/** Reads the head of a line, which line-head.ts has written. */

import { isObject } from '../../formats/fields.ts'
import type { Mutable } from '../../formats/mutable.ts'
import { parseEstimate } from '../../ratelimit/rules/unreported.ts'
import type { DecidedBy } from './line-head.ts'
import type { HeldUsage, Usage } from './usage.ts'

/** The head of a line. */
export type LineHead = Omit<
  Usage,
  'status' | 'reported' | 'bytes' | 'hasLeft' | 'response' | 'held'
> & {
  readonly startedAt: number
  readonly id: string
  readonly by: DecidedBy
  /** Undefined if nothing was held. */
  readonly held: Omit<HeldUsage, 'id' | 'tookMs' | 'isBroken'> | undefined
}

/** Reads a head, from text or parsed; returns undefined for anything else. Never throws. */
export function readLineHead(written: unknown): LineHead | undefined {
  const fields = typeof written === 'string' ? parseObject(written) : written
  if (!isObject(fields)) return undefined
  const { start, id, by, user, subscription, model, key, group, payer, cap, held } = fields
  const { prices, weights, limits, windows, key_limits: keyLimits, pool, organization } = fields
  if (!isWhole(start) || typeof id !== 'string' || id === '') return undefined
  if (typeof user !== 'string' || typeof subscription !== 'string') return undefined
  if (typeof model !== 'string' || (by !== 'check' && by !== 'table')) return undefined
  // Assigned one by one: this runs for each line, and spreading takes longer than parsing.
  const head: Mutable<LineHead> = {
    startedAt: start,
    id,
    by,
    user,
    subscription,
    model,
    held: undefined,
  }
  if (typeof key === 'string') head.keyId = key
  if (typeof group === 'string') head.group = group
  if (typeof payer === 'string') head.payer = payer
  if (typeof cap === 'string') head.keyCounters = cap
  const estimate = parseEstimate(fields.estimate)
  if (estimate !== undefined) head.estimate = estimate
  if (isObject(held)) head.held = readHeld(held)
  if (typeof prices === 'string') head.prices = prices
  if (typeof weights === 'string') head.weights = weights
  if (limits !== undefined || keyLimits !== undefined) {
    head.limits = [...textsIn(limits), ...textsIn(keyLimits)]
    if (typeof pool === 'string') head.pool = pool
    if (typeof organization === 'string') head.organization = organization
    if (fields.cost_limit === true || fields.key_cost_limit === true) head.hasCostLimit = true
  }
  if (typeof windows === 'string') head.windows = windows
  if (fields.charge === 'admission') head.chargesAdmission = true
  return head
}

function textsIn(list: unknown): readonly string[] {
  return Array.isArray(list) ? list.filter((each) => typeof each === 'string') : []
}

function readHeld({ at, bytes, max, choices, cap }: Readonly<Record<string, unknown>>) {
  if (!isWhole(at)) return undefined
  return {
    admittedAt: at,
    bytes: isWhole(bytes) ? bytes : undefined,
    maxOutput: isWhole(max) ? max : undefined,
    choices: isWhole(choices) ? choices : undefined,
    ceiling: typeof cap === 'number' ? cap : undefined,
  }
}

/** A whole number of 0 or more that JSON has not rounded. */
export function isWhole(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0
}

/** Returns undefined if the text is not a JSON object. */
export function parseObject(text: string): Readonly<Record<string, unknown>> | undefined {
  try {
    const value: unknown = JSON.parse(text)
    return isObject(value) ? value : undefined
  } catch {
    return undefined
  }
}
