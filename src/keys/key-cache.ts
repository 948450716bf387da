/**
 * The cached keys of a process: an LRU of small entries. Equal strings and equal lists of groups
 * are stored once where that is cheap to detect, because many keys share them.
 */

import { LRUCache } from 'lru-cache'
import { createInternPools } from '../runtime/bounded-map.ts'
import { keyStatuses } from './rules/api-key.ts'
import type { KnownKey } from './store.ts'

/** A key as it is cached. */
export interface CachedKey extends KnownKey {
  readonly trustedUntil: number
}

interface Entry extends CachedKey {
  /** The number of `doubtAll` calls before it was read. */
  readonly round: number
}

/** Caches at most this many keys; the least recently used are evicted. */
export function createKeyCache(entries: number) {
  const kept = new LRUCache<string, Entry>({ max: entries })
  const { text, list } = createInternPools()
  let round = 0

  return {
    /** The number of entries, including those in doubt. */
    get size(): number {
      return kept.size
    },
    /** The key, if it is cached and not in doubt; marks it as most recently used. */
    get(hash: string): CachedKey | undefined {
      const entry = kept.get(hash)
      return entry !== undefined && entry.round === round ? entry : undefined
    },
    /** Whether it is cached, in doubt or not. */
    has: (hash: string): boolean => kept.has(hash),
    /** Caches the key as it was read, and returns the cached form. By default it is trusted for ever. */
    set(
      hash: string,
      { id, user, groups, subscription, status, createdAt, ...key }: KnownKey,
      trustedUntil = Number.POSITIVE_INFINITY,
    ): KnownKey {
      const entry: Entry = {
        id,
        user: text(user),
        groups: list(groups),
        subscription: text(subscription),
        status: keyStatuses.find((each) => each === status) ?? status,
        createdAt,
        expiresAt: key.expiresAt,
        ...(key.revokedAt !== undefined && { revokedAt: key.revokedAt }),
        ...(key.isPrevious && { isPrevious: true }),
        ...(key.capped && { capped: key.capped }),
        // An integer is stored within the entry itself.
        trustedUntil: Math.trunc(trustedUntil),
        round,
      }
      kept.set(hash, entry)
      return entry
    },
    delete: (hash: string): void => void kept.delete(hash),
    /** Drops the keys for which this holds; checks every entry. */
    deleteWhere(holds: (key: KnownKey) => boolean): void {
      for (const [hash, entry] of [...kept.entries()]) if (holds(entry)) kept.delete(hash)
    },
    /** Puts all current entries in doubt: each must be set again. */
    doubtAll(): void {
      round += 1
    },
  }
}
