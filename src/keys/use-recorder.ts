/**
 * Records when keys were last used: in memory at each request, and written in batches in the
 * background. Written values lag by up to a minute, because a key gets at most two writes a minute.
 */

import { ServiceError } from '../formats/errors.ts'
import { repeat } from '../runtime/loop.ts'

export interface LastUsedOptions {
  /** Writes instants by hash; rejects with a ServiceError during an outage. */
  readonly write: (uses: ReadonlyMap<string, number>) => Promise<void>
  /** Called for failures other than outages. */
  readonly onFault: (error: unknown) => void
  /** Milliseconds between two writes; 2 seconds by default. */
  readonly everyMs?: number
  /** Keys per write; 2,000 by default. */
  readonly batchSize?: number
  /** Maximum number of keys recorded while the table is unavailable or too slow; 100,000 by default. */
  readonly most?: number
}

/** A use within this time of a written one is not recorded; the table applies the same rule. */
const noteEveryMs = 30_000

/** Writes until it is stopped. */
export function startUseRecorder(options: LastUsedOptions) {
  const { write, onFault, everyMs = 2_000, batchSize = 2_000, most = 100_000 } = options
  const noted = new Map<string, number>()
  /** Recently written keys, in the order of writing. */
  const written = new Map<string, number>()
  const stopped = new AbortController()
  let isThere = true
  const over = repeat({
    async step() {
      isThere = await writeBatch()
    },
    restMs: everyMs,
    restsFirst: true,
    onFault,
    signal: stopped.signal,
  })

  function takeBatch(): ReadonlyMap<string, number> {
    const batch = new Map<string, number>()
    for (const [hash, instant] of noted) {
      if (batch.size === batchSize) break
      batch.set(hash, instant)
      noted.delete(hash)
    }
    return batch
  }

  /** Returns false if the table is unavailable; the taken keys are then recorded again. */
  async function writeBatch(): Promise<boolean> {
    const batch = takeBatch()
    if (batch.size === 0) return true
    try {
      await write(batch)
      remember(batch)
      return true
    } catch (error) {
      if (error instanceof ServiceError) {
        for (const [hash, instant] of batch) if (!noted.has(hash)) noted.set(hash, instant)
        return false
      }
      // A write that fails must not prevent the others.
      onFault(error)
      return true
    }
  }

  function remember(batch: ReadonlyMap<string, number>): void {
    let newest = Number.NEGATIVE_INFINITY
    for (const [hash, instant] of batch) {
      written.delete(hash)
      written.set(hash, instant)
      newest = Math.max(newest, instant)
    }
    // A much later instant is from before the clock was set back.
    for (const [hash, instant] of written) {
      if (Math.abs(newest - instant) < noteEveryMs) break
      written.delete(hash)
    }
  }

  return {
    /** Records a use of a secret, by its hash, at an instant (milliseconds since the epoch). Never waits. */
    note(hash: string, instant: number): void {
      const before = written.get(hash)
      if (before !== undefined && Math.abs(instant - before) < noteEveryMs) return
      // Beyond the limit, only keys that are already recorded are updated.
      const known = noted.get(hash)
      // The use of a hit is known later, from its line, so uses may arrive out of order.
      if (known !== undefined || noted.size < most) {
        noted.set(hash, Math.max(instant, known ?? Number.NEGATIVE_INFINITY))
      }
    },
    /** Writes the recorded uses, for at most this long, and nothing afterwards. */
    async stop(graceMs: number): Promise<void> {
      stopped.abort()
      const giveUpAt = performance.now() + graceMs
      await over
      while (isThere && noted.size > 0 && performance.now() < giveUpAt) isThere = await writeBatch()
    },
  }
}
