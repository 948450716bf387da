/**
 * Deletes expired ephemeral keys at intervals; the store ensures that one process does it at a
 * time.
 */

import { repeat } from '../runtime/loop.ts'

/** Required by the contract (3.13). */
const everyMs = 900_000

export interface CleanupScheduleOptions {
  /** Cleans up; returns how many keys were deleted, or none if another process is cleaning up. */
  readonly run: () => Promise<number>
  readonly onDeleted: (deleted: number) => void
  /** Called for a failed run; the next one follows as scheduled. */
  readonly onFault: (error: unknown) => void
  /** Milliseconds from one run's end to the next run; 15 minutes by default. */
  readonly everyMs?: number
}

/** The first run starts now, so that a process that restarts often cleans up as well. */
export function startCleanupSchedule(options: CleanupScheduleOptions) {
  const stopped = new AbortController()
  const over = repeat({
    async step() {
      const deleted = await options.run()
      if (deleted > 0) options.onDeleted(deleted)
    },
    restMs: options.everyMs ?? everyMs,
    onFault: options.onFault,
    signal: stopped.signal,
  })
  return {
    /** Starts no more runs; resolves when the current one has ended. */
    stop(): Promise<void> {
      stopped.abort()
      return over
    },
  }
}
