/**
 * A gateway's sums in a running process: it follows the files, exchanges sums with the store, and lets a Check read
 * what is known without waiting, except for windows that were never read.
 */

import { ServiceError } from '../../formats/errors.ts'
import { repeat } from '../../runtime/loop.ts'
import { withTimeout } from '../../runtime/with-timeout.ts'
import type { Counter, CounterState } from '../rules/counter.ts'
import { countOf } from '../rules/fields.ts'
import { isWithin, type Tally, toTick, usedOf } from '../rules/tally.ts'
import type { CounterReset, WindowedCounter } from '../rules/windows.ts'
import type { GatewaySums } from './gateway-sums.ts'
import { type LineWatchOptions, startLineWatch } from './line-watch.ts'
import { createPartSender, type PartSender, type PartSenderOptions } from './part-sender.ts'
import type { WindowUsage } from './shared-sums.ts'

export interface RunningSumsOptions
  extends Pick<PartSenderOptions, 'flushMs' | 'monotonic'>,
    Pick<LineWatchOptions, 'onFault' | 'onRead'> {
  readonly sums: GatewaySums
  /** The answer for windows that were never read, while the store does not answer. */
  readonly onLoss: 'allow' | 'deny'
  /** Milliseconds since the epoch. */
  readonly now: () => number
  /** Called once per change. */
  readonly onUnavailable: (isUnavailable: boolean, cause: unknown) => void
  /** Whether lines are known to be lost: with `deny` nothing is allowed then. */
  readonly isFailing?: () => boolean
  /** Until then (monotonic) the process does not become the writer. */
  readonly writesFrom?: number
}

/** Maximum age of the cached state of a counter far from its limit, in milliseconds. */
const farMs = 80
/** Windows with more fields are read less often in proportion, because more fields cost more to read. */
const fewFields = 20
const beatMs = 1_000
const saveLongMs = 60_000
/** How long a shutdown waits for a disk, and for the database. */
const endMs = 2_000
const settled = Promise.resolve()

export type RunningSums = ReturnType<typeof runSums>

