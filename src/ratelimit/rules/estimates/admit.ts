/**
 * Whether a request fits into what its limits have left, counting what open requests hold.
 *
 * Two conditions. The pooled estimate keeps the window full: what is used, plus the expected tokens of
 * all open requests and this one, plus one and a half standard deviations, is within the limit. The ceilings are
 * the promise: what is used, plus the most that all of these can use, is within the limit and its
 * overshoot. A request alone is admitted while anything is left, whatever its estimate. Its ceiling is then within
 * the same promise, or what most answers need, if it is one answer and that is more. Several answers that can have no
 * ceiling are only admitted if what most of them need is within it.
 */

import { type Expected, firstFloor } from './estimator.ts'
import { type HeldTokens, mostVariance, type Sums } from './hold.ts'

/** A limit during an admission. */
export interface Room {
  readonly limit: number
  /** Tokens counted in the window. */
  readonly used: number
  readonly held: Sums
}

export type Admission =
  /** `cap`: the output tokens that it may have; Infinity: it has no ceiling. */
  | { readonly outcome: 'held'; readonly hold: HeldTokens; readonly cap: number }
  /** `busy`: what is left is held by open requests, or less than it needs; `spent`: nothing is left. */
  | { readonly outcome: 'busy' | 'spent' }

/** Standard deviations that are kept free: fewer fill windows better, and pass the limit more often. */
export const deviations = 1.5
/** How far the estimates of one subscription's requests are wrong together. */
export const sharedError = 0.25
/** The share of the room that one request's ceiling may take, so that others can join it. */
export const ceilingShare = 0.25

/**
 * `overshoot`: share of the limit. `canCap`: whether the ceiling can be put into the request; if not,
 * it is what 99 of 100 such requests need at most.
 */
export function admit(
  rooms: readonly Room[],
  expected: Expected,
  overshoot: number,
  canCap: boolean,
): Admission {
  let isAlone = true
  let left = Number.POSITIVE_INFINITY
  let unused = Number.POSITIVE_INFINITY
  for (const room of rooms) {
    if (room.used >= room.limit) return { outcome: 'spent' }
    if (room.held.count > 0) isAlone = false
    left = Math.min(left, ceilingRoom(room, overshoot))
    unused = Math.min(unused, unusedRoom(room.limit, overshoot))
  }
  const floor = Math.max(expected.floor, expected.least)
  const needed = isAlone && canCap ? Math.min(floor, mostOf(left, unused, expected)) : floor
  const { hold, cap } = toHold(expected, needed, canCap ? left * ceilingShare : 0, canCap)
  if (canCap && cap < expected.least) return { outcome: 'busy' }
  // Without a ceiling nothing but their number bounds several answers.
  const mayPass = canCap || !expected.isSeveral || hold.ceiling <= left
  if (isAlone ? mayPass : fits(rooms, hold, overshoot)) return { outcome: 'held', hold, cap }
  return { outcome: 'busy' }
}

/** The most output tokens that a request alone may be given while its limits are unused. */
export function mostEver(limits: readonly number[], expected: Expected, overshoot: number): number {
  const unused = unusedRoom(Math.min(...limits), overshoot)
  return mostOf(unused, unused, expected)
}

/**
 * The most output that a request alone may be given: what is left, or what it may have beyond that. However long answers
 * have become, that is at most what an unused limit gives, or the first floor if that is more. Several answers get what
 * is left, unless their input alone is estimated to pass an unused limit.
 */
function mostOf(left: number, unused: number, expected: Expected): number {
  const { input, beyondRoom, isSeveral } = expected
  const own = Math.ceil(input)
  if (isSeveral && own < unused) return left - own
  const beyond = Math.min(Math.ceil(beyondRoom), Math.max(firstFloor, unused - own))
  return Math.max(beyond, left - own)
}

/** Whether a request with this hold fits beside those that are open. */
export function fits(rooms: readonly Room[], hold: HeldTokens, overshoot: number): boolean {
  return rooms.every((room) => {
    const { limit, used, held } = room
    const error = sharedError * (held.output + hold.output)
    const deviation = Math.sqrt(held.variance + hold.variance + error * error)
    const pooled = used + held.mean + hold.mean + deviations * deviation
    return pooled <= limit && hold.ceiling <= ceilingRoom(room, overshoot)
  })
}

/** What ceilings may still take of a limit; below 0 while one request alone exceeds it. */
export function ceilingRoom({ limit, used, held }: Room, overshoot: number): number {
  return unusedRoom(limit, overshoot) - used - held.ceiling
}

function unusedRoom(limit: number, overshoot: number): number {
  return Math.floor(limit * (1 + overshoot))
}

/** The hold of a request that may take this much room, and its output this much in any case. */
export function toHold(
  { input, inputVariance, output, outputVariance, worst }: Expected,
  needed: number,
  room: number,
  canCap: boolean,
): { readonly hold: HeldTokens; readonly cap: number } {
  const cap = Math.min(worst, Math.max(Math.ceil(needed), Math.floor(room - input)))
  const mean = Math.min(Math.ceil(output), cap)
  return {
    hold: {
      mean: Math.ceil(input) + mean,
      variance: Math.min(mostVariance, Math.ceil(inputVariance + outputVariance)),
      output: mean,
      ceiling: Math.ceil(input) + cap,
    },
    cap: canCap ? cap : Number.POSITIVE_INFINITY,
  }
}
