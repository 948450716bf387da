/**
 * Reads windows with all their fields, also from `longSums`, and the use that a version before per-gateway sums has
 * counted.
 */

import { maxExact } from '../../formats/exact.ts'
import { withTimeout } from '../../runtime/with-timeout.ts'
import { windowKey } from '../redis/keys.ts'
import type { OtherSums } from '../rules/other-sums.ts'
import { longMs } from '../rules/sums.ts'
import { recordFields, type Tally, toTick } from '../rules/tally.ts'
import { counterKeyOfWindow } from '../rules/windows.ts'
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

/** How long a Check waits for `longSums`, in milliseconds. */
const checkWaitMs = 250

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
   * `longSums`; `missing`: sums of others that the store lacks. `tick`: when the store answered.
   */
  function note(tally: Tally, hash: OtherSums, kept: OtherSums, tick: number) {
    const found = new Map(hash)
    const others = new Map(kept)
    const own = found.get(gateway) ?? 0
    const field = maxExact(own, others.get(gateway) ?? 0)
    for (const name of [gateway, totalField]) {
      found.delete(name)
      others.delete(name)
    }
    tally.isKnown = true
    tally.readAt = tick
    return { tally, own, field, missing: recordFields(tally, found, others) }
  }

  /** Sums of long windows; undefined if `longSums` does not respond in time, which is reported elsewhere. */
  async function load(long: readonly Tally[], waitMs: number) {
    let kept: readonly OtherSums[] | undefined
    const loading = longSums?.load(long.map(({ id }) => id)).then((found) => {
      kept = found
    })
    if (loading !== undefined) await withTimeout(waitMs, loading).catch(() => {})
    return kept
  }

  async function readStore(tallies: readonly Tally[], begun: readonly Tally[]) {
    const counted = begun.map((tally) => ({ counter: counterKeyOfWindow(tally), id: tally.id }))
    const [hashes, old = []] = await Promise.all([
      store.read(tallies.map((tally) => windowKey(tag, tally))),
      counted.length === 0 ? [] : store.readOld?.(counted),
    ])
    return { hashes, old, tick: toTick(monotonic()) }
  }

  /**
   * Reads the sums of others in these windows, at most `maxSumsPerCall`, which are known from then on. `isWhole`: not a
   * long window that `longSums` did not report within `waitMs`.
   */
  return async (tallies: readonly Tally[], waitMs = checkWaitMs) => {
    if (tallies.length === 0) return []
    const long = longSums === undefined ? [] : tallies.filter(({ ms }) => ms >= longMs)
    const begun = tallies.filter(mayHaveOld)
    const [{ hashes, old, tick }, kept] = await Promise.all([
      readStore(tallies, begun),
      long.length === 0 ? [] : load(long, waitMs),
    ])
    return tallies.map((tally, i) => {
      const at = long.indexOf(tally)
      const fields = new Map(kept?.[at])
      const sum = old[begun.indexOf(tally)] ?? 0
      if (sum > 0) fields.set(oldField, sum)
      const noted = note(tally, hashes[i] as OtherSums, fields, tick)
      return { ...noted, isWhole: at < 0 || kept !== undefined }
    })
  }
}
