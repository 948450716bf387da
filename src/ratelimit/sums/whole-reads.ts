/**
 * Reads windows with all their fields, also from `longSums`, and the use that a version before per-gateway sums has
 * counted.
 */

import { greatest } from '../../formats/exact.ts'
import { windowKey } from '../redis/keys.ts'
import type { Fields } from '../rules/fields.ts'
import { longMs } from '../rules/sums.ts'
import { noteFields, type Tally, toTick } from '../rules/tally.ts'
import { keyIn } from '../rules/windows.ts'
import { type LongSums, oldField, type SumStore, totalField } from './sum-store.ts'

export interface WholeReadsOptions {
  readonly tag: string
  /** The name of this gateway: short and unique. */
  readonly gateway: string
  readonly store: SumStore
  readonly longSums?: LongSums | undefined
  /** Milliseconds since the epoch. */
  readonly now: () => number
  /** A monotonic clock in milliseconds. */
  readonly monotonic: () => number
}

export function createWholeReads(options: WholeReadsOptions) {
  const { tag, gateway, store, longSums, monotonic } = options
  const startedAt = options.now()

  /** Whether a version before per-gateway sums may have counted in it, before this process started. */
  function mayHaveOld({ isKnown, since, end, ms }: Tally): boolean {
    const isReset = since > end - ms
    return !isKnown && !isReset && since <= startedAt && startedAt < end
  }

  /**
   * Notes the fields of a window. `own`: the store's sum of this gateway; `field`: the higher of this and the sum in
   * `longSums`; `missing`: sums of others that the store lacks.
   */
  function note(tally: Tally, hash: Fields, kept: Fields) {
    const found = new Map(hash)
    const others = new Map(kept)
    const own = found.get(gateway) ?? 0
    const field = greatest(own, others.get(gateway) ?? 0)
    for (const name of [gateway, totalField]) {
      found.delete(name)
      others.delete(name)
    }
    tally.isKnown = true
    tally.readAt = toTick(monotonic())
    return { tally, own, field, missing: noteFields(tally, found, others) }
  }

  /** Reads the sums of others in these windows, at most `maxEntries`, which are known from then on. */
  return async (tallies: readonly Tally[]) => {
    if (tallies.length === 0) return []
    const long = longSums === undefined ? [] : tallies.filter(({ ms }) => ms >= longMs)
    const ids = long.map(({ id }) => id)
    const kept = (ids.length > 0 && (await longSums?.load(ids).catch(() => []))) || []
    const begun = tallies.filter(mayHaveOld)
    const counted = begun.map((tally) => ({ counter: keyIn(tally), id: tally.id }))
    const [hashes, old = []] = await Promise.all([
      store.read(tallies.map((tally) => windowKey(tag, tally))),
      counted.length === 0 ? [] : store.readOld?.(counted),
    ])
    return tallies.map((tally, i) => {
      const fields = new Map(kept[long.indexOf(tally)])
      const sum = old[begun.indexOf(tally)] ?? 0
      if (sum > 0) fields.set(oldField, sum)
      return note(tally, hashes[i] as Fields, fields)
    })
  }
}
