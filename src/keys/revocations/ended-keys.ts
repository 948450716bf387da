/**
 * Permanently ended keys in the database: reads them and revokes them again. revocation-file.ts stores a copy
 * outside of the database, because a restored backup lacks later revocations.
 */

import { lastInstant } from '../../store/postgres/connection.ts'
import { withLongDeadline } from '../../store/postgres/postgres.ts'
import type { Fragment, Sql } from '../../store/postgres/sql.ts'

/** A key that was revoked or deleted, or a secret that was replaced; instants are milliseconds since the epoch. */
export interface EndedKey {
  readonly id: string
  readonly hash: string
  /** When it ended; if only the table knows that it has, when the table was read. */
  readonly at: number
  /** When a replaced secret ends; without it, at once. */
  readonly endsAt?: number | null
  /** Null if never. After it has expired, its revocation no longer matters. */
  readonly expiresAt: number | null
}

/** Maximum number of rows that one statement reads, except for rows of the same hash. */
export const endedPageRows = 10_000
/** Maximum number of keys that one statement revokes. */
const someKeys = 2_000

/**
 * All keys that have ended and not expired, by the table and by the log, which also has deleted keys: a page after the
 * hash `after`. The last page has fewer than `endedPageRows`.
 */
export async function readEndedKeys(sql: Sql, after: string): Promise<readonly EndedKey[]> {
  const matters = sql`(expires_at is null or expires_at > now())`
  // Each part by its own index, so that no page sorts everything that has ended.
  const query = sql<EndedKey[]>`
    select hash, id, ${epochMsOf(sql, 'at')} as at, ${epochMsOf(sql, 'ends_at')} as "endsAt",
      ${epochMsOf(sql, 'expires_at')} as "expiresAt"
    from (
      (select key_hash as hash, coalesce(key_id, '') as id, at, ends_at, expires_at
        from tollgate_revocations where key_hash > ${after} and ended and ${matters}
        order by key_hash fetch first ${endedPageRows} rows with ties)
      union all
      (select key_hash, id, now(), null, expires_at
        from api_keys where key_hash > ${after} and status = 'revoked' and ${matters}
        order by key_hash fetch first ${endedPageRows} rows with ties)
      union all
      (select previous_hash, id, now(), case status when 'active' then previous_ends_at end, expires_at
        from api_keys where previous_hash > ${after} and ${matters}
        order by previous_hash fetch first ${endedPageRows} rows with ties)
    ) as known
    order by hash
    fetch first ${endedPageRows} rows with ties`
  return await withLongDeadline(query)
}

/** Milliseconds since the epoch, of the last instant with a year of four digits for later ones. */
export function epochMsOf(sql: Sql, column: string): Fragment {
  const name = sql.identifier(column)
  return sql`case when ${name} is not null
    then floor(extract(epoch from least(${name}, ${lastInstant}::timestamptz)) * 1000)::float8 end`
}

/** The result of revoking again. */
interface EndedAgain {
  /** Ids of the keys that were active. */
  readonly ids: readonly string[]
  /** The number of keys that still are active, because another transaction has them locked. */
  readonly left: number
}

/**
 * Revokes these keys if they are active in the table, which is then older than their revocation.
 * Each key is counted by only one of several concurrent processes.
 */
export async function revokeEndedKeysAgain(
  sql: Sql,
  hashes: readonly string[],
): Promise<EndedAgain> {
  const all = { ids: [] as string[], left: 0 }
  for (let i = 0; i < hashes.length; i += someKeys) {
    const query = sql<EndedAgain[]>`
      with active as (
        select id from api_keys
        where key_hash = any(${hashes.slice(i, i + someKeys)}::text[]) and status = 'active'
      ),
      free as (
        select id from api_keys where id = any(array(select id from active)) for update skip locked
      ),
      ended as (
        update api_keys set status = 'revoked'
        where status = 'active' and id = any(array(select id from free))
        returning id
      )
      select coalesce((select json_agg(id) from ended), '[]') as ids,
        ((select count(*) from active) - (select count(*) from ended))::int as left`
    for (const { ids, left } of await withLongDeadline(query)) {
      all.ids.push(...ids)
      all.left += left
    }
  }
  return all
}

/**
 * Lets these keys expire when their secrets end, in a table from before the rotations, which lacks the new secrets. A key may
 * be listed again with an earlier end, because its new secret was used. Returns the number of keys that would have lived
 * longer.
 */
export async function expireWithSecrets(sql: Sql, keys: readonly EndedKey[]): Promise<number> {
  const ends = keys.map(({ endsAt }) => new Date(endsAt ?? 0).toISOString())
  const { count } = await withLongDeadline(sql`
    update api_keys set expires_at = ends.at
    from (
      select hash, min(at) as at
      from unnest(${keys.map(({ hash }) => hash)}::text[], ${ends}::timestamptz[]) as listed (hash, at)
      group by hash
    ) as ends
    where key_hash = ends.hash and status = 'active' and (expires_at is null or expires_at > ends.at)`)
  return count
}

/**
 * A database restored on another server contains transaction numbers from there, possibly far above
 * its own. Clears them; processes that seemed to have read them are asked again.
 */
export async function forgetForeignTransactions(sql: Sql): Promise<void> {
  await withLongDeadline(sql`update tollgate_revocations set transaction = null
    where transaction >= pg_snapshot_xmax(pg_current_snapshot())`)
  await withLongDeadline(sql`update tollgate_replicas set snapshot = null
    where pg_snapshot_xmax(snapshot) > pg_snapshot_xmax(pg_current_snapshot())`)
}
