/**
 * The windows of one hash tag: what is to be sent of them, and what the store answers. One process of a gateway writes; the
 * others send nothing of their own and learn the totals.
 */

import { type Exact, plus } from '../../formats/exact.ts'
import { markKeyOf, windowKey } from '../redis/keys.ts'
import { holdLeaseMs } from '../rules/estimates/hold.ts'
import { graceOf, isOver } from '../rules/sums.ts'
import { isWithin, noteTotal, ownOf, type Tally, toTick } from '../rules/tally.ts'
import { createEndedHolds } from './ended-holds.ts'
import { createRepairs } from './repairs.ts'
import { maxEntries, type SumEntry } from './sum-store.ts'
import { createWholeReads, type WholeReadsOptions } from './whole-reads.ts'
import { createWriterMark } from './writer-mark.ts'

export interface PartOptions extends WholeReadsOptions {
  /** The name of this process, never another one's. */
  readonly nonce: string
  /** Whether the process is the one that writes for its gateway. */
  readonly isWriter: () => boolean
  /** All windows of this tag. */
  readonly windows: () => Iterable<Tally>
  /** The store has more of this gateway than the process has counted. */
  readonly onBeyond: (tally: Tally) => void
  /** The store has lost something of what it had acknowledged. */
  readonly onLoss: () => void
  /** Another process has written under this gateway's name. */
  readonly onRival: (nonce: string) => void
}

/** How long the store keeps a window after its end, if it is not over then: longer than a mark, but for the shortest. */
const mostKeptMs = 120_000
/** Windows that were used this recently are restored first. */
const recentMs = 10_000
/** The others go in what is left of calls, at most in 20 of a second. */
export const calmEveryMs = 50
/** How long what has ended is kept by those that do not write: longer than a gateway is without a writer. */
const handoverMs = 10_000
/** Behind the id of a hold that is to end for everybody. */
const endsForAll = '*'
export type Part = ReturnType<typeof createPart>

