/**
 * What the edges ask about API keys: a memory of the keys in use, in front of the table. A key that
 * is remembered is answered at once while the memory is known to be fresh; whoever learns of
 * revocations (see Freshness) evicts. Everything else goes to the table.
 */

import { ServiceError } from '../../core/errors.ts'
import type {
  ApiKeyStore,
  ApiKeyTable,
  FoundKey,
  KeyAnswer,
  KnownKey,
  Source,
} from '../api-keys.ts'
import type { Freshness } from '../freshness.ts'
import { createKeyLookups } from './key-lookups.ts'
import { createKnownKeys, type RememberedKey } from './known-keys.ts'
import { createUnknownHashes } from './unknown-hashes.ts'

export interface KeyCacheOptions {
  /** Keys remembered at most. */
  readonly entries: number
  /** Whether what is remembered holds; always, when absent. */
  readonly freshness?: Freshness
  /**
   * For how long a remembered key is believed while the table is out of reach (milliseconds since
   * the memory was last confirmed). Never less than a minute; 15 minutes when absent.
   */
  readonly outageGraceMs?: number
  /** Whether the key with this hash was revoked, though the table may not know it; never, when absent. */
  readonly isEnded?: (hash: string) => boolean
  /** The table has an ended key as active: it is older than that. */
  readonly onRevived?: () => void
  /** Milliseconds that never go back; `performance.now` when absent. */
  readonly monotonic?: () => number
}

export interface CachedApiKeys extends ApiKeyStore {
  /** Forgets these keys; what is being read of them is read again before it is answered. */
  evict(hashes: readonly string[]): void
  /** Believes no key any more before it has been read again, which happens as keys are used. */
  forgetAll(): void
  /**
   * Remembers the `limit` keys used last, of those active at `now`; answers how many it did not
   * remember yet. Call it once something evicts: what is revoked meanwhile is left out.
   */
  warm(limit: number, now: number): Promise<number>
  stats(): KeyCacheStats
}

/** Counts since the start, but for `entries` and `waiting`. */
export interface KeyCacheStats {
  readonly entries: number
  /** Answers from memory. */
  readonly hits: number
  /** Answers that had to be looked up, or were refused. */
  readonly misses: number
  /** Answers that a key is unknown, by what the table said a moment ago. */
  readonly unknownHits: number
  readonly queries: number
  readonly waiting: number
  readonly refused: number
}

/** For how long keys are believed after the last word of the database, whatever is set (ms; contract, 6). */
export const leastGraceMs = 60_000
const usualGraceMs = 900_000
/** A key that another process makes is found so late at most, if it was asked for before. */
const unknown = { entries: 50_000, keptMs: 5_000 }
/**
 * A key in use is read again this often, at the latest, and never believed for longer than twice as
 * long while the table is there: whatever kept its revocation out of the log, it ends there.
 */
const reviewMs = 30_000
/** While more look-ups wait than this, none is added only to read a key again. */
const mostReviewing = 500
/** Turns of confirming and looking up that one answer may take. */
const mostTurns = 4
/** One for all: to capture a stack would cost more than all else that a refusal takes. */
const unavailable = new ServiceError('store_unavailable')

const alwaysFresh: Freshness = {
  state: () => 'confirmed',
  ageMs: () => 0,
  confirm: () => Promise.resolve(),
}

