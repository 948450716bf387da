/**
 * What a process knows of one window: what its gateway's lines add up to, and what the store has said of
 * this gateway and of all. Each figure only grows, so that it may be told late, twice and in any order.
 */

import { type Exact, greatest, minus, plus } from '../../formats/exact.ts'
import { type Fields, formatSums, highestOf, parseSums, sumOf } from './fields.ts'
import type { CounterWindow } from './windows.ts'

/** What was never told of is as old as that. */
const longAgoMs = 86_400_000

export interface Tally extends CounterWindow {
  /** All windows of the sums that it is of; undefined once it is dropped. */
  among: ReadonlyMap<string, Tally> | undefined
  /** Of this gateway's lines. */
  sum: Exact
  /** What the store has beyond them: of lines that the disk has lost. */
  base: Exact
  /** What the store has of this gateway, at least. */
  field: Exact
  /** What others have counted, at least. */
  others: Exact
  /** By name, as of the last full read; see fields.ts. */
  fields: string
  /** Their sum. */
  fieldsSum: Exact
  /** Whether the store was read, or this window is too young for others to have counted in it. */
  isKnown: boolean
  /** When it was last used, read in full, and told of by the store: `toTick` of a monotonic clock. */
  usedAt: number
  readAt: number
  heardAt: number
}

/** What is not known yet of a window. */
export function createTally(
  window: CounterWindow,
  tick: number,
  among?: ReadonlyMap<string, Tally>,
): Tally {
  const { id, since, end, ms } = window
  // First what each Check reads, so that it is together in memory.
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
    heardAt: toTick(tick - longAgoMs),
    id,
    ms,
    fields: '',
    fieldsSum: 0,
    readAt: tick,
  }
}

/** What this gateway has counted. */
export function ownOf({ sum, base }: Tally): Exact {
  return plus(sum, base)
}

/** What is used, as far as is known; never more than was counted. */
export function usedOf(tally: Tally): Exact {
  return plus(tally.others, greatest(ownOf(tally), tally.field))
}

/**
 * The store has `field` of this gateway and `total` of all. Returns whether it lacks something of what
 * others had counted when they were last read.
 */
export function noteTotal(tally: Tally, field: Exact, total: Exact): boolean {
  if (field > tally.field) tally.field = field
  const others = minus(total, field)
  if (others > tally.others) tally.others = others
  return others < tally.fieldsSum
}

/** The store, and a second place if there is one, have these fields of others. Returns what the store lacks of them. */
export function noteFields(tally: Tally, found: Fields, kept?: Fields): Fields {
  const known = parseSums(tally.fields)
  const most = highestOf(known, found, kept ?? new Map())
  tally.fields = formatSums(most)
  tally.fieldsSum = sumOf(most)
  if (tally.fieldsSum > tally.others) tally.others = tally.fieldsSum
  const lacking = new Map<string, Exact>()
  for (const [name, sum] of most) if (sum > (found.get(name) ?? 0)) lacking.set(name, sum)
  return lacking
}

/**
 * Milliseconds of a monotonic clock as a small whole number, which takes no memory of its own in an
 * object. It comes round after 49 days: only differences of up to 24 mean something, by `ticksBetween`.
 */
export function toTick(monotonicMs: number): number {
  return monotonicMs | 0
}

/** Whether it is less than this long ago; never after 24 days. */
export function isWithin(ms: number, earlier: number, later: number): boolean {
  const between = ticksBetween(earlier, later)
  return between >= 0 && between < ms
}

export function ticksBetween(earlier: number, later: number): number {
  return (later - earlier) | 0
}
