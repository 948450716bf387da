/** The processes that a revocation waits for, as an operator sees them. */

import { statementDeadlineMs, within } from '../postgres/postgres.ts'
import type { Sql } from '../postgres/sql.ts'

export interface Replica {
  readonly id: string
  readonly name: string
  /** Where it runs, or ran. */
  readonly place: string
  /** Since it last asked for revocations, in milliseconds. */
  readonly unseenMs: number
  /** For how long it may go on serving if it cannot ask, in milliseconds. */
  readonly servesMs: number
}

/** All that are waited for, the one unseen for longest first. */
export async function listReplicas(sql: Sql): Promise<readonly Replica[]> {
  const rows = await within(
    sql<Replica[]>`
      select id, name, place,
        greatest(0, extract(epoch from now() - seen_at) * 1000)::float8 as "unseenMs",
        (extract(epoch from serves_until - now()) * 1000)::float8 as "servesMs"
      from tollgate_replicas where serves_until > now() order by seen_at, id`,
    statementDeadlineMs,
  )
  return [...rows]
}

/** Revocations no longer wait for these. One that is running comes back when it next asks. */
export async function forgetReplicas(sql: Sql, ids: readonly string[]): Promise<void> {
  await within(
    sql`delete from tollgate_replicas where id = any(${ids}::uuid[])`,
    statementDeadlineMs,
  )
}
