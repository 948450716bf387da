/**
 * Asks the table for hashes, all that are wanted at the same time in one query. Who wants many
 * waits behind who wants few, and no more than a few queries are under way whatever is wanted.
 */

import { ServiceError } from '../../core/errors.ts'
import { networkOf } from '../../core/network.ts'
import type { FoundKey, KnownKey, Source } from '../api-keys.ts'
import { createFairQueue } from '../fair-queue.ts'

export interface LookupStats {
  /** Queries sent. */
  readonly queries: number
  /** Hashes that wait for a query. */
  readonly waiting: number
  /** Look-ups refused since too much was waiting. */
  readonly refused: number
}

export interface KeyLookupsOptions {
  /** Answers those of the hashes that there are. */
  readonly read: (hashes: readonly string[]) => Promise<readonly FoundKey[]>
  /** Takes in what was read of a hash, the moment before it is answered. */
  readonly take: (hash: string, found: FoundKey | undefined) => KnownKey | undefined
  /** Whether it is in vain to ask now. */
  readonly isAway: () => boolean
  /** Milliseconds that never go back. */
  readonly monotonic: () => number
}

interface Lookup {
  readonly hash: string
  readonly since: number
  readonly answer: PromiseWithResolvers<KnownKey | undefined>
  /** Whether what is under way may be from before a revocation. */
  outdated: boolean
}

/** Hashes in one query. */
const batchSize = 500
/** Queries under way at most. */
const mostQueries = 2
/** Queries that are not full begin no closer than this, so that a flood comes in full ones. */
const everyMs = 5
/** Waiting at most, altogether and of one network. */
const queueSizes = { room: 8_000, roomForOne: 2_000 }
/** Who has waited this long has given up (Envoy gives a Check two seconds). */
const patienceMs = 1_500
/** One for all: to capture a stack would cost more than all else that a refusal takes. */
const refusal = new ServiceError('store_unavailable')

/** Look-ups over this way of reading. */
export function createKeyLookups(options: KeyLookupsOptions) {
  const { read, take, isAway, monotonic } = options
  /** Waiting or under way, by hash. */
  const lookups = new Map<string, Lookup>()
  const queue = createFairQueue<Lookup>(queueSizes)
  let underWay = 0
  let startedAt = Number.NEGATIVE_INFINITY
  let soon: NodeJS.Immediate | undefined
  let later: NodeJS.Timeout | undefined
  const counts = { queries: 0, refused: 0 }

  /** At the end of this turn of the event loop, so that all its requests come along. */
  function arm(): void {
    if (underWay >= mostQueries || queue.size === 0) return
    const waitMs = queue.size < batchSize ? startedAt + everyMs - monotonic() : 0
    if (waitMs > 0) later ??= setTimeout(send, waitMs)
    else soon ??= setImmediate(send)
  }

  function send(): void {
    clearImmediate(soon)
    clearTimeout(later)
    soon = undefined
    later = undefined
    if (underWay >= mostQueries) return
    const batch = takeBatch()
    if (batch.length === 0) return
    startedAt = monotonic()
    underWay += 1
    counts.queries += 1
    void readBatch(batch).finally(() => {
      underWay -= 1
      arm()
    })
    arm()
  }

  function takeBatch(): readonly Lookup[] {
    const batch: Lookup[] = []
    const mostWaitedSince = isAway() ? Number.POSITIVE_INFINITY : monotonic() - patienceMs
    while (batch.length < batchSize) {
      const lookup = queue.take()
      if (lookup === undefined) break
      lookup.outdated = false
      if (lookup.since > mostWaitedSince) batch.push(lookup)
      else fail(lookup, refusal)
    }
    return batch
  }

  async function readBatch(batch: readonly Lookup[]): Promise<void> {
    let found: ReadonlyMap<string, FoundKey>
    try {
      const rows = await read(batch.map(({ hash }) => hash))
      found = new Map(rows.map((row) => [row.hash, row]))
    } catch (error) {
      // The cause goes along once: it is one failure, however many waited for it.
      const code = error instanceof ServiceError ? error.code : 'internal'
      for (const [i, lookup] of batch.entries())
        fail(lookup, i === 0 ? error : new ServiceError(code))
      return
    }
    for (const lookup of batch) {
      if (lookup.outdated) {
        queue.push(lookup)
      } else {
        lookups.delete(lookup.hash)
        lookup.answer.resolve(take(lookup.hash, found.get(lookup.hash)))
      }
    }
  }

  function refuse(lookup: Lookup | undefined): void {
    if (lookup === undefined) return
    counts.refused += 1
    fail(lookup, refusal)
  }

  function fail(lookup: Lookup, error: unknown): void {
    lookups.delete(lookup.hash)
    lookup.answer.reject(error)
  }

  return {
    /**
     * What the table says of a hash, read after this call and after the last `repeat` of it. Of a
     * source with too much waiting it is refused (`store_unavailable`); `source` left out: never.
     */
    find(hash: string, source: Source | undefined): Promise<KnownKey | undefined> {
      const begun = lookups.get(hash)
      if (begun !== undefined) return begun.answer.promise
      const answer = Promise.withResolvers<KnownKey | undefined>()
      const lookup: Lookup = { hash, since: monotonic(), answer, outdated: false }
      lookups.set(hash, lookup)
      if (source === undefined) queue.push(lookup)
      else refuse(queue.offer(networkOf(source() ?? ''), lookup))
      arm()
      return answer.promise
    },
    /** What is being read of these may be from before now and is read again. */
    repeat(hashes: readonly string[]): void {
      for (const hash of hashes) {
        const lookup = lookups.get(hash)
        if (lookup !== undefined) lookup.outdated = true
      }
    },
    repeatAll(): void {
      for (const lookup of lookups.values()) lookup.outdated = true
    },
    get stats(): LookupStats {
      return { ...counts, waiting: queue.size }
    },
  }
}
