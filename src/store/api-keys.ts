/** Where API keys are kept. Every method throws `store_unavailable` when the store is out of reach. */

import type { ApiKeyRecord, ApiKeyStatus } from '../core/api-key.ts'

/** Finding a key by its hash: all that the request path needs of the store. */
export interface KeyLookup {
  /** Answers without a promise when it is known already. */
  findByHash(hash: string): ApiKeyRecord | undefined | Promise<ApiKeyRecord | undefined>
}

export type ApiKeySort = 'created_at' | 'expires_at' | 'last_used_at' | 'name'

/** Which keys, in which order, and which part of them. */
export interface ApiKeySearch {
  /** undefined: everybody's. */
  readonly owner: string | undefined
  /** Effective statuses at `now`; empty means all. */
  readonly statuses: ReadonlySet<ApiKeyStatus>
  readonly includeEphemeral: boolean
  readonly sortBy: ApiKeySort
  readonly descending: boolean
  readonly limit: number
  readonly offset: number
  /** Milliseconds since the epoch. */
  readonly now: number
}

export interface ApiKeyStore extends KeyLookup {
  insert(record: ApiKeyRecord): Promise<void>
  findById(id: string): Promise<ApiKeyRecord | undefined>
  /**
   * Revokes a key that is active at `now` (milliseconds since the epoch) and belongs to `owner`
   * (undefined: to anybody). Of calls side by side one gets the record, the others undefined.
   */
  revoke(id: string, owner: string | undefined, now: number): Promise<ApiKeyRecord | undefined>
  /**
   * Records without a date to sort by come last in both directions, equals are ordered by id, so
   * that pages of a table at rest never overlap. Names are ordered by their bytes.
   */
  search(search: ApiKeySearch): Promise<readonly ApiKeyRecord[]>
  /**
   * Revokes what `owner` has active at `now`; answers the hashes of the keys. Of calls side by
   * side each key is revoked by one.
   */
  revokeAll(owner: string, now: number): Promise<readonly string[]>
  /**
   * Deletes ephemeral keys that expired more than 30 minutes before `now`, whatever their status;
   * answers how many. Of calls side by side each key is counted by one.
   */
  deleteExpiredEphemeral(now: number): Promise<number>
}
