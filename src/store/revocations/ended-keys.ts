/**
 * Permanently ended keys in the database: one statement per function. A copy is kept outside of the
 * database (revocation-file.ts), because a restored backup lacks later revocations.
 */

import { statementDeadlineMs, within } from '../postgres/postgres.ts'
import type { Sql } from '../postgres/sql.ts'

/**
 * A key that was revoked or deleted, or a secret that was replaced; instants are milliseconds since
 * the epoch.
 */
export interface EndedKey {
  readonly id: string
  readonly hash: string
  /** When it was ended; if only the table says that it was, when that was read. */
  readonly at: number
  /** When a replaced secret ends; undefined: at once. */
  readonly endsAt?: number | undefined
  /** null: never. After it has expired, its revocation no longer matters. */
  readonly expiresAt: number | null
}

/** The most rows per statement. */
export const pageRows = 2_000

interface EndedRow {
  readonly id: string | null
  readonly hash: string
  readonly at: Date
  readonly endsAt: Date | null
  readonly expiresAt: Date | null
}

/** A page of the log. */
export interface LogPage {
  readonly ended: readonly EndedKey[]
  /** Id of the last row read; undefined: there are no more. */
  readonly last: string | undefined
  /** The snapshot in which the page was read. */
  readonly snapshot: string
}

/**
 * Rows of the log that `snapshot` does not show (undefined: all of it), a page after row `after`.
 * Leaves out deleted keys that had expired.
 */
export async function readEnded(
  sql: Sql,
  snapshot: string | undefined,
  after: string,
): Promise<LogPage> {
  const since = snapshot ?? null
  const query = sql<(EndedRow & { sequence: string; snapshot: string })[]>`
    select found.*, pg_current_snapshot()::text as snapshot
    from (select) one left join lateral (
      select sequence::text as sequence, key_id as id, key_hash as hash, at, expires_at as "expiresAt",
        ends_at as "endsAt"
      from tollgate_revocations
      where sequence > ${after}::bigint and ended and (expires_at is null or expires_at > now())
        and (${since}::pg_snapshot is null
          or transaction >= pg_snapshot_xmin(${since}::pg_snapshot)
            and not pg_visible_in_snapshot(transaction, ${since}::pg_snapshot))
      order by tollgate_revocations.sequence
      limit ${pageRows}
    ) found on true`
  const rows = await within(query, statementDeadlineMs)
  const found = rows.filter(({ sequence }) => sequence !== null)
  return {
    ended: found.map(toEnded),
    last: found.length < pageRows ? undefined : found.at(-1)?.sequence,
    snapshot: rows[0]?.snapshot ?? '',
  }
}

/**
 * Keys of the table that are revoked and not expired, and replaced secrets, a page after the id
 * `after`.
 */
export async function readRevoked(sql: Sql, after: string): Promise<readonly EndedKey[]> {
  const query = sql<EndedRow[]>`
    select id, secret.hash, now() as at, expires_at as "expiresAt", secret.ends_at as "endsAt"
    from (
      select * from api_keys
      where id > ${after} and (status = 'revoked' or previous_hash is not null)
        and (expires_at is null or expires_at > now())
      order by id
      limit ${pageRows}
    ) as page
    cross join lateral (values
      (case status when 'revoked' then key_hash end, null),
      (previous_hash, case status when 'active' then previous_ends_at end)
    ) as secret (hash, ends_at)
    where secret.hash is not null
    order by id`
  return (await within(query, statementDeadlineMs)).map(toEnded)
}

/** The result of revoking again. */
export interface EndedAgain {
  /** Ids of the keys that were active. */
  readonly ids: readonly string[]
  /** The number of keys that still are, because another transaction has them locked. */
  readonly left: number
}

/**
 * Revokes those of these keys that are active in the table, which is then older than their
 * revocation. Of concurrent processes one counts each key.
 */
export async function endAgain(sql: Sql, hashes: readonly string[]): Promise<EndedAgain> {
  const query = sql<EndedAgain[]>`
    with active as (
      select id from api_keys where key_hash = any(${hashes}::text[]) and status = 'active'
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
  const [row] = await within(query, statementDeadlineMs)
  return row ?? { ids: [], left: 0 }
}

/**
 * A database restored on another server contains transaction numbers from there, possibly far above
 * its own. Clears them; processes that seemed to have read them are asked again.
 */
export async function forgetForeignTransactions(sql: Sql): Promise<void> {
  await within(
    sql`update tollgate_revocations set transaction = null
      where transaction >= pg_snapshot_xmax(pg_current_snapshot())`,
    statementDeadlineMs,
  )
  await within(
    sql`update tollgate_replicas set snapshot = null
      where pg_snapshot_xmax(snapshot) > pg_snapshot_xmax(pg_current_snapshot())`,
    statementDeadlineMs,
  )
}

function toEnded({ id, hash, at, expiresAt, endsAt }: EndedRow): EndedKey {
  return {
    ...{ id: id ?? '', hash, at: at.getTime() },
    ...(endsAt && { endsAt: endsAt.getTime() }),
    expiresAt: expiresAt?.getTime() ?? null,
  }
}