/** The keys of the table with a memory before it. */
export function createCachedApiKeys(table: ApiKeyTable, options: KeyCacheOptions): CachedApiKeys {
  const { entries, freshness = alwaysFresh, monotonic = () => performance.now() } = options
  const graceMs = Math.max(leastGraceMs, options.outageGraceMs ?? usualGraceMs)
  const known = createKnownKeys(entries)
  const unknownHashes = createUnknownHashes({ ...unknown, monotonic })
  const lookups = createKeyLookups({
    read: (hashes) => table.findByHashes(hashes),
    take(hash, found) {
      if (found !== undefined) return known.set(hash, judge(found), nextReview())
      known.delete(hash)
      unknownHashes.add(hash)
      return undefined
    },
    isAway: () => freshness.state() === 'away',
    monotonic,
  })
  const counts = { hits: 0, misses: 0, unknownHits: 0 }
  /** Of each load under way, what it may not bring back. */
  const loads = new Set<{ readonly evicted: Set<string>; void: boolean }>()

  function findByHash(
    hash: string,
    source: Source = nowhere,
  ): KeyAnswer | undefined | Promise<KeyAnswer | undefined> {
    const key = known.get(hash)
    const state = freshness.state()
    if (state === 'confirmed' && key !== undefined && isFresh(hash, key)) {
      counts.hits += 1
      return key
    }
    if (state === 'away') return findWhileAway(key)
    if (key === undefined && unknownHashes.has(hash)) {
      counts.unknownHits += 1
      return undefined
    }
    return find(hash, source)
  }

  /** The key as the table has it, unless that is older than the key's end. */
  function judge(found: FoundKey): FoundKey {
    if (found.status !== 'active' || !options.isEnded?.(found.hash)) return found
    options.onRevived?.()
    return { ...found, status: 'revoked' }
  }

  /** At random, so that what was read together is not read together again. */
  function nextReview(): number {
    return monotonic() + (0.5 + Math.random() / 2) * reviewMs
  }

  /** Whether a key may be believed without reading it again, which is begun when it is time. */
  function isFresh(hash: string, { dueAt }: RememberedKey): boolean {
    const now = monotonic()
    if (now < dueAt) return true
    if (now >= dueAt + reviewMs) return false
    if (lookups.stats.waiting < mostReviewing) lookups.find(hash, undefined).catch(() => {})
    return true
  }

  /** Nobody is made to wait for a table that is known to be out of reach. */
  function findWhileAway(key: KnownKey | undefined): KeyAnswer {
    const ageMs = freshness.ageMs()
    if (key !== undefined && ageMs < graceMs) {
      counts.hits += 1
      return { ...key, ageMs }
    }
    counts.misses += 1
    throw unavailable
  }

  async function find(hash: string, source: Source): Promise<KeyAnswer | undefined> {
    for (let turn = 0; turn < mostTurns; turn += 1) {
      const state = freshness.state()
      const key = known.get(hash)
      if (state === 'away') return findWhileAway(key)
      if (key === undefined || (state === 'confirmed' && !isFresh(hash, key))) {
        counts.misses += 1
        // Whose key was known is no flood, however many of them there are.
        const found = await lookups.find(hash, known.has(hash) ? undefined : source)
        // What was read before a pause of this process may be old by the time it is looked at.
        if (found === undefined || freshness.state() === 'confirmed') return found
      } else if (state === 'confirmed') {
        counts.hits += 1
        return key
      }
      await freshness.confirm()
    }
    throw unavailable
  }

  function evict(hashes: readonly string[]): void {
    for (const hash of hashes) {
      known.delete(hash)
      unknownHashes.delete(hash)
      for (const { evicted } of loads) evicted.add(hash)
    }
    lookups.repeat(hashes)
  }

  function forgetAll(): void {
    known.doubtAll()
    lookups.repeatAll()
    for (const load of loads) load.void = true
  }

  /** Runs a revocation; one that fails may yet have been done, so what it meant is forgotten. */
  async function revoking<T>(
    revocation: Promise<T>,
    isMeant: (key: KnownKey) => boolean,
  ): Promise<T> {
    try {
      return await revocation
    } catch (error) {
      known.deleteWhere(isMeant)
      lookups.repeatAll()
      for (const load of loads) load.void = true
      throw error
    }
  }

  return {
    findByHash,
    async insert(record) {
      try {
        await table.insert(record)
      } finally {
        evict([record.hash])
      }
    },
    findById: (id) => table.findById(id),
    async revoke(id, owner, now) {
      const revoked = await revoking(
        table.revoke(id, owner, now),
        (key) => key.id === id && (owner === undefined || key.user === owner),
      )
      if (revoked !== undefined) evict([revoked.hash])
      return revoked
    },
    search: (search) => table.search(search),
    async revokeAll(owner, now) {
      const revoked = await revoking(table.revokeAll(owner, now), (key) => key.user === owner)
      evict(revoked.map(({ hash }) => hash))
      return revoked
    },
    // What is deleted has been expired for long: no lookup believes it, remembered or not.
    deleteExpiredEphemeral: (now) => table.deleteExpiredEphemeral(now),
    evict,
    forgetAll,
    async warm(limit, now) {
      const load = { evicted: new Set<string>(), void: false }
      loads.add(load)
      try {
        const found = await table.findLastUsed(Math.min(limit, entries), now)
        if (load.void) return 0
        let warmed = 0
        // The one used last is set last, and so the last to make room.
        for (const key of found.toReversed()) {
          if (load.evicted.has(key.hash) || known.get(key.hash) !== undefined) continue
          known.set(key.hash, judge(key), nextReview())
          warmed += 1
        }
        return warmed
      } finally {
        loads.delete(load)
      }
    },
    stats: () => ({ entries: known.size, ...counts, ...lookups.stats }),
  }
}

/** The source of a request that does not say. */
const nowhere: Source = () => undefined
