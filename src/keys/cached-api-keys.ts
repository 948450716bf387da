/**
 * The API key store: a cache of the keys in use, in front of the table. A cached key is returned at
 * once while the cache is known to be fresh; the follower of revocations (see Freshness) evicts
 * keys. Everything else goes to the table.
 */

import { type ErrorCode, ServiceError } from '../formats/errors.ts'
import { type CachedKey, createKeyCache } from './key-cache.ts'
import { createKeyLookups } from './key-lookups.ts'
import type { ApiKeyTable, FoundKey, KnownKey, SourceAddress } from './store.ts'
import { createUnknownHashes } from './unknown-hashes.ts'
import { createCacheWarmUp } from './warm-up.ts'
import { createWriteThroughTable } from './write-through.ts'

/** Whether a process may still trust its cache of API keys. */
export interface Freshness {
  /**
   * `confirmed`: the cache is valid. `unconfirmed`: a revocation may have been missed (this process
   * was paused, or has just lost its listener); call `confirm` first. `unavailable`: the store is known to
   * be unavailable, so asking it would only take time.
   */
  state(): 'confirmed' | 'unconfirmed' | 'unavailable'
  /** Milliseconds since the store last confirmed the cache; Infinity before the first time. */
  ageMs(): number
  /**
   * Catches up with missed revocations, in one query for all callers. Resolves in bounded time when
   * the state is `confirmed` or `unavailable`; never rejects.
   */
  confirm(): Promise<void>
}

export interface KeyCacheOptions {
  /** Maximum number of cached keys. */
  readonly entries: number
  /** Whether the cache is valid. */
  readonly freshness: Freshness
  /**
   * How long a cached key is trusted while the table is unavailable (milliseconds since the cache
   * was last confirmed). At least a minute; 15 minutes by default.
   */
  readonly outageGraceMs?: number
  /**
   * When the key with this hash ends, even if the table lacks that (milliseconds since the epoch);
   * 0 if it was revoked, undefined if no end is known.
   */
  readonly endOf?: (hash: string) => number | undefined
  /** Called if the table has a revoked key as active, which means that the table is older. */
  readonly onRevived?: () => void
  /**
   * Called before cached records of these keys, or of all if undefined, are dropped: whatever else decides by them
   * must drop them first.
   */
  readonly onForgotten?: (hashes: readonly string[] | undefined) => void
  /** A monotonic clock in milliseconds; `performance.now` by default. */
  readonly monotonic?: () => number
}

export type CachedApiKeys = ReturnType<typeof createCachedApiKeys>

/** How long keys are trusted at least after the database's last response (ms; contract, 6). */
export const minGraceMs = 60_000
const defaultGraceMs = 900_000
/** A key that another process creates is found this late at most, if it was looked up here before. */
const unknown = { entries: 50_000, keptMs: 5_000 }
/**
 * A key in use is read again at least this often, and never trusted for more than twice as long
 * while the table is available. This bounds the effect of a revocation that was not logged.
 */
const reviewMs = 30_000
/** If more look-ups than this are waiting, none is added just to read a key again. */
const maxReviewing = 500
/** Maximum number of rounds of confirming and looking up for one answer. */
const maxTurns = 4
/** One shared instance: capturing a stack would cost more than the rest of a refusal. */
const unavailable = new ServiceError('store_unavailable')

