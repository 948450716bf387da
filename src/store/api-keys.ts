/** Where API keys are kept. Every method throws `store_unavailable` when the store is out of reach. */

import type { ApiKeyRecord, ApiKeyStatus } from '../core/api-key.ts'
import type { RevokedKey } from './revocations/revocation-log.ts'

/** What the request path needs to know of a key. */
export type KnownKey = Pick<
  ApiKeyRecord,
  'id' | 'user' | 'groups' | 'subscription' | 'status' | 'expiresAt' | 'revokedAt'
>

/** A key as a look-up answers it. */
export interface KeyAnswer extends KnownKey {
  /**
   * Milliseconds since the store last confirmed it, where it is out of reach and the memory was all
   * there was to answer from.
   */
  readonly ageMs?: number
}

/** A key with the hash it was found by. */
export interface FoundKey extends KnownKey {
  readonly hash: string
}

/** The address that a request comes from. Only asked when it matters: reading it may cost. */
export type Source = () => string | undefined

/** Finding a key by its hash: all that the request path needs of the store. */
export interface KeyLookup {
  /**
   * Answers without a promise when it is known already. Sources share the store evenly; of one
   * that asks too much some are `store_unavailable`.
   */
  findByHash(hash: string, source?: Source): KeyAnswer | undefined | Promise<KeyAnswer | undefined>
}

export type ApiKeySort = 'created_at' | 'expires_at' | 'last_used_at' | 'name'

/** Which keys, in which order, and which part of them. */
export interface ApiKeySearch {
  /** undefined: everybody's. */
  readonly owner: string | undefined
  /** Effective statuses at `now`; empty means all. */
  readonly statuses: ReadonlySet<ApiKeyStatus>
  readonly includeEphemeral: boolean
  /** As `prefixOf` makes it; undefined: any. */
  readonly prefix: string | undefined
  readonly sortBy: ApiKeySort
  readonly descending: boolean
  readonly limit: number
  readonly offset: number
  /** Milliseconds since the epoch. */
  readonly now: number
}

/** What is done with records, by the edges and by what stands before the table. */
interface ApiKeyRecords {
  insert(record: ApiKeyRecord): Promise<void>
  findById(id: string): Promise<ApiKeyRecord | undefined>
  /**
   * Revokes a key that is active at `now` (milliseconds since the epoch) and belongs to `owner`
   * (undefined: to anybody). Of calls side by side one gets the record, the others undefined.
   */
  revoke(
    id: string,
    owner: string | undefined,
    now: number,
  ): Promise<(ApiKeyRecord & RevokedKey) | undefined>
  /**
   * Records without a date to sort by come last in both directions, equals are ordered by id, so
   * that pages of a table at rest never overlap. Names are ordered by their bytes.
   */
  search(search: ApiKeySearch): Promise<readonly ApiKeyRecord[]>
  /**
   * Revokes what `owner` has active at `now`; answers the keys. Of calls side by side each key is
   * revoked by one.
   */
  revokeAll(owner: string, now: number): Promise<readonly RevokedKey[]>
  /**
   * Deletes ephemeral keys that expired more than 30 minutes before `now`, whatever their status;
   * answers how many. Of calls side by side each key is counted by one.
   */
  deleteExpiredEphemeral(now: number): Promise<number>
}

/** Where the edges find and change keys. */
export interface ApiKeyStore extends KeyLookup, ApiKeyRecords {}

/** Where keys are kept for good, as the store before it asks. */
export interface ApiKeyTable extends ApiKeyRecords {
  /** Those of the hashes that are kept, in any order. */
  findByHashes(hashes: readonly string[]): Promise<readonly FoundKey[]>
  /** At most `limit` of those active at `now`, the ones used last. */
  findLastUsed(limit: number, now: number): Promise<readonly FoundKey[]>
  /**
   * Notes when keys, by id, were used last (milliseconds since the epoch). A key that was used
   * less than 30 seconds after what is noted of it, or that somebody is just changing, is passed
   * over.
   */
  noteUses(uses: ReadonlyMap<string, number>): Promise<void>
}
