/** Where API keys are kept. Every method throws `store_unavailable` when the store is out of reach. */

import type { ApiKeyRecord } from '../core/api-key.ts'

/** Finding a key by its hash: all that the request path needs of the store. */
export interface KeyLookup {
  /** Answers without a promise when it is known already. */
  findByHash(hash: string): ApiKeyRecord | undefined | Promise<ApiKeyRecord | undefined>
}

export interface ApiKeyStore extends KeyLookup {
  insert(record: ApiKeyRecord): Promise<void>
  findById(id: string): Promise<ApiKeyRecord | undefined>
  /**
   * Revokes a key that is active at `now` (milliseconds since the epoch) and belongs to `owner`
   * (undefined: to anybody). Of calls side by side one gets the record, the others undefined.
   */
  revoke(id: string, owner: string | undefined, now: number): Promise<ApiKeyRecord | undefined>
}
