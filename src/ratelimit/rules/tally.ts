/**
 * The facts that a process knows of one window: the sum of its gateway's lines, and the store's reports on this gateway
 * and on all. Each figure only grows, so reports may arrive late, twice and in any order.
 */

import { addExact, type ExactInt, maxExact, subtractExact } from '../../formats/exact.ts'
import { formatSums, highestSums, type OtherSums, parseSums, totalOf } from './other-sums.ts'
import type { CounterWindow } from './windows.ts'

/** The age of a window that was never reported. */
const longAgoMs = 86_400_000

export interface Tally extends CounterWindow {
  /** All windows of its sums; undefined once it is dropped. */
  among: ReadonlyMap<string, Tally> | undefined
  /** The sum of this gateway's lines. */
  sum: ExactInt
  /** The amount that the store has of this gateway beyond its lines, because the disk has lost some. */
  base: ExactInt
  /** A lower bound of this gateway's sum in the store. */
  field: ExactInt
  /** A lower bound of the use that other gateways have counted. */
  others: ExactInt
  /** By gateway, as of the last full read; see other-sums.ts. */
  fields: string
  /** The sum of `fields`. */
  fieldsSum: ExactInt
  /** Whether the store was read, or this window is too young for others to have counted in it. */
  isKnown: boolean
  /** When it was last used, read in full, and reported by the store: ticks of a monotonic clock (`toTick`). */
  usedAt: number
  readAt: number
  reportedAt: number
}

/** A window of which nothing is known yet. */
export function createTally(
  window: CounterWindow,
  tick: number,
  among?: ReadonlyMap<string, Tally>,
): Tally {
  const { id, since, end, ms } = window
  // The fields that each Check reads come first, so that they are together in memory.
  return {
    among,
    since,
    end,
    others: 0,
    sum: 0,
    base: 0,
    field: 0,
    usedAt: tick,
    isKnown: false,
    reportedAt: toTick(tick - longAgoMs),
    id,
    ms,
    fields: '',
    fieldsSum: 0,
    readAt: tick,
  }
}

/** Whether the store has reported it since its start; else, if it is known, it is too young for others to have counted. */
export function isReported({ reportedAt, readAt }: Tally): boolean {
  return ticksBetween(reportedAt, readAt) < longAgoMs
}

/** The use that this gateway has counted. */
export function ownUseOf({ sum, base }: Tally): ExactInt {
  return addExact(sum, base)
}

/** The known use; never more than was counted. */
export function knownUse(tally: Tally): ExactInt {
  return addExact(tally.others, maxExact(ownUseOf(tally), tally.field))
}

/**
 * Notes that the store has `field` of this gateway and `total` of all. Returns whether the store has lost some of what
 * others had counted at the last full read.
 */
export function recordTotal(tally: Tally, field: ExactInt, total: ExactInt): boolean {
  if (field > tally.field) tally.field = field
  const others = subtractExact(total, field)
  if (others > tally.others) tally.others = others
  return others < tally.fieldsSum
}

/**
 * Notes the fields of other gateways, from the store and from a second store if there is one. Returns the fields that
 * the store lacks.
 */
export function recordFields(tally: Tally, found: OtherSums, kept?: OtherSums): OtherSums {
  const known = parseSums(tally.fields)
  const most = highestSums(known, found, kept ?? new Map())
  tally.fields = formatSums(most)
  tally.fieldsSum = totalOf(most)
  if (tally.fieldsSum > tally.others) tally.others = tally.fieldsSum
  const lacking = new Map<string, ExactInt>()
  for (const [name, sum] of most) if (sum > (found.get(name) ?? 0)) lacking.set(name, sum)
  return lacking
}

/**
 * Milliseconds of a monotonic clock as a 32-bit integer, which needs no allocation of its own in an object. It wraps
 * after 49 days: only differences of up to 24 days are meaningful (`ticksBetween`).
 */
export function toTick(monotonicMs: number): number {
  return monotonicMs | 0
}

/** Whether `later` is less than `ms` after `earlier`; false after 24 days. */
export function isWithin(ms: number, earlier: number, later: number): boolean {
  const between = ticksBetween(earlier, later)
  return between >= 0 && between < ms
}

/** Milliseconds from one tick to a later one; negative if the second is the earlier. */
export function ticksBetween(earlier: number, later: number): number {
  return (later - earlier) | 0
}
