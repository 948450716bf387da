/**
 * Requests that create a secret once, even if they are repeated: one row for each idempotency key. A process that ends
 * during a request leaves a row that another attempt can take over; the statement of the first attempt then does
 * nothing.
 */

import { withDeadline } from '../store/postgres/postgres.ts'
import { earlierNow, type Fragment, type Sql } from '../store/postgres/sql.ts'

/** One attempt of a request. */
export interface Attempt {
  /** A hash of caller, endpoint and idempotency key, so equal for all attempts. */
  readonly scope: string
  /** A UUID. */
  readonly id: string
}

/** The secret that an earlier attempt created. */
export interface MadeSecret {
  readonly keyId: string
  readonly hash: string
}

/**
 * `mine`: proceed, or if `made` is set, replace that secret. `busy`: another attempt is in progress. `other`: the key was
 * used for another request.
 */
type Claim =
  | { readonly state: 'mine'; readonly made: MadeSecret | undefined }
  | { readonly state: 'busy' | 'other' }

export type Idempotency = ReturnType<typeof createIdempotency>

/** How long a request is remembered. */
const rememberedFor = '24 hours'
/** An attempt that is still in progress after this time was lost with its process. */
const attemptFor = '10 seconds'

/** Over a migrated database. Instants are milliseconds since the epoch. */
export function createIdempotency(sql: Sql) {
  return {
    /** `request` is a hash of the parts that must be equal in each attempt. */
    async claim({ scope, id }: Attempt, request: string, now: number): Promise<Claim> {
      const instant = earlierNow(sql, now)
      const forgotten = sql`it.created_at <= ${instant} - ${rememberedFor}::interval`
      const rows = await withDeadline(sql<ClaimRow[]>`
        with mine as (
          insert into tollgate_idempotency as it (scope, request, created_at, attempt, attempted_at)
          values (${scope}, ${request}, ${instant}, ${id}, ${instant})
          on conflict (scope) do update set request = excluded.request, attempt = excluded.attempt,
            attempted_at = excluded.attempted_at,
            created_at = case when ${forgotten} then excluded.created_at else it.created_at end,
            key_id = case when ${forgotten} then null else it.key_id end,
            key_hash = case when ${forgotten} then null else it.key_hash end
          where ${forgotten} or it.request = excluded.request
            and (it.attempt is null or it.attempted_at <= ${instant} - ${attemptFor}::interval)
          returning key_id, key_hash
        )
        select true as mine, false as other, key_id, key_hash from mine
        union all
        select false, request <> ${request}, null, null from tollgate_idempotency
        where scope = ${scope} and not exists (select from mine)`)
      const [row] = rows
      // No row: another attempt has begun since this statement did.
      if (!row?.mine) return { state: row?.other ? 'other' : 'busy' }
      const { key_id: keyId, key_hash: hash } = row
      return { state: 'mine', made: keyId === null || hash === null ? undefined : { keyId, hash } }
    },
    /** Ends the attempt, unless another one has taken over. A request that created nothing is forgotten. */
    async release({ scope, id }: Attempt): Promise<void> {
      const own = sql`scope = ${scope} and attempt = ${id}`
      await withDeadline(sql`
        with forgotten as (delete from tollgate_idempotency where ${own} and key_id is null)
        update tollgate_idempotency set attempt = null where ${own} and key_id is not null`)
    },
    /** Deletes expired rows. */
    async purge(now: number): Promise<void> {
      await withDeadline(sql`
        delete from tollgate_idempotency
        where created_at <= ${earlierNow(sql, now)} - ${rememberedFor}::interval`)
    },
  }
}

interface ClaimRow {
  readonly mine: boolean
  readonly other: boolean
  readonly key_id: string | null
  readonly key_hash: string | null
}

/**
 * Part of the statement that creates the secret, if `possible`: records it, and has a row if the attempt
 * may create it, as it always may without an attempt.
 */
export function recordSecret(
  sql: Sql,
  attempt: Attempt | undefined,
  { keyId, hash }: MadeSecret,
  possible: Fragment = sql`true`,
): Fragment {
  if (attempt === undefined) return sql`select`
  return sql`update tollgate_idempotency set key_id = ${keyId}, key_hash = ${hash}
    where scope = ${attempt.scope} and attempt = ${attempt.id} and ${possible} returning scope`
}
