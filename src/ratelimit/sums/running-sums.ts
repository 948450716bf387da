/** A gateway's sums in a running process: it follows the files, exchanges sums with the store, and becomes the writer. */

import { repeat } from '../../runtime/loop.ts'
import { withTimeout } from '../../runtime/with-timeout.ts'
import type { CounterReset } from '../rules/windows.ts'
import { type CounterReadsOptions, createCounterReads } from './counter-reads.ts'
import type { GatewaySums } from './gateway-sums.ts'
import { type LineWatchOptions, startLineWatch } from './line-watch.ts'
import { createPartSenders, type PartSendersOptions } from './part-senders.ts'

export interface RunningSumsOptions
  extends Omit<PartSendersOptions, 'parts'>,
    CounterReadsOptions,
    Pick<LineWatchOptions, 'onFault' | 'onRead'> {
  readonly sums: GatewaySums
  /** Until then (monotonic) the process does not become the writer. */
  readonly writesFrom?: number
}

const everyMs = 1_000
const saveLongMs = 60_000
/** How long a shutdown waits for a disk, and for the database. */
const endMs = 2_000

export type RunningSums = ReturnType<typeof runSums>

export function runSums(options: RunningSumsOptions) {
  const { sums, monotonic, onFault, writesFrom = 0 } = options
  const { shared, tail } = sums
  const ending = new AbortController()
  const { signal } = ending
  const senders = createPartSenders({ ...options, parts: shared.parts })
  const lineWatch = startLineWatch({ ...options, tail, isAlone: shared.parts.size === 0, signal })
  let savedLongAt = monotonic()
  void repeat({ step: maintain, restMs: everyMs, onFault, signal })

  async function maintain(): Promise<void> {
    lineWatch.renew()
    sums.renewRole()
    const mayWrite = monotonic() >= writesFrom
    if (mayWrite && !sums.hasWriter()) void sums.becomeWriter().catch(onFault)
    senders.maintain()
    if (!senders.isUnavailable) await shared.reread()
    if (monotonic() - savedLongAt < saveLongMs) return
    savedLongAt = monotonic()
    shared.sweep(!senders.isUnavailable)
    while ((await shared.saveLong()) > 0);
  }

  function stopReading(): void {
    ending.abort()
    lineWatch.end()
  }

  return {
    ...createCounterReads(options, sums, senders, lineWatch),
    /** Windows that the next calls have something of. */
    get unflushed(): number {
      return senders.due
    },
    /** Whether the store does not answer, or can't write. */
    get isUnavailable(): boolean {
      return senders.isUnavailable
    },
    /** Responses that end after the reset count in a new window. */
    reset: (key: string, reset: CounterReset): void => sums.reset(key, reset),
    /**
     * Continues the files under another name once everything that this gateway has counted is in the store. Returns
     * whether it did; then only `end` may be called.
     */
    async handOver(gateway: string): Promise<boolean> {
      await tail.readAll()
      await senders.refresh()
      return await sums.handOver(gateway)
    },
    /** Ends without sending anything more. */
    async end(): Promise<void> {
      stopReading()
      await senders.stop(0)
      sums.close()
    },
    /**
     * Reads the files to their ends, and sends what is due for at most this long (ms); returns how many windows are
     * left.
     */
    async stop(graceMs: number): Promise<number> {
      stopReading()
      await tail.readAll()
      const left = await senders.stop(graceMs)
      await withTimeout(endMs, Promise.all([shared.saveLong(), sums.save()])).catch(onFault)
      sums.close()
      return left
    },
  }
}
