/** The processes that a revocation waits for, for operators. */

import { withLongDeadline } from '../store/postgres/postgres.ts'
import type { Sql } from '../store/postgres/sql.ts'

export interface Replica {
  readonly id: string
  readonly name: string
  /** Where it runs or ran. */
  readonly place: string
  /** Its version of the time zone rules; null: the process is of an earlier version. */
  readonly zones: string | null
  /** Milliseconds since its last poll for revocations. */
  readonly unseenMs: number
  /** Milliseconds that it may continue to serve without a successful poll. */
  readonly servesMs: number
  /** Revocations that it has not read, at most `maxUnread`; null: it has read nothing yet. */
  readonly unread: number | null
}

/** Enough to know that a process is far behind. */
const maxUnread = 1_000

/** All that revocations wait for, the one unseen longest first. */
export async function listReplicas(sql: Sql): Promise<readonly Replica[]> {
  // now() is the start of the statement: rows that it reads may have been written since.
  const rows = await withLongDeadline(sql<Replica[]>`
    select id, name, place, zones,
      greatest(0, round(extract(epoch from clock_timestamp() - seen_at) * 1000))::float8 as "unseenMs",
      greatest(0, round(extract(epoch from serves_until - clock_timestamp()) * 1000))::float8 as "servesMs",
      case when snapshot is null then null else (
        select count(*)::int from (
          select from tollgate_revocations
          where transaction >= pg_snapshot_xmin(snapshot)
            and not pg_visible_in_snapshot(transaction, snapshot)
          limit ${maxUnread}
        ) as behind
      ) end as unread
    from tollgate_replicas where serves_until > now() order by seen_at, id`)
  return [...rows]
}

/** Revocations no longer wait for these. A process that is running returns with its next poll. */
export async function forgetReplicas(sql: Sql, ids: readonly string[]): Promise<void> {
  await withLongDeadline(sql`delete from tollgate_replicas where id = any(${ids}::uuid[])`)
}