export function createPart(options: PartOptions) {
  const { tag, gateway, store, isWriter, now, monotonic } = options
  /** To be sent with the next calls. */
  const due = new Set<Tally>()
  /** To be sent as well, at leisure. */
  const calm = new Set<Tally>()
  /** To be read as a whole, once others had time to write again: the store may lack what they had counted. */
  const lacking = new Set<Tally>()
  const repairs = createRepairs()
  const ended = createEndedHolds()
  const mark = createWriterMark(markKeyOf(tag, gateway), options.nonce, monotonic)
  const readAll = createWholeReads(options)
  /** Whether something is due that others wait for, since the last call began. */
  let isUrgent = false
  let noteUrgent = (): void => {}
  let calmAt = Number.NEGATIVE_INFINITY

  const isOpen = (tally: Tally): boolean => !isOver(tally, now())

  function entryOf(tally: Tally, field: string, sum: Exact, at: number): SumEntry {
    const keptMs = Math.max(graceOf(tally), Math.min(mostKeptMs, tally.ms))
    return { key: windowKey(tag, tally), field, sum, ttlMs: tally.end + keptMs - at }
  }

  function ask(tally: Tally): void {
    due.add(tally)
    calm.delete(tally)
  }

  function enter(tally: Tally): void {
    ask(tally)
    hurry()
  }

  function hurry(): void {
    if (isUrgent) return
    isUrgent = true
    noteUrgent()
  }

  /** The next ones to send, with their sums as they are now; `at`: now. */
  function nextBatch(at: number): (readonly [tally: Tally, sum: Exact])[] {
    const batch: (readonly [Tally, Exact])[] = []
    take(due)
    if (calm.size > 0 && monotonic() - calmAt >= calmEveryMs) {
      calmAt = monotonic()
      take(calm)
    }
    return batch

    function take(from: Set<Tally>): void {
      for (const tally of from) {
        if (batch.length >= maxEntries) return
        if (!isOver(tally, at)) batch.push([tally, ownOf(tally)])
        else from.delete(tally)
      }
    }
  }

  /** The store lacks what it had acknowledged: it gets all own sums, and later of others what they can't write any more. */
  function restore(): void {
    const tick = toTick(monotonic())
    for (const tally of options.windows()) {
      if (!isOpen(tally)) continue
      if (isWithin(recentMs, tally.usedAt, tick)) enter(tally)
      else if (!due.has(tally)) calm.add(tally)
      if (tally.fieldsSum > 0) lacking.add(tally)
    }
  }

  /** What the store has of this gateway and of all; `tick`: now. */
  function receive(tally: Tally, field: Exact, total: Exact, tick: number): void {
    tally.heardAt = tick
    if (noteTotal(tally, field, total)) lacking.add(tally)
    if (!isWriter()) return
    // It has grown meanwhile, or the store has lost it.
    if (field < ownOf(tally)) enter(tally)
    else if (field > ownOf(tally)) options.onBeyond(tally)
  }

  async function send(): Promise<void> {
    isUrgent = false
    const at = now()
    const batch = nextBatch(at)
    const writes = isWriter()
    const rest = writes ? repairs.next(maxEntries - batch.length, isOpen) : []
    if (!writes && batch.length === 0) {
      // Whether the store answers is known before a Check needs it.
      await store.read([mark.key])
      return
    }
    const entries = batch.map(([tally, sum]) => entryOf(tally, gateway, writes ? sum : 0, at))
    for (const [tally, name, sum] of rest) entries.push(entryOf(tally, name, sum, at))
    const sent = writes ? mark.next() : undefined
    // All that is due has gone before, or goes with it: a hold ends after its response was counted.
    const holds = writes && due.size <= batch.length ? ended.next(maxEntries) : []
    const answer = await store.write(sent, entries, holds)
    ended.forget(holds)
    for (const [tally] of batch) {
      calm.delete(tally)
      due.delete(tally)
    }
    repairs.forget(rest)
    const event = sent && mark.compare(sent, answer)
    if (event !== undefined) restore()
    if (event === 'rival') options.onRival(answer.nonce)
    if (event === 'lost') options.onLoss()
    // One look at the clocks for all.
    const [receivedAt, tick] = [now(), toTick(monotonic())]
    for (const [i, [tally]] of batch.entries()) {
      const [field, total] = answer.sums[i] as readonly [Exact, Exact]
      if (!isOver(tally, receivedAt)) receive(tally, field, total, tick)
    }
  }

  /** Reads all fields of these windows, at most `maxEntries`, and notes what the store lacks of them. */
  async function readWhole(tallies: readonly Tally[]): Promise<void> {
    for (const { tally, own, field, missing } of await readAll(tallies)) {
      lacking.delete(tally)
      if (isWriter() && missing.size > 0) repairs.set(tally, missing)
      if (isOpen(tally)) receive(tally, field, plus(field, tally.fieldsSum), tally.readAt)
      if (isWriter() && own < ownOf(tally)) enter(tally)
    }
  }

  return {
    tag,
    gateway,
    /** Windows that the next call has something of, and users whose holds end with it. */
    get due(): number {
      return due.size + repairs.size + (isWriter() ? ended.size : 0)
    },
    /** Windows that are sent at leisure, and not the next moment. */
    get calm(): number {
      return calm.size
    },
    /** Windows that are to be read as a whole, because the store may lack something of them. */
    get lacking(): number {
      return lacking.size
    },
    /** Called when something is to be sent soon, for the first time since the last call began. */
    whenUrgent(listener: () => void): void {
      noteUrgent = listener
    },
    /** Sends its sum with the next call, which is urgent. */
    enter,
    /** Asks for its total with the next call. */
    ask,
    /**
     * Has the hold of a request end once its response is in the store; call it after that was counted, in every
     * process: what a writer was told and has not sent when it is killed the next one sends.
     */
    end(keys: readonly string[], id: string): void {
      // What has waited for a lease has ended with it.
      ended.add(keys, id, monotonic(), isWriter() ? holdLeaseMs : handoverMs)
      if (isWriter()) hurry()
    },
    /**
     * The last ones of these keys that may hold in the store still, although their responses are counted here; and
     * those before them, which end there with this call: a gateway may be without a writer for seconds.
     */
    lastEnded(keys: readonly string[]): readonly string[] {
      if (isWriter()) return ended.last(keys)
      return [...ended.older(keys).map((id) => `${id} ${endsForAll}`), ...ended.last(keys)]
    },
    /**
     * One call: what is due, and the mark of the writer even if nothing is. Rejects without a response;
     * everything is then due as before, and the next call has newer sums. Must not overlap.
     */
    send,
    readWhole,
    /** Reads as a whole some of the windows that the store may lack something of. */
    async mend(): Promise<void> {
      for (const tally of lacking) if (!isOpen(tally)) lacking.delete(tally)
      await readWhole([...lacking].slice(0, maxEntries))
    },
    /** Nothing is known of the store: it gets all sums. At a start, and when this process becomes the writer. */
    begin(): void {
      mark.forget()
      for (const tally of options.windows()) {
        if (isOpen(tally) && ownOf(tally) > 0) enter(tally)
      }
      if (ended.size > 0) hurry()
    },
  }
}
