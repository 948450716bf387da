/**
 * The table, with changes of keys that are followed by their eviction from the cache. Deleted keys are not evicted: they
 * expired long ago, so no look-up accepts them, cached or not.
 */

import { hashesOf } from './revocations/revocation-log.ts'
import type { ApiKeyStore, ApiKeyTable, KeyLookup, KnownKey } from './store.ts'

interface EvictingCache {
  /** Evicts these keys; a read of them in progress is repeated before it is answered. */
  evict(hashes: readonly string[]): void
  /** Evicts all keys for which this holds, and all that are being read. */
  evictWhere(holds: (key: KnownKey) => boolean): void
}

export function createWriteThroughTable(
  table: ApiKeyTable,
  { evict, evictWhere }: EvictingCache,
): Omit<ApiKeyStore, keyof KeyLookup> {
  /** Runs a revocation. One that fails may still have been committed, so its keys are evicted. */
  async function revoking<T>(
    revocation: Promise<T>,
    isMeant: (key: KnownKey) => boolean,
  ): Promise<T> {
    try {
      return await revocation
    } catch (error) {
      evictWhere(isMeant)
      throw error
    }
  }

  // By name, so that another change of keys is not left without an eviction.
  const { findById, search, countActive, countEndingSoon, deleteExpiredEphemeral } = table
  return {
    ...{ findById, search, countActive, countEndingSoon, deleteExpiredEphemeral },
    async insert(record, attempt, most) {
      try {
        await table.insert(record, attempt, most)
      } finally {
        evict([record.hash])
      }
    },
    async change(id, owner, changes, now, from) {
      const changing = table.change(id, owner, changes, now, from)
      if (changes.caps === undefined) return await changing
      const changed = await revoking(changing, (key) => key.id === id)
      if (changed !== undefined) evict(hashesOf([changed]))
      return changed
    },
    async revoke(id, owner, now, hash) {
      const revoked = await revoking(
        table.revoke(id, owner, now, hash),
        (key) => key.id === id && (owner === undefined || key.user === owner),
      )
      if (revoked !== undefined) evict(hashesOf([revoked]))
      return revoked
    },
    async rotate(id, owner, rotation, now) {
      const isMeant = (key: KnownKey) => key.id === id
      const rotated = await revoking(table.rotate(id, owner, rotation, now), isMeant)
      if (rotated !== undefined) evict([rotation.hash, ...hashesOf([rotated.replaced])])
      return rotated
    },
    async endPrevious(hash, now) {
      const isMeant = (key: KnownKey) => key.isPrevious === true
      const revoked = await revoking(table.endPrevious(hash, now), isMeant)
      if (revoked !== undefined) evict([hash])
      return revoked
    },
    async revokeAll(scope, now) {
      const { user, subscription } = scope
      const revoked = await revoking(
        table.revokeAll(scope, now),
        (key) =>
          (user === undefined || key.user === user) &&
          (subscription === undefined || key.subscription === subscription),
      )
      evict(hashesOf(revoked))
      return revoked
    },
  }
}
