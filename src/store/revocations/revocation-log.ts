/** The log of revocations and the processes that follow it: one statement a function. */

import { statementDeadlineMs, within } from '../postgres/postgres.ts'
import type { Fragment, Query, Sql } from '../postgres/sql.ts'

/** Notified by the database whenever something was logged. */
export const revocationChannel = 'tollgate_revocations'
/** Stands in the log for every key there is. */
export const everyKey = '*'
/** Rows read by one statement at most. */
export const logRows = 1_000

/** A row of the log; `mark` tells it from one of the same number in another database's history. */
export interface LogPosition {
  readonly sequence: number
  /** Microseconds since the epoch. */
  readonly mark: number
}

export interface LogRow extends LogPosition {
  readonly hash: string
}

/** What a process says of itself whenever it asks. */
export interface ReplicaNote {
  readonly id: string
  readonly name: string
  /** Where it runs; no two processes that live share it. */
  readonly place: string
  /** How long it may go on serving after this, in milliseconds. */
  readonly servesMs: number
  /** Rows of its place that were not seen for so long are of processes that have ended. */
  readonly unseenMs: number
}

export interface LogAnswer {
  /** The row asked from and those after it, in order, at most `logRows` + 1. */
  readonly rows: readonly LogRow[]
  readonly newest: LogPosition
  /** Names of the other processes that may be serving. */
  readonly others: readonly string[]
  /** Whether changes of keys are logged at all: the triggers are there and on. */
  readonly logged: boolean
}

/** What one process has followed of the log. */
export interface Acknowledgement {
  readonly id: string
  readonly name: string
  readonly acknowledged: number
}

export interface Acknowledgements {
  /** Of the log, as it is now. */
  readonly newest: number
  /** As in LogAnswer. */
  readonly logged: boolean
  readonly replicas: readonly Acknowledgement[]
}

/** The channel on which a process hears itself. */
export function ownChannel(id: string): string {
  return `tollgate_replica_${id}`
}

/**
 * Notes that the replica is here and has followed the log up to `position` (undefined: to its end,
 * knowing nothing), notifies it on its own channel, and reads on from there.
 */
export function followLog(
  sql: Sql,
  replica: ReplicaNote,
  position: LogPosition | undefined,
  deadlineMs?: number,
): Promise<LogAnswer> {
  const { id, name, place, servesMs, unseenMs } = replica
  const at = position?.sequence ?? null
  const query = sql<LogAnswer[]>`
    with newest as (
      select sequence, ${markOf(sql)} as mark from tollgate_revocations
      order by sequence desc limit 1
    ),
    noted as (
      insert into tollgate_replicas (id, name, place, seen_at, serves_until, acknowledged)
      values (${id}, ${name}, ${place}, now(), now() + ${servesMs}::float8 * interval '1 millisecond',
        coalesce(${at}::bigint, (select sequence from newest), 0))
      on conflict (id) do update set name = excluded.name, seen_at = excluded.seen_at,
        serves_until = excluded.serves_until, acknowledged = excluded.acknowledged
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
      select name from tollgate_replicas
      where id <> ${id} and serves_until > now() and id not in (select id from gone)
    ),
    log as (
      select sequence, ${markOf(sql)} as mark, key_hash as hash from tollgate_revocations
      where sequence >= ${at}::bigint order by sequence limit ${logRows + 1}
    )
    select
      coalesce((select json_agg(log) from log), '[]') as rows,
      coalesce((select row_to_json(newest) from newest), '{"sequence":0,"mark":0}') as newest,
      (select coalesce(json_agg(name order by name), '[]') from others) as others,
      ${isLogged(sql)} as logged,
      pg_notify(${ownChannel(id)}, '')`
  return only(query, deadlineMs)
}

/** How far everybody who may be serving has followed the log. */
export function readAcknowledgements(sql: Sql, deadlineMs?: number): Promise<Acknowledgements> {
  const query = sql<Acknowledgements[]>`
    select
      coalesce((select max(sequence) from tollgate_revocations), 0)::float8 as newest,
      ${isLogged(sql)} as logged,
      (select coalesce(json_agg(json_build_object(
        'id', id, 'name', name, 'acknowledged', acknowledged) order by name, id), '[]')
        from tollgate_replicas where serves_until > now()) as replicas`
  return only(query, deadlineMs)
}

/** Takes the replica from those that are waited for: it will not serve any more. */
export async function removeReplica(sql: Sql, id: string, deadlineMs?: number): Promise<void> {
  await within(sql`delete from tollgate_replicas where id = ${id}`, deadlineMs)
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

/** Somebody may have disabled the triggers, or restored the table without them. */
function isLogged(sql: Sql): Fragment {
  return sql`(
    select count(*) = 3 from pg_trigger
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
