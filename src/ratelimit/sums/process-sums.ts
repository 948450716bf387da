/** Runs a gateway's sums in a process: follows the files, exchanges sums with the store, and becomes the writer. */

import { ServiceError } from '../../formats/errors.ts'
import { repeat } from '../../runtime/loop.ts'
import { createSingleFlight } from '../../runtime/single-flight.ts'
import { withTimeout } from '../../runtime/with-timeout.ts'
import type { CounterReset } from '../rules/windows.ts'
import { type CounterReadsOptions, createCounterReads } from './counter-reads.ts'
import type { GatewaySums } from './gateway-sums.ts'
import { type LineWatchOptions, startLineWatch } from './line-watch.ts'
import { createPartitionSenders, type SendersOptions } from './partition-senders.ts'

export interface ProcessSumsOptions
  extends Omit<SendersOptions, 'partitions'>,
    CounterReadsOptions,
    Pick<LineWatchOptions, 'onFault' | 'onRead'> {
  readonly sums: GatewaySums
  /** The process does not become the writer before this time (monotonic). */
  readonly writesFrom?: number
}

const everyMs = 1_000
const saveLongMs = 60_000
/** How long a shutdown waits for a disk, and for the database, in milliseconds. */
const endMs = 2_000

export type ProcessSums = ReturnType<typeof startSums>

export function startSums(options: ProcessSumsOptions) {
  const { sums, monotonic, onFault, writesFrom = 0 } = options
  const { shared, tail } = sums
  const ending = new AbortController()
  const { signal } = ending
  const senders = createPartitionSenders({ ...options, partitions: shared.partitions })
  const lineWatch = startLineWatch({
    ...options,
    tail,
    isAlone: shared.partitions.size === 0,
    signal,
  })
  const saveLongOnce = createSingleFlight(saveLong)
  let savedLongAt = monotonic()
  void repeat({ step: maintain, restMs: everyMs, onFault, signal })

  async function maintain(): Promise<void> {
    lineWatch.renew()
    sums.renewRole()
    const mayWrite = monotonic() >= writesFrom
    if (mayWrite && !sums.hasWriter()) void sums.becomeWriter().catch(onFault)
    senders.maintain()
    // The senders notice an outage, too, and report it.
    if (!senders.isUnavailable) await shared.reread().catch(() => {})
    if (monotonic() - savedLongAt < saveLongMs) return
    savedLongAt = monotonic()
    shared.sweep(!senders.isUnavailable)
    // Beside the upkeep: if the role is not renewed while a database hangs, another process takes it over.
    void saveLongOnce()
  }

  /** An outage of the database is reported elsewhere; the next call then saves the rest. */
  async function saveLong(): Promise<void> {
    await shared.saveLong().catch((error: unknown) => {
      if (!(error instanceof ServiceError)) onFault(error)
    })
  }

  function stopReading(): void {
    ending.abort()
    lineWatch.end()
  }

  return {
    ...createCounterReads(options, sums, senders, lineWatch),
    /** Number of windows that are due. */
    get unflushed(): number {
      return senders.due
    },
    /** Whether the store does not respond, or can't write. */
    get isUnavailable(): boolean {
      return senders.isUnavailable
    },
    /** Responses that end after the reset count in a new window. */
    reset: (key: string, reset: CounterReset): void => sums.reset(key, reset),
    /**
     * Continues the files under another name, if all sums of this gateway are in the store. Returns whether it did;
     * then call only `end`.
     */
    async handOver(...next: Parameters<GatewaySums['handOver']>): Promise<boolean> {
      await tail.readAll()
      await senders.refresh()
      return await sums.handOver(...next)
    },
    /** Ends without sending anything more. */
    async end(): Promise<void> {
      stopReading()
      await senders.stop(0)
      sums.close()
    },
    /**
     * Reads the files to their ends, and sends due sums for at most this long (ms); returns how many windows are left.
     */
    async stop(graceMs: number): Promise<number> {
      stopReading()
      await tail.readAll()
      const left = await senders.stop(graceMs)
      await withTimeout(endMs, Promise.all([saveLong(), sums.save()])).catch(onFault)
      sums.close()
      return left
    },
  }
}
