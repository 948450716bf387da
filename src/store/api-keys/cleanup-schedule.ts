/** Deletes expired ephemeral keys every now and then; the store sees to it that one process does. */

import { setTimeout as delay } from 'node:timers/promises'

/** The contract's (3.13). */
const everyMs = 900_000

export interface CleanupScheduleOptions {
  /** Cleans up; answers how many keys went, none when another process is at it. */
  readonly run: () => Promise<number>
  readonly onDeleted: (deleted: number) => void
  /** A failed run is told of and the next one comes as planned. */
  readonly onFault: (error: unknown) => void
  /** Milliseconds from one run's end to the next run; 15 minutes when absent. */
  readonly everyMs?: number
}

/** The first run is now: a process that is restarted often has to clean up as well. */
export function startCleanupSchedule(options: CleanupScheduleOptions) {
  const stopped = new AbortController()
  const over = (async () => {
    while (!stopped.signal.aborted) {
      try {
        const deleted = await options.run()
        if (deleted > 0) options.onDeleted(deleted)
      } catch (error) {
        options.onFault(error)
      }
      await delay(options.everyMs ?? everyMs, undefined, {
        ref: false,
        signal: stopped.signal,
      }).catch(() => {})
    }
  })()
  return {
    /** No run begins any more; settles when the one under way has ended. */
    stop(): Promise<void> {
      stopped.abort()
      return over
    },
  }
}
