/**
 * A partition: the windows whose keys in Redis have one hash tag. Builds calls to the store from due windows, and
 * applies the responses. Only the gateway's writer sends sums; its other processes only read totals.
 */

import { addExact, type ExactInt } from '../../formats/exact.ts'
import { windowKey, writerMarkKey } from '../redis/keys.ts'
import { holdLeaseMs } from '../rules/hold.ts'
import { isEnded, sendGraceMs } from '../rules/sums.ts'
import { isWithin, ownUseOf, recordTotal, type Tally, toTick } from '../rules/tally.ts'
import { createEndedHolds } from './ended-holds.ts'
import { createMissingSums } from './missing-sums.ts'
import { maxSumsPerCall, type SumEntry } from './sum-store.ts'
import { createWholeReads, type WholeReadsOptions } from './whole-reads.ts'
import { createWriterMark } from './writer-mark.ts'

export interface PartitionOptions extends WholeReadsOptions {
  /** Identifies this process; unique. */
  readonly nonce: string
  /** Whether this process is its gateway's writer. */
  readonly isWriter: () => boolean
  /** All windows of this tag. */
  readonly windows: () => Iterable<Tally>
  /** Called when the store has more of this gateway than the process has counted. */
  readonly onBeyond: (tally: Tally) => void
  /** Called when the store has lost something that it had acknowledged. */
  readonly onLoss: () => void
  /** Called when another process has written under this gateway's name. */
  readonly onRival: (nonce: string) => void
}

/**
 * Maximum time that the store retains a window after its end: longer than a mark. Shorter windows remain for their
 * length, long ones until they are over.
 */
const mostKeptMs = 120_000
/** Windows used this recently are restored first. */
const recentMs = 10_000
/** The others fill the rest of a call, at most 20 times a second. */
export const deferredEveryMs = 50
/** How long processes other than the writer remember ended holds: longer than a gateway is without a writer. */
const handoverMs = 10_000
/** How long `readIncomplete`, for which nobody waits, gives `longSums`: more than a statement has. */
const rereadWaitMs = 10_000
/** Appended to the id of a hold that must end for all processes. */
const endsForAll = '*'
export type Partition = ReturnType<typeof createPartition>

