/**
 * When keys were used last: noted in memory as requests come, written in batches beside them. What
 * is written lags behind by up to a minute, since no key is worth more than two writes a minute.
 */

import { ServiceError } from '../../core/errors.ts'

export type LastUsed = ReturnType<typeof startLastUsed>

export interface LastUsedOptions {
  /** Writes instants by id; rejects with a ServiceError while that is in vain. */
  readonly write: (uses: ReadonlyMap<string, number>) => Promise<void>
  /** Told of failures that are not outages. */
  readonly onFault: (error: unknown) => void
  /** Milliseconds between two writes; 2 seconds when absent. */
  readonly everyMs?: number
  /** Keys in one write; 2,000 when absent. */
  readonly batchSize?: number
  /** Keys noted at most, while the table is away or cannot keep up; 100,000 when absent. */
  readonly most?: number
}

/** A use this soon after one that was written is not noted; the table holds to the same. */
const noteEveryMs = 30_000

/** Begins to write, and goes on until it is stopped. */
export function startLastUsed(options: LastUsedOptions) {
  const { write, onFault, everyMs = 2_000, batchSize = 2_000, most = 100_000 } = options
  const noted = new Map<string, number>()
  /** What was written in the last while, in that order. */
  const written = new Map<string, number>()
  let writing: Promise<boolean> = Promise.resolve(true)
  let stopped = false
  let timer = begin()

  function begin(): NodeJS.Timeout {
    return setTimeout(async () => {
      writing = writeBatch()
      await writing
      if (!stopped) timer = begin()
    }, everyMs).unref()
  }

  function takeBatch(): ReadonlyMap<string, number> {
    const batch = new Map<string, number>()
    for (const [id, instant] of noted) {
      if (batch.size === batchSize) break
      batch.set(id, instant)
      noted.delete(id)
    }
    return batch
  }

  /** False when the table is away; what was taken is noted as before then. */
  async function writeBatch(): Promise<boolean> {
    const batch = takeBatch()
    if (batch.size === 0) return true
    try {
      await write(batch)
      remember(batch)
      return true
    } catch (error) {
      if (error instanceof ServiceError) {
        for (const [id, instant] of batch) if (!noted.has(id)) noted.set(id, instant)
        return false
      }
      // What cannot be written must not keep the rest from it.
      onFault(error)
      return true
    }
  }

  function remember(batch: ReadonlyMap<string, number>): void {
    let newest = Number.NEGATIVE_INFINITY
    for (const [id, instant] of batch) {
      written.delete(id)
      written.set(id, instant)
      newest = Math.max(newest, instant)
    }
    for (const [id, instant] of written) {
      if (newest - instant < noteEveryMs) break
      written.delete(id)
    }
  }

  return {
    /** Notes a use of a key, by its id, at an instant (milliseconds since the epoch). Never waits. */
    note(id: string, instant: number): void {
      const before = written.get(id)
      if (before !== undefined && instant - before < noteEveryMs) return
      // Where there are too many, a later use of the same key is noted.
      if (noted.size < most || noted.has(id)) noted.set(id, instant)
    },
    /** Writes what is noted, for at most so long; nothing is written afterwards. */
    async stop(graceMs: number): Promise<void> {
      stopped = true
      clearTimeout(timer)
      const giveUpAt = performance.now() + graceMs
      let isThere = await writing
      while (isThere && noted.size > 0 && performance.now() < giveUpAt) isThere = await writeBatch()
    },
  }
}