/** The keys of the table behind a cache. */
export function createCachedApiKeys(table: ApiKeyTable, options: KeyCacheOptions) {
  const { entries, freshness, monotonic = () => performance.now() } = options
  const { onForgotten = () => {} } = options
  const graceMs = Math.max(minGraceMs, options.outageGraceMs ?? defaultGraceMs)
  const known = createKeyCache(entries)
  const unknownHashes = createUnknownHashes({ ...unknown, monotonic })
  /** Since when reads take too long, for example because the table is locked, although the log is followed. */
  let slowSince: number | undefined
  const lookups = createKeyLookups({
    async read(hashes) {
      const begunAt = monotonic()
      try {
        const found = await table.findByHashes(hashes)
        slowSince = undefined
        return found
      } catch (error) {
        if (isOf(error, 'store_slow')) slowSince ??= begunAt
        throw error
      }
    },
    take(hash, found) {
      const key = found && withStatus(found)
      // Possibly a revocation that was not logged.
      if (key?.status !== 'active' && known.has(hash)) onForgotten([hash])
      if (key !== undefined) return known.set(hash, key, trustedUntil())
      known.delete(hash)
      unknownHashes.add(hash)
      return undefined
    },
    isUnavailable: () => freshness.state() === 'unavailable',
    monotonic,
  })
  const warmUp = createCacheWarmUp((key) => {
    if (known.get(key.hash) !== undefined) return false
    known.set(key.hash, withStatus(key), trustedUntil())
    return true
  })
  /** Since the start. */
  const counts = {
    /** Results from the cache. */
    hits: 0,
    /** Results that needed a look-up, or were refused. */
    misses: 0,
    /** Results that a key is unknown, from a recent look-up. */
    unknownHits: 0,
  }

  /** The key as in the table, unless it has been revoked since. */
  function withStatus(found: FoundKey): FoundKey {
    const end = found.status === 'active' ? options.endOf?.(found.hash) : undefined
    if (end === undefined) return found
    if (end > 0) return { ...found, expiresAt: Math.min(end, found.expiresAt ?? end) }
    options.onRevived?.()
    return { ...found, status: 'revoked' }
  }

  /**
   * A key that is read now is due again `reviewMs` before this; random, so that keys read together are not read
   * together again.
   */
  function trustedUntil(): number {
    return monotonic() + (1.5 + Math.random() / 2) * reviewMs
  }

  function findByHash(
    hash: string,
    source: SourceAddress = nowhere,
  ): KnownKey | undefined | Promise<KnownKey | undefined> {
    const cached = fromCache(hash)
    if (typeof cached === 'object') return cached
    if (cached === 'read' && known.get(hash) === undefined && unknownHashes.has(hash)) {
      counts.unknownHits += 1
      return undefined
    }
    return find(hash, source)
  }

  async function find(hash: string, source: SourceAddress): Promise<KnownKey | undefined> {
    for (let turn = 0; turn < maxTurns; turn += 1) {
      const cached = fromCache(hash)
      if (typeof cached === 'object') return cached
      if (cached === 'read') {
        counts.misses += 1
        // A known key is read without a source: the limit of a source is for floods of unknown keys.
        const reading = lookups
          .find(hash, known.has(hash) ? undefined : source)
          .catch((error: unknown) => fallBackToCache(hash, error))
        const meanwhile =
          slowSince === undefined ? undefined : withinGrace(known.get(hash), slowMs())
        if (meanwhile !== undefined) {
          reading.catch(() => {})
          return meanwhile
        }
        const found = await reading
        // A result from before a pause of this process may be outdated.
        if (found === undefined || freshness.state() === 'confirmed') return found
      }
      await freshness.confirm()
    }
    throw unavailable
  }

  /** The cached key, or what must happen first. */
  function fromCache(hash: string): KnownKey | 'read' | 'confirm' {
    const key = known.get(hash)
    const state = freshness.state()
    if (state === 'unavailable') return findDuringOutage(key)
    if (key === undefined) return 'read'
    if (state === 'unconfirmed') return 'confirm'
    const now = monotonic()
    return now < key.trustedUntil ? use(hash, key, now) : 'read'
  }

  /** Starts reading it again when that is due. */
  function use(hash: string, key: CachedKey, now: number): KnownKey {
    counts.hits += 1
    const isDue = now >= key.trustedUntil - reviewMs
    if (isDue && lookups.stats.waiting < maxReviewing) {
      lookups.find(hash, undefined).catch(() => {})
    }
    return key
  }

  function slowMs(): number {
    return slowSince === undefined ? 0 : monotonic() - slowSince
  }

  /** The cached key, if it may be used without the table, which may be slow for this long. */
  function withinGrace(key: KnownKey | undefined, slowForMs = 0): KnownKey | undefined {
    const ageMs = Math.max(freshness.ageMs(), slowForMs)
    return key === undefined || ageMs >= graceMs ? undefined : { ...key, ageMs }
  }

  /** No caller waits for a table that is known to be unavailable. */
  function findDuringOutage(key: KnownKey | undefined): KnownKey {
    const found = withinGrace(key)
    counts[found === undefined ? 'misses' : 'hits'] += 1
    if (found === undefined) throw unavailable
    return found
  }

  /** If the table fails although the cache is fresh, as in the first second of an outage, or while it is locked. */
  function fallBackToCache(hash: string, error: unknown): KnownKey {
    const isAway = isOf(error, 'store_unavailable') || isOf(error, 'store_slow')
    const found = isAway ? withinGrace(known.get(hash), slowMs()) : undefined
    if (found === undefined) throw error
    return found
  }

  function evict(hashes: readonly string[]): void {
    if (hashes.length > 0) onForgotten(hashes)
    for (const hash of hashes) {
      known.delete(hash)
      unknownHashes.delete(hash)
      warmUp.evict(hash)
    }
    lookups.repeat(hashes)
  }

  /** Evicts those that `drop` takes out of the cache, and all that are being read. */
  function evictAll(drop: () => void): void {
    // All, because records of the decision table may outlast their keys in this cache.
    onForgotten(undefined)
    drop()
    lookups.repeatAll()
    warmUp.evictAll()
  }

  return {
    findByHash,
    ...createWriteThroughTable(table, {
      evict,
      evictWhere: (isMeant) => evictAll(() => known.deleteWhere(isMeant)),
    }),
    /** Evicts these keys; a read of them in progress is repeated before it is answered. */
    evict,
    /** Trusts no cached key until it has been read again, which happens as keys are used. */
    forgetAll: (): void => evictAll(known.doubtAll),
    /**
     * Caches the `limit` most recently used keys that are active at `now`; returns how many were not cached yet. Call
     * it once eviction works, so that keys revoked meanwhile are left out.
     */
    warm: (limit: number, now: number): Promise<number> =>
      warmUp.run(table.findLastUsed(Math.min(limit, entries), now)),
    stats: () => ({ entries: known.size, ...counts, ...lookups.stats }),
  }
}

function isOf(error: unknown, code: ErrorCode): boolean {
  return error instanceof ServiceError && error.code === code
}

/** The source of a request without one. */
const nowhere: SourceAddress = () => undefined
