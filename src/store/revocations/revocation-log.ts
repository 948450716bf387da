/**
 * The log of revocations and the processes that follow it: one statement a function. Rows of the
 * log are committed in any order; who follows it remembers the snapshot that it has read in.
 */

import { statementDeadlineMs, within } from '../postgres/postgres.ts'
import type { Fragment, Query, Sql } from '../postgres/sql.ts'

/** Notified by the database whenever something was logged. */
export const revocationChannel = 'tollgate_revocations'
/** Stands in the log for every key there is. */
export const everyKey = '*'
/** Of more new rows than this every key is forgotten instead. */
export const logRows = 10_000

/** How far a process has followed the log. */
export interface LogPosition {
  /**
   * The newest row it has seen; its `mark` (microseconds since the epoch) tells it from one of the
   * same number in another database's history. Number 0: the log was empty.
   */
  readonly sequence: number
  readonly mark: number
  /** What was committed in this snapshot of Postgres it knows of, whatever the order of commits. */
  readonly snapshot: string
}

/** The pod that a process runs in. */
export interface ReplicaPod {
  /** Of which cluster: names are given again in another, and its API server knows nothing of these. */
  readonly cluster: string
  readonly namespace: string
  readonly name: string
  readonly uid: string
}

/** What a process says of itself whenever it asks. */
export interface ReplicaNote {
  readonly id: string
  readonly name: string
  /** Where it runs; no two processes that live share it. */
  readonly place: string
  readonly pod?: ReplicaPod | undefined
  /** How long it may go on serving after this, in milliseconds. */
  readonly servesMs: number
  /** Rows of its place that were not seen for so long are of processes that have ended. */
  readonly unseenMs: number
}

export interface LogAnswer {
  /** Hashes logged since the position asked from, at most `logRows` + 1; none where there is none. */
  readonly hashes: readonly string[]
  /** Whether the row of that position is still there: else the log is not the one followed so far. */
  readonly isSame: boolean
  /** The position that knowing all of this makes. */
  readonly position: LogPosition
  /** Names of the other processes that may be serving. */
  readonly others: readonly string[]
  /** Of them, those that have not asked for `unseenMs`: they hang, are cut off, or were killed. */
  readonly silent: readonly string[]
  /** Of these, the pods that there are. */
  readonly silentPods: readonly ReplicaPod[]
  /** Which server answers, since when: one that took over may have lost what another one had. */
  readonly server: string
  /**
   * What logs the changes of keys: another text once a trigger was switched off or on, or made
   * anew. `null` while nothing does: the triggers are not there, or off.
   */
  readonly source: string | null
}

/** What one process has followed of the log: of these transactions, those it does not know of. */
export interface Acknowledgement {
  readonly id: string
  readonly name: string
  readonly missing: readonly string[]
}

/** A key that was revoked, and the transaction of Postgres that did it. */
export interface RevokedKey {
  readonly id: string
  readonly hash: string
  /** Milliseconds since the epoch; null: never. */
  readonly expiresAt: number | null
  readonly transaction: string
}

/**
 * Notes that the replica is here and has followed the log up to `position` (undefined: not at all),
 * and reads on from there.
 */
export function followLog(
  sql: Sql,
  replica: ReplicaNote,
  position: LogPosition | undefined,
  deadlineMs?: number,
): Promise<LogAnswer> {
  const { id, name, place, servesMs, unseenMs } = replica
  const pod = replica.pod ? JSON.stringify(replica.pod) : null
  const { sequence = null, mark = null, snapshot = null } = position ?? {}
  const query = sql<LogAnswer[]>`
    with newest as (
      select sequence, ${markOf(sql)} as mark from tollgate_revocations
      order by sequence desc limit 1
    ),
    noted as (
      insert into tollgate_replicas
        (id, name, place, pod, seen_at, serves_until, acknowledged, snapshot)
      values (${id}, ${name}, ${place}, ${pod}::text::jsonb,
        now(), now() + ${servesMs}::float8 * interval '1 millisecond',
        coalesce(${sequence}::bigint, 0), ${snapshot}::pg_snapshot)
      on conflict (id) do update set name = excluded.name, seen_at = excluded.seen_at,
        serves_until = excluded.serves_until, acknowledged = excluded.acknowledged,
        snapshot = excluded.snapshot
    ),
    gone as (
      delete from tollgate_replicas where id = any(array(
        select id from tollgate_replicas
        where id <> ${id} and (serves_until < now() - interval '1 hour'
          or place = ${place} and seen_at < now() - ${unseenMs}::float8 * interval '1 millisecond')
        for update skip locked
      ))
      returning id
    ),
    others as (
      select name, pod, seen_at < now() - ${unseenMs}::float8 * interval '1 millisecond' as silent
      from tollgate_replicas
      where id <> ${id} and serves_until > now() and id not in (select id from gone)
    ),
    log as (
      select key_hash from tollgate_revocations
      where transaction >= pg_snapshot_xmin(${snapshot}::pg_snapshot)
        and transaction < pg_snapshot_xmax(pg_current_snapshot())
        and not pg_visible_in_snapshot(transaction, ${snapshot}::pg_snapshot)
      limit ${logRows + 1}
    )
    select
      coalesce((select json_agg(key_hash) from log), '[]') as hashes,
      (select sequence from newest) is null and ${sequence}::bigint = 0 or exists (
        select from tollgate_revocations
        where sequence = ${sequence}::bigint and ${markOf(sql)} = ${mark}::bigint
      ) as "isSame",
      json_build_object(
        'sequence', coalesce((select sequence from newest), 0),
        'mark', coalesce((select mark from newest), 0),
        'snapshot', pg_current_snapshot()::text) as position,
      (select coalesce(json_agg(name order by name), '[]') from others) as others,
      (select coalesce(json_agg(name order by name), '[]') from others where silent) as silent,
      (select coalesce(json_agg(pod), '[]') from others where silent and pod is not null)
        as "silentPods",
      pg_postmaster_start_time()::text as server,
      ${sourceOf(sql)} as source`
  return only(query, deadlineMs)
}

