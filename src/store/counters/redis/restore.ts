/**
 * How a process restores a Redis that has lost its data: restarted without them or from an older
 * copy, flushed while connections stayed open, or replaced by an empty node. A loss is detected by
 * the epoch stored with the data, one for each hash tag: there is none, or another one, or it is the
 * same but a batch that this process has counted there is missing (its mark is lower).
 *
 * The result is never more than was used, and less by at most what was added during the loss:
 *
 * - **Sums.** Every process offers the last sum of each open window that it received; the window
 *   starts with the highest. Each was true at some moment, so the highest is at most what was used.
 *   Tokens that were never sent are added to it.
 * - **Epochs** only increase. A new one is later than all that its first process knows, whatever
 *   Redis's clock says, and a store with an earlier one than a process knows is an older copy, which
 *   gets a new one. So a sum offered to a store never includes what that store has counted in its
 *   epoch.
 * - **Records.** For each restored counter the store keeps what it was given, with the epoch, so that
 *   a later offer adds only the difference, and what was counted meanwhile stays. After the next loss
 *   an older copy may still have the record, but what was counted since is in the offered sums as
 *   well: a record of another epoch counts for nothing.
 * - **The batch in flight** may be in a sum that another process received, because perhaps only its
 *   response was lost. Its tokens `d` are offered as doubtful, beside the sum `k` from before they
 *   were sent. A received sum that includes them is at least `k + d`. So they are added if the
 *   highest sum is lower than that, and left out otherwise. (The comparison is not with the store's
 *   own sum: an older copy may have got the batch after it was copied.) They end with their window.
 * - **Counted responses** are lost too, and the journal reports many of them again. Each response
 *   of Redis says until when the responses that it has counted ended (`until`, per journal, by its
 *   gateway's clock alone), and a process offers that with the sums. Responses that ended by the
 *   highest of them (`cut`) are taken as counted; later ones are in no sum that any process
 *   received.
 * - **Resets.** A reset ends a window, and responses that ended before it are not added any more. Every
 *   process learns of it with its next response, at the latest a second later, drops what it knows of the
 *   counter, and offers the reset too. A sum that was offered earlier, by a process that had not heard
 *   of it, is dropped then, and later ones of such a process are refused.
 * - **Order.** For its first seconds (`youngMs`) a store accepts no reports. After that it accepts
 *   nothing from a process that knows of ends later than `cut`, because reports in its sums may have
 *   been counted again.
 */

import type { CounterAnswer } from './scripts.ts'
import type { SharedCounter } from './shared-counter.ts'
import { isOpen } from './view.ts'

/** What Redis reports about itself with each response. */
export interface StoreState {
  /** Empty if it has none yet: nothing has been counted there. */
  readonly epoch: string
  /** Until when, per journal, the responses that it has counted ended. */
  readonly untils: ReadonlyMap<string, number>
  /** How many resets it has made. */
  readonly resetCount: number
  /** As of when (ms) counters were reset, by their keys: the last ones, in no order. */
  readonly resets: readonly (readonly [key: string, at: number])[]
}

/** Reads the store hash of a response. Throws for an unexpected form. */
export function readState([time, store]: CounterAnswer): StoreState {
  if (typeof time !== 'number' || !Array.isArray(store)) {
    throw new Error('the response of Redis has an unexpected form')
  }
  let epoch = ''
  let resetCount = 0
  const resets: [string, number][] = []
  const untils = new Map<string, number>()
  for (let i = 0; i < store.length; i += 2) {
    const [field, value] = [store[i] as string, store[i + 1] as string]
    if (field === 'epoch') epoch = value
    else if (field === 'resets') resetCount = Number(value)
    else if (field.startsWith('reset:')) {
      const end = value.indexOf(' ')
      resets.push([value.slice(end + 1), Number(value.slice(0, end))])
    } else if (field.startsWith('until:')) untils.set(field.slice('until:'.length), Number(value))
  }
  return { epoch, untils, resetCount, resets }
}

/** Counters per offer; a script blocks Redis while it runs. */
const offerSize = 512
/** A window with less than this left is not worth restoring, and may be a timing error. */
const minRestoredMs = 2_000

/** The counters of one call, and its number, which stays the same when it is repeated. */
export interface Offer {
  readonly number: number
  readonly counters: readonly SharedCounter[]
}

/** Tokens that an earlier store may or may not have counted, and the end of their window. */
export interface Doubt {
  readonly tokens: number
  readonly endsAt: number
}

/** Whether a window that ends then is worth restoring. */
export function isRestorable(endsAt: number, now: number): boolean {
  return endsAt - now > minRestoredMs
}

/** The counters, in parts, that a store of this epoch must get. */
export function toOffers(
  counters: Iterable<SharedCounter>,
  doubts: ReadonlyMap<SharedCounter, Doubt>,
  epoch: string,
  now: number,
): (readonly SharedCounter[])[] {
  const lost: SharedCounter[] = []
  for (const counter of counters) {
    if (!isOpen(counter, now) || !isRestorable(counter.endsAt, now)) continue
    if (knownIn(counter, epoch) > 0 || doubts.has(counter)) lost.push(counter)
  }
  const offers: SharedCounter[][] = []
  for (let i = 0; i < lost.length; i += offerSize) offers.push(lost.slice(i, i + offerSize))
  return offers
}

/** The arguments of one counter: the rest of its window, its known sum and its doubtful tokens. */
export function offerOf(
  counter: SharedCounter,
  doubts: ReadonlyMap<SharedCounter, Doubt>,
  epoch: string,
  now: number,
): readonly number[] {
  const leftMs = Math.max(0, Math.ceil(counter.endsAt - now))
  return [leftMs, knownIn(counter, epoch), doubts.get(counter)?.tokens ?? 0]
}

/** The counter's last sum, if it came from another store than this. */
function knownIn({ sumEpoch, used }: SharedCounter, epoch: string): number {
  return sumEpoch === '' || sumEpoch === epoch ? 0 : used
}