export function createPartition(options: PartitionOptions) {
  const { tag, gateway, store, isWriter, now, monotonic } = options
  /** Windows to send with the next calls. */
  const due = new Set<Tally>()
  /** Windows to send when a call has room left. */
  const deferred = new Set<Tally>()
  /**
   * Windows to read in full, once other gateways have had time to write again: the store may lack their sums, or
   * `longSums` did not respond.
   */
  const incomplete = new Set<Tally>()
  const missingSums = createMissingSums()
  const ended = createEndedHolds()
  const mark = createWriterMark(writerMarkKey(tag, gateway), options.nonce, monotonic)
  const readAll = createWholeReads(options)
  /** Whether something urgent became due since the last call began. */
  let isUrgent = false
  let noteUrgent = (): void => {}
  let deferredAt = Number.NEGATIVE_INFINITY

  const isOpen = (tally: Tally): boolean => !isEnded(tally, now())

  function entryOf(tally: Tally, field: string, sum: ExactInt, at: number): SumEntry {
    const keptMs = Math.max(sendGraceMs(tally), Math.min(mostKeptMs, tally.ms))
    return { key: windowKey(tag, tally), field, sum, ttlMs: tally.end + keptMs - at }
  }

  function requestTotal(tally: Tally): void {
    due.add(tally)
    deferred.delete(tally)
  }

  function enqueue(tally: Tally): void {
    requestTotal(tally)
    hurry()
  }

  function hurry(): void {
    if (isUrgent) return
    isUrgent = true
    noteUrgent()
  }

  /** The next windows to send, with their current sums; `at`: now. */
  function nextBatch(at: number): (readonly [tally: Tally, sum: ExactInt])[] {
    const batch: (readonly [Tally, ExactInt])[] = []
    addFrom(due)
    if (deferred.size > 0 && monotonic() - deferredAt >= deferredEveryMs) {
      deferredAt = monotonic()
      addFrom(deferred)
    }
    return batch

    function addFrom(from: Set<Tally>): void {
      for (const tally of from) {
        if (batch.length >= maxSumsPerCall) return
        if (!isEnded(tally, at)) batch.push([tally, ownUseOf(tally)])
        else from.delete(tally)
      }
    }
  }

  /** After a loss: sends all own sums again and, later, sums of gateways that can no longer write them. */
  function restore(): void {
    const tick = toTick(monotonic())
    for (const tally of options.windows()) {
      if (!isOpen(tally)) continue
      if (isWithin(recentMs, tally.usedAt, tick)) enqueue(tally)
      else if (!due.has(tally)) deferred.add(tally)
      if (tally.fieldsSum > 0) incomplete.add(tally)
    }
  }

  /** Applies the store's sums of this gateway and of all; `tick`: now. */
  function receive(tally: Tally, field: ExactInt, total: ExactInt, tick: number): void {
    tally.reportedAt = tick
    if (recordTotal(tally, field, total)) incomplete.add(tally)
    if (!isWriter()) return
    // The sum has grown meanwhile, or the store has lost it.
    if (field < ownUseOf(tally)) enqueue(tally)
    else if (field > ownUseOf(tally)) options.onBeyond(tally)
  }

  async function send(): Promise<void> {
    isUrgent = false
    const at = now()
    const batch = nextBatch(at)
    const writes = isWriter()
    const rest = writes ? missingSums.next(maxSumsPerCall - batch.length, isOpen) : []
    if (!writes && batch.length === 0) {
      // An otherwise useless read, which detects an outage before a Check needs the store.
      await store.read([mark.key])
      return
    }
    const entries = batch.map(([tally, sum]) => entryOf(tally, gateway, writes ? sum : 0, at))
    for (const [tally, name, sum] of rest) entries.push(entryOf(tally, name, sum, at))
    const sent = writes ? mark.next() : undefined
    // Only if everything due was sent before or goes with this call: a hold ends after its response was counted.
    const holds = writes && due.size <= batch.length ? ended.next(maxSumsPerCall) : []
    const result = await store.write(sent, entries, holds)
    ended.forget(holds)
    for (const [tally] of batch) {
      deferred.delete(tally)
      due.delete(tally)
    }
    missingSums.forget(rest)
    const event = sent && mark.compare(sent, result)
    if (event !== undefined) restore()
    if (event === 'rival') options.onRival(result.nonce)
    if (event === 'lost') options.onLoss()
    // The clocks are read once for all windows.
    const [receivedAt, tick] = [now(), toTick(monotonic())]
    for (const [i, [tally]] of batch.entries()) {
      const [field, total] = result.sums[i] as readonly [ExactInt, ExactInt]
      if (!isEnded(tally, receivedAt)) receive(tally, field, total, tick)
    }
  }

  /**
   * Reads all fields of these windows, at most `maxSumsPerCall`, and notes sums that the store lacks. Returns whether
   * `longSums` responded within `waitMs`; otherwise the windows are read again later.
   */
  async function readWhole(tallies: readonly Tally[], waitMs?: number): Promise<boolean> {
    const found = await readAll(tallies, waitMs)
    for (const { tally, own, field, missing, isWhole } of found) {
      incomplete.delete(tally)
      // Added again at the end, behind those that wait longer.
      if (!isWhole) incomplete.add(tally)
      if (isWriter() && missing.size > 0) missingSums.set(tally, missing)
      if (isOpen(tally)) receive(tally, field, addExact(field, tally.fieldsSum), tally.readAt)
      if (isWriter() && own < ownUseOf(tally)) enqueue(tally)
    }
    return found.every(({ isWhole }) => isWhole)
  }

  return {
    tag,
    gateway,
    /** Number of due windows, of windows to repair, and of users whose holds must end. */
    get due(): number {
      return due.size + missingSums.size + (isWriter() ? ended.size : 0)
    },
    /** Number of windows that wait for room in a call. */
    get deferred(): number {
      return deferred.size
    },
    /** Number of windows to read in full, because sums may be missing in them. */
    get incomplete(): number {
      return incomplete.size
    },
    /** Called when something urgent becomes due, for the first time since the last call began. */
    whenUrgent(listener: () => void): void {
      noteUrgent = listener
    },
    /** Sends its sum with the next call, which becomes urgent. */
    enqueue,
    /** Asks for its total with the next call. */
    requestTotal,
    /**
     * Ends the hold of a request once its response is in the store. Call it after the response was counted, in every
     * process: if a writer is killed before it has sent this, the next one sends it.
     */
    end(keys: readonly string[], id: string): void {
      // The writer need not tell the store once the hold's lease has expired, and the others once another is the writer.
      ended.add(keys, id, monotonic(), isWriter() ? holdLeaseMs : handoverMs)
      if (isWriter()) hurry()
    },
    /**
     * The latest holds of these keys that the store may still have, although their responses are counted here; and
     * earlier ones, which end in the store with this call, because a gateway may be without a writer for seconds.
     */
    lastEnded(keys: readonly string[]): readonly string[] {
      if (isWriter()) return ended.last(keys)
      return [...ended.older(keys).map((id) => `${id} ${endsForAll}`), ...ended.last(keys)]
    },
    /**
     * Makes one call with due windows, and with the writer's mark even if none are due. Rejects without a response; the
     * windows then remain due, and the next call has newer sums. Calls must not overlap.
     */
    send,
    readWhole,
    /** Reads in full some of the windows that lack sums; returns whether `longSums` responded. */
    async readIncomplete(): Promise<boolean> {
      for (const tally of incomplete) {
        if (!isOpen(tally) || tally.among === undefined) incomplete.delete(tally)
      }
      return await readWhole([...incomplete].slice(0, maxSumsPerCall), rereadWaitMs)
    },
    /** Sends all sums again, as to an unknown store: at start, and when this process becomes the writer. */
    begin(): void {
      mark.forget()
      for (const tally of options.windows()) {
        if (isOpen(tally) && ownUseOf(tally) > 0) enqueue(tally)
      }
      if (ended.size > 0) hurry()
    },
  }
}
