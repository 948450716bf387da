/**
 * An LRU before any ApiKeyStore. Misses of one hash are coalesced into one query; a revocation
 * evicts, and a query that began before it can not bring the old record back.
 */

import { LRUCache } from 'lru-cache'
import type { ApiKeyRecord } from '../core/api-key.ts'
import type { ApiKeyStore } from './api-keys.ts'

export interface KeyCacheOptions {
  /** Records kept at most. */
  readonly entries: number
  /** Milliseconds after which a record is asked for again. */
  readonly ttlMs: number
}

/** The store with its lookups by hash remembered. Unknown hashes are not remembered. */
export function createCachedApiKeys(store: ApiKeyStore, options: KeyCacheOptions): ApiKeyStore {
  const known = new LRUCache<string, ApiKeyRecord>({ max: options.entries, ttl: options.ttlMs })
  const loading = new Map<string, Promise<ApiKeyRecord | undefined>>()

  function load(hash: string): Promise<ApiKeyRecord | undefined> {
    const loaded = Promise.resolve(store.findByHash(hash)).then(
      (record) => {
        // Only the query that still stands for this hash may remember: an eviction removed it.
        if (loading.get(hash) === loaded) {
          loading.delete(hash)
          if (record !== undefined) known.set(hash, record)
        }
        return record
      },
      (error: unknown) => {
        if (loading.get(hash) === loaded) loading.delete(hash)
        throw error
      },
    )
    loading.set(hash, loaded)
    return loaded
  }

  function evict(hash: string): void {
    known.delete(hash)
    loading.delete(hash)
  }

  /** Runs a revocation; one that fails may yet have been done, so what it meant is forgotten. */
  async function revoking<T>(
    revocation: Promise<T>,
    isMeant: (record: ApiKeyRecord) => boolean,
  ): Promise<T> {
    try {
      return await revocation
    } catch (error) {
      for (const record of [...known.values()]) if (isMeant(record)) known.delete(record.hash)
      loading.clear()
      throw error
    }
  }

  return {
    findByHash: (hash) => known.get(hash) ?? loading.get(hash) ?? load(hash),
    insert: (record) => store.insert(record),
    findById: (id) => store.findById(id),
    async revoke(id, owner, now) {
      const revoked = await revoking(store.revoke(id, owner, now), (record) => record.id === id)
      if (revoked !== undefined) evict(revoked.hash)
      return revoked
    },
    search: (search) => store.search(search),
    async revokeAll(owner, now) {
      const hashes = await revoking(store.revokeAll(owner, now), (record) => record.user === owner)
      for (const hash of hashes) evict(hash)
      return hashes
    },
    // What is deleted has been expired for long: no lookup believes it, remembered or not.
    deleteExpiredEphemeral: (now) => store.deleteExpiredEphemeral(now),
  }
}