/** Everybody who may be serving, each with those of these transactions that it does not know of. */
export async function readAcknowledgements(
  sql: Sql,
  transactions: readonly string[],
  deadlineMs?: number,
): Promise<readonly Acknowledgement[]> {
  const query = sql<Acknowledgement[]>`
    select id, name, array(
      select transaction from unnest(${transactions}::text[]) as transaction
      where pg_visible_in_snapshot(transaction::xid8, snapshot) is not true
    ) as missing
    from tollgate_replicas where serves_until > now() order by name, id`
  return await within(query, deadlineMs)
}

/** Of keys that were revoked, those of transactions of which the log does not have every row. */
export async function findUnlogged(
  sql: Sql,
  revoked: readonly RevokedKey[],
  deadlineMs?: number,
): Promise<readonly RevokedKey[]> {
  const missing = new Map<string, number>()
  for (const { transaction } of revoked) {
    missing.set(transaction, (missing.get(transaction) ?? 0) + 1)
  }
  const query = sql<{ transaction: string; keys: number }[]>`
    select transaction::text as transaction, count(distinct key_hash)::int as keys
    from tollgate_revocations where transaction = any(${[...missing.keys()]}::xid8[])
    group by transaction`
  for (const { transaction, keys } of await within(query, deadlineMs)) {
    if (keys >= (missing.get(transaction) ?? 0)) missing.delete(transaction)
  }
  return revoked.filter(({ transaction }) => missing.has(transaction))
}

/**
 * Logs these hashes as a trigger would, '' as one that nobody remembers. Answers the transaction:
 * who knows of it knows of all that was committed before.
 */
export async function logRevocations(
  sql: Sql,
  hashes: readonly string[],
  deadlineMs?: number,
): Promise<string> {
  const query = sql<{ transaction: string }[]>`
    with logged as (
      insert into tollgate_revocations (key_hash) select unnest(${hashes}::text[])
    )
    select pg_current_xact_id()::text as transaction, pg_notify(${revocationChannel}, '')`
  return (await only(query, deadlineMs)).transaction
}

/** Takes the replica from those that are waited for: it will not serve any more. */
export async function removeReplica(sql: Sql, id: string, deadlineMs?: number): Promise<void> {
  await within(sql`delete from tollgate_replicas where id = ${id}`, deadlineMs)
}

/**
 * Takes those from it that ran in these pods, unless they have asked within `unseenMs` after all.
 * Answers their names.
 */
export async function removeEnded(
  sql: Sql,
  pods: readonly ReplicaPod[],
  unseenMs: number,
): Promise<readonly string[]> {
  const rows = await within(
    sql<{ name: string }[]>`
      delete from tollgate_replicas
      where pod = any(${pods.map((pod) => JSON.stringify(pod))}::text[]::jsonb[])
        and seen_at < now() - ${unseenMs}::float8 * interval '1 millisecond'
      returning name`,
    statementDeadlineMs,
  )
  return rows.map(({ name }) => name)
}

/**
 * Deletes what was logged more than two days ago, which is longer than anybody may go on serving
 * without having read it; of that the newest row is kept. Answers how many went.
 */
export async function purgeRevocations(sql: Sql): Promise<number> {
  const batchRows = 20_000
  let deleted = 0
  for (;;) {
    const { count } = await within(
      sql`
        delete from tollgate_revocations where sequence = any(array(
          select sequence from tollgate_revocations
          where sequence < (select sequence from tollgate_revocations
            where at < now() - interval '2 days' order by sequence desc limit 1)
          order by sequence
          limit ${batchRows}
          for update skip locked
        ))`,
      statementDeadlineMs,
    )
    deleted += count
    if (count < batchRows) return deleted
  }
}

/**
 * Somebody may have switched the triggers off, or restored the table without them. Whatever changes
 * a row of the catalogue gives it a new `xmin`: also what was switched off and on again shows.
 */
function sourceOf(sql: Sql): Fragment {
  return sql`(
    select case when count(*) = 3 then
      string_agg(concat_ws(' ', t.oid, t.xmin, p.xmin), ', ' order by tgname) end
    from pg_trigger t join pg_proc p on p.oid = t.tgfoid
    where tgrelid = to_regclass('api_keys') and tgenabled in ('A', 'O')
      and tgname in ('tollgate_key_changed', 'tollgate_key_deleted', 'tollgate_keys_truncated'))`
}

function markOf(sql: Sql): Fragment {
  return sql`(extract(epoch from at) * 1000000)::bigint`
}

async function only<Row extends object>(
  query: Query<Row[]>,
  deadlineMs: number | undefined,
): Promise<Row> {
  const [row] = await within(query, deadlineMs)
  if (row === undefined) throw new Error('a look at the log is one row')
  return row
}
