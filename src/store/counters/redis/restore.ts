/**
 * What a process tells a Redis that has lost its data: one that was restarted without them or from
 * an older copy, flushed behind a connection that was kept, or replaced by an empty node. It is
 * known by its epoch, which is stored with the data, one for each hash tag.
 *
 * What comes of it is never more than was used, and less by no more than what came in during the
 * loss:
 *
 * - **Sums.** Every process offers the sum of each open window as it was last told; the highest is
 *   what the window begins with. Each of them is true of some moment, so that the highest is no more
 *   than was used. What was never sent is added on top.
 * - **The batch under way** may be in the sum that another process was told, since only its answer
 *   may have been lost. Its tokens `d` are offered as doubt, beside the sum `k` that was told before
 *   they were sent. A sum that was told and holds them is `k + d` at least; where the highest is less
 *   than that, they are added, else they are left out. (Not to what the store holds already: where it is an
 *   older copy, the batch may have been added to that.)
 * - **Responses counted** are gone too, and the journal tells of many again. With each answer Redis
 *   says until when responses had ended of those that it had counted (`until`, of each journal by its
 *   gateway's clock alone), and a process offers that with the sums. What ended by the highest of them
 *   (`cut`) is taken for counted; later ends are in no sum that anybody was told.
 * - **Order.** For its first seconds (`youngMs`) a store takes no reports; afterwards no sums of
 *   somebody who was told of later ends than `cut`, since reports may have been counted that are in
 *   these sums.
 */

import type { CounterAnswer } from './scripts.ts'
import type { SharedCounter } from './shared-counter.ts'
import { isOpen } from './view.ts'

/** What Redis says of itself with each answer. */
export interface StoreState {
  /** Empty where it has none yet: nothing has been counted there. */
  readonly epoch: string
  /** Until when the responses of each journal have ended that it has counted. */
  readonly untils: ReadonlyMap<string, number>
}

/** Reads the store hash of an answer. Throws where an answer is of another form. */
export function readState([time, store]: CounterAnswer): StoreState {
  if (typeof time !== 'number' || !Array.isArray(store)) {
    throw new Error('Redis answered in another form')
  }
  let epoch = ''
  const untils = new Map<string, number>()
  for (let i = 0; i < store.length; i += 2) {
    const [field, value] = [store[i] as string, store[i + 1] as string]
    if (field === 'epoch') epoch = value
    else if (field.startsWith('until:')) untils.set(field.slice('until:'.length), Number(value))
  }
  return { epoch, untils }
}

/** Offered at once; a script blocks Redis while it runs. */
const offerSize = 512
/** Below this what is left of a window is not worth restoring, and may be an error of timing. */
const leastRestoredMs = 2_000

/** Counters that are offered by one call, and its number, which stays the same when it is repeated. */
export interface Offer {
  readonly number: number
  readonly counters: readonly SharedCounter[]
}

/** The counters, some at a time, that a store of this epoch is to be told of. */
export function toOffers(
  counters: Iterable<SharedCounter>,
  doubts: ReadonlyMap<SharedCounter, number>,
  epoch: string,
  now: number,
): (readonly SharedCounter[])[] {
  const lost: SharedCounter[] = []
  for (const counter of counters) {
    if (!isOpen(counter, now) || counter.endsAt - now <= leastRestoredMs) continue
    if (knownIn(counter, epoch) > 0 || doubts.has(counter)) lost.push(counter)
  }
  const offers: SharedCounter[][] = []
  for (let i = 0; i < lost.length; i += offerSize) offers.push(lost.slice(i, i + offerSize))
  return offers
}

/** The arguments of one counter: how long its window has left, what is known and what is in doubt. */
export function offerOf(
  counter: SharedCounter,
  doubts: ReadonlyMap<SharedCounter, number>,
  epoch: string,
  now: number,
): readonly number[] {
  const leftMs = Math.max(0, Math.ceil(counter.endsAt - now))
  return [leftMs, knownIn(counter, epoch), doubts.get(counter) ?? 0]
}

/** What a store told of the counter, if it was another one than this. */
function knownIn({ toldIn, used }: SharedCounter, epoch: string): number {
  return toldIn === '' || toldIn === epoch ? 0 : used
}
