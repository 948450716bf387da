/** The store of API keys. Every method throws `store_unavailable` if the store cannot be reached. */

import type { Labels } from '../formats/labels.ts'
import type { CompiledCaps } from '../identity/rules/caller.ts'
import type { Attempt } from './idempotency.ts'
import type { RevokedKey } from './revocations/revocation-log.ts'
import type { ApiKeyRecord, ApiKeyStatus } from './rules/api-key.ts'
import type { KeyCaps } from './rules/key-caps.ts'

/** The fields of a key that the request path needs. */
export type KnownKey = Pick<
  ApiKeyRecord,
  'id' | 'user' | 'groups' | 'subscription' | 'status' | 'createdAt' | 'expiresAt' | 'revokedAt'
> & {
  /** Found by a secret that a rotation has replaced; `expiresAt` is the end of that secret. */
  readonly isPrevious?: true
  /** Set only if something is capped. */
  readonly capped?: CompiledCaps
  /** Until when it is trusted without being read again, by `performance.now()`; undefined if it is not cached. */
  readonly trustedUntil?: number
  /** Milliseconds since the store last confirmed it; set if the store is unavailable and the key is from the cache. */
  readonly ageMs?: number
}

/** A key with the hash it was found by. */
export interface FoundKey extends KnownKey {
  readonly hash: string
}

/** A key that must not be accepted yet: its first use cannot be recorded while a transaction has locked its row. */
export interface LockedKey {
  readonly hash: string
  readonly lockedId: string
}

/** The address that a request comes from. Called only if needed, because reading it may be expensive. */
export type SourceAddress = () => string | undefined

/** Finds a key by its hash: all that the request path needs of the store. */
export interface KeyLookup {
  /**
   * Returns without a promise if the key is cached. Sources share the store fairly; excess look-ups
   * of one source fail with `store_unavailable`.
   */
  findByHash(
    hash: string,
    source?: SourceAddress,
  ): KnownKey | undefined | Promise<KnownKey | undefined>
}

export type ApiKeySort = 'created_at' | 'expires_at' | 'last_used_at' | 'name'

/** Filter, order and page of a search. */
export interface ApiKeySearch {
  /** All owners if undefined. */
  readonly owner: string | undefined
  /** The id of the only key that may be found, if any. */
  readonly only?: string | undefined
  /** Effective statuses at `now`; empty means all. */
  readonly statuses: ReadonlySet<ApiKeyStatus>
  readonly includeEphemeral: boolean
  /** Bare name; any subscription if undefined. */
  readonly subscription: string | undefined
  /** As made by `printablePrefixOf`; any prefix if undefined. */
  readonly prefix: string | undefined
  /** A key must have all of these labels, if there are any. */
  readonly labels: Labels
  readonly sortBy: ApiKeySort
  readonly descending: boolean
  readonly limit: number
  readonly offset: number
  /** Milliseconds since the epoch. */
  readonly now: number
}

/** The keys of a user, of a subscription by its bare name, or of both; not of neither. */
export interface KeyScope {
  readonly user?: string | undefined
  readonly subscription?: string | undefined
}

/** Changes of a record; undefined fields stay. */
export type KeyChanges = Partial<Pick<ApiKeyRecord, 'name' | 'description' | 'labels' | 'caps'>>

/** A new secret for a key. */
interface Rotation {
  readonly hash: string
  readonly prefix: string | null
  /** How long the present secret continues to work, in milliseconds; with 0 it ends at once. */
  readonly overlapMs: number
  /** How long it works at most after the first use of the new one, in milliseconds; if undefined, that use changes nothing. */
  readonly endAfterFirstUseMs: number | undefined
  /**
   * Replaces only the secret with this hash, and only if it was never used; one that it replaced
   * itself works as long as before. By default the present secret is replaced.
   */
  readonly unused?: string | undefined
  readonly attempt?: Attempt | undefined
}

/** Operations on records, of the API and of the cache in front of the table. */
interface ApiKeyRecords {
  /**
   * Throws `idempotency_busy` if another attempt has taken over, and `too_many_keys` if the user has `most` active keys
   * (no limit if undefined), even with concurrent calls.
   */
  insert(record: ApiKeyRecord, attempt?: Attempt, most?: number): Promise<void>
  findById(id: string): Promise<ApiKeyRecord | undefined>
  /**
   * Changes a key that is active at `now` and belongs to `owner`, if given, and returns its record.
   * Does nothing if `from` is given and its caps are others.
   */
  change(
    id: string,
    owner: string | undefined,
    changes: KeyChanges,
    now: number,
    from?: KeyCaps,
  ): Promise<(ApiKeyRecord & RevokedKey) | undefined>
  /**
   * Revokes a key that is active at `now` (milliseconds since the epoch) and belongs to `owner`, if given, and if
   * `hash` is given has that present secret. Of concurrent calls one gets the record, the others undefined.
   */
  revoke(
    id: string,
    owner: string | undefined,
    now: number,
    hash?: string,
  ): Promise<(ApiKeyRecord & RevokedKey) | undefined>
  /**
   * Replaces the secret of a key that is active at `now` and belongs to `owner`, if given. Returns the new record, and
   * the replaced secret as a revocation; undefined also if another attempt has taken over.
   */
  rotate(
    id: string,
    owner: string | undefined,
    rotation: Rotation,
    now: number,
  ): Promise<{ readonly record: ApiKeyRecord; readonly replaced: RevokedKey } | undefined>
  /** Ends a replaced secret that still works at `now`, by its hash. */
  endPrevious(hash: string, now: number): Promise<(ApiKeyRecord & RevokedKey) | undefined>
  /**
   * Records without a date to sort by come last in both directions, and ties are ordered by id, so
   * that pages of an unchanged table never overlap. Names are ordered by their bytes.
   */
  search(search: ApiKeySearch): Promise<readonly ApiKeyRecord[]>
  /**
   * Revokes the keys of this scope that are active at `now`, and returns them. Of concurrent calls,
   * one revokes each key.
   */
  revokeAll(scope: KeyScope, now: number): Promise<readonly RevokedKey[]>
  /** The number of active keys, except ephemeral ones, whose end is near at `now` (`endsSoon`). */
  countEndingSoon(now: number): Promise<number>
  /** The number of keys that `revokeAll` would revoke. */
  countActive(scope: KeyScope, now: number): Promise<number>
  /**
   * Deletes ephemeral keys that expired more than 30 minutes before `now`, regardless of their status,
   * and returns how many. Of concurrent calls, one counts each key.
   */
  deleteExpiredEphemeral(now: number): Promise<number>
}

/** The store that the API and Check use. */
export interface ApiKeyStore extends KeyLookup, ApiKeyRecords {}

/** The permanent store, as the cache in front of it uses it. */
export interface ApiKeyTable extends ApiKeyRecords {
  /**
   * The keys with these hashes that exist, in any order. A secret that a repeated request could replace is
   * recorded as used, so that none does; never waits for locked rows.
   */
  findByHashes(hashes: readonly string[]): Promise<readonly (FoundKey | LockedKey)[]>
  /** The `limit` most recently used keys that are active at `now`. */
  findLastUsed(limit: number, now: number): Promise<readonly FoundKey[]>
  /**
   * Records when secrets, by hash, were last used (milliseconds since the epoch). Skips a key that was used
   * less than 30 seconds after its recorded use, or that another transaction is changing.
   */
  noteUses(uses: ReadonlyMap<string, number>): Promise<void>
}
