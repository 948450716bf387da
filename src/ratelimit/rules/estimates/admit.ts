/**
 * Decides whether a request fits into the rest of its limits, given the holds of requests in progress.
 *
 * Each limit has two conditions. The pooled estimate keeps the window full: past use, plus the expected use of all open
 * requests and this one, plus one and a half standard deviations, is within the limit. The ceilings are the promise:
 * past use, plus the maximum use of all of these, is within the limit and its overshoot. A request that is alone in a
 * limit is admitted there while anything is left, whatever its estimate. Its ceiling is then within the same promise
 * or, for one answer, the need of most answers if that is more. Several answers that can have no ceiling are admitted
 * only if the need of most of them is within the promise.
 */

import { type ExactInt, subtractExact } from '../../../formats/exact.ts'
import type { Expectation } from './estimator.ts'
import {
  coversInput,
  type Factors,
  firstOutputP99,
  type HeldAmount,
  type HeldSums,
  heldAmountOf,
  maxHold,
  outputWithin,
} from './held-amounts.ts'

/** A limit during an admission. */
export interface Room {
  readonly limit: ExactInt
  /** Counted in the window. */
  readonly used: ExactInt
  readonly held: HeldSums
  readonly factors?: Factors | undefined
}

export type Admission =
  /** `hold`: in tokens; `holds`: in the unit of each limit. `ceiling`: maximum number of output tokens, or Infinity. */
  | {
      readonly outcome: 'held'
      readonly hold: HeldAmount
      readonly holds: readonly HeldAmount[]
      readonly ceiling: number
    }
  /**
   * `busy`: open requests hold the rest of a limit, or the rest is less than the request needs; `spent`: nothing is
   * left.
   */
  | { readonly outcome: 'busy' | 'spent' }

/** Standard deviations that stay free: fewer fill windows better, but exceed the limit more often. */
export const deviations = 1.5
/** The relative error that the estimates of one subscription's requests have in common. */
export const sharedError = 0.25
/** The share of the room that one request's ceiling may take, so that others can join it. */
export const ceilingShare = 0.25

/**
 * `overshoot`: share of the limit. `canLimitOutput`: whether the gateway can set the ceiling in the request; if not,
 * the ceiling is what 99 of 100 such requests need at most.
 */
export function admitRequest(
  rooms: readonly Room[],
  expected: Expectation,
  overshoot: number,
  canLimitOutput: boolean,
): Admission {
  const needed = Math.ceil(Math.max(expected.floor, expected.least))
  let ceiling = canLimitOutput ? expected.worst : Math.min(expected.worst, needed)
  for (const room of rooms) {
    if (room.used >= room.limit) return { outcome: 'spent' }
    if (canLimitOutput) ceiling = Math.min(ceiling, ceilingIn(room, expected, needed, overshoot))
  }
  if (canLimitOutput && ceiling < expected.least) return { outcome: 'busy' }
  const hold = heldAmountOf(expected, ceiling)
  const holds = rooms.map(({ factors }) =>
    factors ? heldAmountOf(expected, ceiling, factors) : hold,
  )
  for (const [i, room] of rooms.entries()) {
    const own = holds[i] as HeldAmount
    // Nothing shortens several answers without a ceiling: the need of most of them must fit.
    const mayPass =
      canLimitOutput || !expected.isSeveral || own.most <= ceilingRoom(room, overshoot)
    if (room.held.count === 0 ? !mayPass : !fits(room, own, overshoot)) return { outcome: 'busy' }
  }
  return {
    outcome: 'held',
    hold,
    holds,
    ceiling: canLimitOutput && ceiling < maxHold ? ceiling : Infinity,
  }
}

/** Maximum output that a request alone may be given while its limits are unused. */
export function maxOutputAlone(
  limits: readonly Pick<Room, 'limit' | 'factors'>[],
  expected: Expectation,
  overshoot: number,
): number {
  let most = Number.POSITIVE_INFINITY
  for (const { limit, factors } of limits) {
    const unused = outputWithin(unusedRoom(limit, overshoot), expected.input, factors)
    most = Math.min(most, mostOf(unused, unused, expected))
  }
  return most
}

/**
 * The limit that lacks room: one that is too small for the request's least output although nothing is held, so that
 * waiting for other requests does not help; else the one that allows the least output. `held`: by other requests.
 */
export function scarcestLimit(
  limits: readonly (Omit<Room, 'held'> & { readonly held: number })[],
  expected: Expectation,
  overshoot: number,
): { readonly index: number; readonly isShort: boolean } {
  const all = limits.map(({ limit, used, held, factors }, index) => {
    const whole = unusedRoom(limit, overshoot)
    const amount = whole - Number(used) - held
    const outputs = outputWithin(amount, expected.input, factors)
    // A limit on input counts no output, but may lack room for the input.
    const left =
      outputs < Infinity || coversInput(amount, expected.input, factors) ? outputs : -Infinity
    const most = mostOf(left, outputWithin(whole, expected.input, factors), expected)
    return { index, left, isShort: held === 0 && most < expected.least }
  })
  const short = all.filter((each) => each.isShort)
  const scarcest = (short.length > 0 ? short : all).reduce((a, b) => (b.left < a.left ? b : a))
  return { ...scarcest, isShort: scarcest.isShort || limits.every(({ held }) => held === 0) }
}

/** The output that one limit allows a request: a share of the room, but at least what the request needs. */
function ceilingIn(room: Room, expected: Expectation, needed: number, overshoot: number): number {
  const left = ceilingRoom(room, overshoot)
  const outputs = (amount: number) => outputWithin(amount, expected.input, room.factors)
  const share = outputs(Math.min(left * ceilingShare, maxHold))
  if (room.held.count > 0) return Math.max(needed, share)
  const unused = outputs(unusedRoom(room.limit, overshoot))
  return Math.max(Math.min(needed, mostOf(outputs(left), unused, expected)), share)
}

/**
 * Maximum output of a request that is alone: the output for which the rest of the limit suffices, or `beyondRoom` if
 * that is more. However long answers have become, `beyondRoom` counts at most as the output that an unused limit
 * allows, or `firstOutputP99` if that is more. Several answers get only the rest, unless their input alone is estimated to
 * exceed an unused limit.
 */
function mostOf(left: number, unused: number, { beyondRoom, isSeveral }: Expectation): number {
  if (isSeveral && unused > 0) return left
  const beyond = Math.min(Math.ceil(beyondRoom), Math.max(firstOutputP99, unused))
  return Math.max(beyond, left)
}

/** Whether a request with this hold fits beside those in progress. */
export function fits(room: Room, hold: HeldAmount, overshoot: number): boolean {
  const { held, factors } = room
  const error = sharedError * (held.output + hold.output)
  const variance = (factors?.grain ?? 1) ** 2 * (held.variance + hold.variance)
  const deviation = Math.sqrt(variance + error * error)
  const pooled = held.mean + hold.mean + deviations * deviation
  return pooled <= leftOf(room) && hold.most <= ceilingRoom(room, overshoot)
}

/** The room for further ceilings in a limit; negative while a single request exceeds it. */
function ceilingRoom(room: Room, overshoot: number): number {
  const { limit, held } = room
  return leftOf(room) + (unusedRoom(limit, overshoot) - Number(limit)) - held.most
}

/** Amounts of money may exceed exact doubles; the rest is exact wherever it decides. */
function leftOf({ limit, used }: Room): number {
  return Number(subtractExact(limit, used))
}

function unusedRoom(limit: ExactInt, overshoot: number): number {
  return Math.floor(Number(limit) * (1 + overshoot))
}
