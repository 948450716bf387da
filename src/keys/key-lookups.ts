/**
 * Looks hashes up in the table; concurrent look-ups share one query. A source with many look-ups
 * waits behind sources with few, and the number of concurrent queries is limited.
 */

import { networkOf } from '../formats/cidr.ts'
import { ServiceError } from '../formats/errors.ts'
import { createFairQueue } from '../runtime/fair-queue.ts'
import type { FoundKey, KnownKey, LockedKey, SourceAddress } from './store.ts'

interface KeyLookupsOptions {
  /** Returns the keys that exist among the hashes. Locked ones are read again. */
  readonly read: (hashes: readonly string[]) => Promise<readonly (FoundKey | LockedKey)[]>
  /** Receives the result for a hash, just before it is returned. */
  readonly take: (hash: string, found: FoundKey | undefined) => KnownKey | undefined
  /** Whether the table is known to be unavailable. */
  readonly isUnavailable: () => boolean
  /** A monotonic clock in milliseconds. */
  readonly monotonic: () => number
}

interface Lookup {
  readonly hash: string
  readonly since: number
  readonly result: PromiseWithResolvers<KnownKey | undefined>
  /** Whether the read in progress may be from before a revocation. */
  outdated: boolean
}

/** Hashes per query. */
const batchSize = 500
/** Maximum number of concurrent queries. */
const maxQueries = 2
/** Minimum interval between queries that are not full, so that a flood arrives in full ones. */
const everyMs = 5
/** The size of the queue, in total and per network. */
const queueSizes = { room: 8_000, roomForOne: 2_000 }
/** A caller that has waited this long has given up (Envoy's timeout for a Check is two seconds). */
const callerTimeoutMs = 1_500
/** A locked key is read again after this time, and its look-ups fail after the second. */
const lockedRestMs = 25
const lockedMs = 1_000
/** One shared instance: capturing a stack would cost more than the rest of a refusal. */
const refusal = new ServiceError('store_unavailable')

/** Look-ups through `read`. */
export function createKeyLookups(options: KeyLookupsOptions) {
  const { read, take, isUnavailable, monotonic } = options
  /** Waiting or in progress, by hash. */
  const lookups = new Map<string, Lookup>()
  const queue = createFairQueue<Lookup>(queueSizes)
  let underWay = 0
  let startedAt = Number.NEGATIVE_INFINITY
  let soon: NodeJS.Immediate | undefined
  let later: NodeJS.Timeout | undefined
  /** Queries sent, and look-ups refused because the queue was full. */
  const counts = { queries: 0, refused: 0 }

  /** At the end of this turn of the event loop, to include all its requests. */
  function arm(): void {
    if (underWay >= maxQueries || queue.size === 0) return
    const waitMs = queue.size < batchSize ? startedAt + everyMs - monotonic() : 0
    if (waitMs > 0) later ??= setTimeout(send, waitMs)
    else soon ??= setImmediate(send)
  }

  function send(): void {
    clearImmediate(soon)
    clearTimeout(later)
    soon = undefined
    later = undefined
    if (underWay >= maxQueries) return
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
    const minSince = isUnavailable() ? Number.POSITIVE_INFINITY : monotonic() - callerTimeoutMs
    while (batch.length < batchSize) {
      const lookup = queue.take()
      if (lookup === undefined) break
      lookup.outdated = false
      if (lookup.since > minSince) batch.push(lookup)
      else fail(lookup, refusal)
    }
    return batch
  }

  async function readBatch(batch: readonly Lookup[]): Promise<void> {
    let found: ReadonlyMap<string, FoundKey | LockedKey>
    try {
      const rows = await read(batch.map(({ hash }) => hash))
      found = new Map(rows.map((row) => [row.hash, row]))
    } catch (error) {
      // The cause is passed on once: it is one failure, however many look-ups waited for it.
      const code = error instanceof ServiceError ? error.code : 'internal'
      for (const [i, lookup] of batch.entries())
        fail(lookup, i === 0 ? error : new ServiceError(code))
      return
    }
    for (const lookup of batch) {
      const key = found.get(lookup.hash)
      if (lookup.outdated) {
        queue.push(lookup)
      } else if (key && 'lockedId' in key) {
        retryLocked(lookup, key)
      } else {
        lookups.delete(lookup.hash)
        lookup.result.resolve(take(lookup.hash, key))
      }
    }
  }

  /** Waits without occupying a query: other keys are not locked. */
  function retryLocked(lookup: Lookup, { lockedId }: LockedKey): void {
    if (monotonic() - lookup.since < lockedMs) {
      setTimeout(() => {
        queue.push(lookup)
        arm()
      }, lockedRestMs)
    } else {
      const cause = new Error(`a transaction has locked the row of API key ${lockedId}`)
      fail(lookup, new ServiceError('store_locked', { cause }))
    }
  }

  function refuse(lookup: Lookup | undefined): void {
    if (lookup === undefined) return
    counts.refused += 1
    fail(lookup, refusal)
  }

  function fail(lookup: Lookup, error: unknown): void {
    lookups.delete(lookup.hash)
    lookup.result.reject(error)
  }

  return {
    /**
     * The table's record of a hash, read after this call and after the last `repeat` of it. Refused
     * (`store_unavailable`) if `source` has too much waiting; never without `source`.
     */
    find(hash: string, source: SourceAddress | undefined): Promise<KnownKey | undefined> {
      const begun = lookups.get(hash)
      if (begun !== undefined) return begun.result.promise
      const result = Promise.withResolvers<KnownKey | undefined>()
      const lookup: Lookup = { hash, since: monotonic(), result, outdated: false }
      lookups.set(hash, lookup)
      if (source === undefined) queue.push(lookup)
      else refuse(queue.offer(networkOf(source() ?? ''), lookup))
      arm()
      return result.promise
    },
    /** A read of these in progress may be outdated and is repeated. */
    repeat(hashes: readonly string[]): void {
      for (const hash of hashes) {
        const lookup = lookups.get(hash)
        if (lookup !== undefined) lookup.outdated = true
      }
    },
    repeatAll(): void {
      for (const lookup of lookups.values()) lookup.outdated = true
    },
    /** `waiting`: hashes that wait for a query. */
    get stats() {
      return { ...counts, waiting: queue.size }
    },
  }
}