export function runSums(options: RunningSumsOptions) {
  const { sums, flushMs, onLoss, now, monotonic, onFault, writesFrom = 0 } = options
  const { isFailing = () => false, onRead } = options
  const { shared } = sums
  const isAlone = shared.parts.size === 0
  const failing = new Set<string>()
  const senders = new Map<string, PartSender>()
  const ending = new AbortController()
  let savedLongAt = monotonic()
  /** Whether a Check of this turn has read the end. */
  let isRead = false
  /** Windows that are fetched in this turn, with one call. */
  let asking: { readonly counters: Counter[]; readonly answered: Promise<void> } | undefined

  for (const part of shared.parts.values()) {
    const note = (error?: unknown): void => noteOutcome(part.tag, error)
    const sender = createPartSender({ part, flushMs, monotonic, onOutcome: note })
    senders.set(part.tag, sender)
    part.whenUrgent(() => sender.arm(1))
  }
  const lineWatch = startLineWatch({
    sums,
    isAlone,
    monotonic,
    onFault,
    onRead,
    signal: ending.signal,
  })
  void repeat({ step: beat, restMs: beatMs, onFault, signal: ending.signal })

  function noteOutcome(tag: string, error: unknown): void {
    const was = failing.size > 0
    if (error === undefined) failing.delete(tag)
    else failing.add(tag)
    const isUnavailable = failing.size > 0
    if (isUnavailable !== was) options.onUnavailable(isUnavailable, error)
  }

  /** Reads new lines. Throws `counters_unavailable` if lines are lost and nothing may be allowed then. */
  function look(): void {
    readEnd()
    if (onLoss === 'deny' && isFailing()) throw new ServiceError('counters_unavailable')
  }

  /** The loop reports a file that can't be read. */
  function readEnd(): void {
    // Once per turn: whatever arrived together was asked before any of it is decided, and nothing else arrives before
    // the turn ends.
    if (isRead) return
    isRead = true
    void settled.then(endTurn)
    lineWatch.noteLook()
    try {
      sums.readEnd()
    } catch {
      lineWatch.lookAgain()
    }
  }

  function endTurn(): void {
    isRead = false
  }

  async function beat(): Promise<void> {
    lineWatch.beat()
    sums.beat()
    const mayWrite = monotonic() >= writesFrom
    if (mayWrite && !sums.hasWriter()) void sums.becomeWriter().catch(onFault)
    for (const sender of senders.values()) sender.beat()
    if (failing.size === 0) await shared.reread()
    if (monotonic() - savedLongAt < saveLongMs) return
    savedLongAt = monotonic()
    shared.sweep(failing.size === 0)
    while ((await shared.saveLong()) > 0);
  }

  /** Maximum age of the cached state of this window, in milliseconds. */
  function maxAgeOf({ limit }: Counter, tally: Tally): number {
    const isNear = limit === undefined || Number(usedOf(tally)) >= Number(limit) / 2
    const ms = isNear ? flushMs : Math.max(flushMs, farMs)
    const fields = countOf(tally.fields)
    return fields > fewFields ? (ms * fields) / fewFields : ms
  }

  /** Has the store asked if its last report of the window is too old. */
  function keepFresh(counter: Counter, tally: Tally, at: number): void {
    const maxAgeMs = maxAgeOf(counter, tally)
    if (isWithin(maxAgeMs, tally.heardAt, tally.usedAt)) return
    const part = shared.refresh(counter, at)
    if (part !== undefined) senders.get(part.tag)?.arm(Math.max(1, maxAgeMs / flushMs))
  }

  function stateOf(tally: Tally): CounterState {
    return { used: usedOf(tally), resetsAt: tally.end }
  }

  function fetch(counters: readonly Counter[]): Promise<void> {
    if (asking === undefined) {
      const all: Counter[] = []
      const answered = new Promise<void>((settle) => setImmediate(settle)).then(() => {
        asking = undefined
        return shared.fetch(all, now()).catch((error: unknown) => {
          // Other requests do not wait in vain, until a call is answered.
          for (const counter of all) noteOutcome(shared.partOf(counter)?.tag ?? '', error)
          throw error
        })
      })
      asking = { counters: all, answered }
    }
    asking.counters.push(...counters)
    return asking.answered
  }

  function read(
    counters: readonly Counter[],
    at: number,
  ): readonly CounterState[] | Promise<readonly CounterState[]> {
    look()
    const tick = toTick(monotonic())
    const tallies = shared.talliesOf(counters, at, tick)
    const known = tallies.map(stateOf)
    if (isAlone) return known
    const missing: Counter[] = []
    for (const [i, counter] of counters.entries()) {
      const tally = tallies[i] as Tally
      if (tally.isKnown) keepFresh(counter, tally, at)
      else missing.push(counter)
    }
    if (missing.length === 0) return known
    if (failing.size > 0) return answerWithout(known)
    return fetch(missing).then(
      () => shared.talliesOf(counters, at, toTick(monotonic())).map(stateOf),
      () => answerWithout(known),
    )
  }

  function answerWithout(known: readonly CounterState[]): readonly CounterState[] {
    // Without a cause, which is logged once when the store becomes unavailable, not for each request.
    if (onLoss === 'deny') throw new ServiceError('counters_unavailable')
    return known
  }

  return {
    /** Windows that the next calls have something of. */
    get unflushed(): number {
      let due = 0
      for (const part of shared.parts.values()) due += part.due
      return due
    },
    /** Whether the store does not answer, or can't write. */
    get isUnavailable(): boolean {
      return failing.size > 0
    },
    /** What is known of these windows, without waiting, for holds. Throws as `read`. */
    windows(counters: readonly WindowedCounter[], at: number): readonly WindowUsage[] {
      look()
      const tick = toTick(monotonic())
      return counters.map((counter) => shared.read(counter, at, tick))
    },
    /**
     * The windows of these counters at this instant. Without a promise, unless one was never read. Throws or rejects
     * with `counters_unavailable` if that one can't be read, or lines are lost, and nothing may be allowed then.
     */
    read,
    /** As `read`, after the store has reported all of them. */
    async readFresh(counters: readonly Counter[], at: number): Promise<readonly CounterState[]> {
      await sums.readAll()
      const tags = new Set(counters.map((counter) => shared.refresh(counter, at)?.tag))
      await Promise.all([...senders.values()].map((each) => tags.has(each.tag) && each.refreshed()))
      return read(counters, at)
    },
    /** Responses that end after the reset count in a new window. */
    reset: (key: string, reset: CounterReset): void => sums.reset(key, reset),
    /**
     * Continues the files under another name once everything that this gateway has counted is in the store. Returns
     * whether it did; then only `end` may be called.
     */
    async handOver(gateway: string): Promise<boolean> {
      await sums.readAll()
      await Promise.all([...senders.values()].map((each) => each.refreshed()))
      return await sums.handOver(gateway)
    },
    /** Ends without sending anything more. */
    async end(): Promise<void> {
      ending.abort()
      lineWatch.end()
      await Promise.all([...senders.values()].map((each) => each.stop(0)))
      sums.close()
    },
    /**
     * Reads the files to their ends, and sends what is due for at most this long (ms); returns how many windows are
     * left.
     */
    async stop(graceMs: number): Promise<number> {
      ending.abort()
      lineWatch.end()
      await sums.readAll()
      const left = await Promise.all([...senders.values()].map((each) => each.stop(graceMs)))
      await withTimeout(endMs, Promise.all([shared.saveLong(), sums.save()])).catch(onFault)
      sums.close()
      return left.reduce((sum, each) => sum + each, 0)
    },
  }
}
