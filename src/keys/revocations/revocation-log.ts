/**
 * The log of revocations and the processes that follow it: one statement per function. Rows of the
 * log are committed in any order; a follower remembers the snapshot in which it has read.
 */

import { withDeadline, withLongDeadline } from '../../store/postgres/postgres.ts'
import type { Fragment, Sql } from '../../store/postgres/sql.ts'
import { type EndedKey, epochMsOf } from './ended-keys.ts'

/** Postgres notifies this channel whenever something was logged. */
export const revocationChannel = 'tollgate_revocations'
/** Stands for every key in the log. */
export const allKeysMarker = '*'
/** In place of a key's hash: increases of limits, whose changes a trigger logs, too. */
export const increasesMarker = '#increases'
/** If there are more new rows than this, every key is evicted instead. */
export const maxLogRows = 10_000

/** The last migrations that added something to the log; a process that knows only earlier ones ignores it. */
export const migrationOf = { caps: 19, increases: 33 } as const

/** The triggers on `api_keys` that write the log. */
export const revocationTriggers = [
  'tollgate_key_changed',
  'tollgate_key_deleted',
  'tollgate_keys_truncated',
]

/** How far a process has followed the log. */
export interface LogPosition {
  /**
   * The newest row it has seen; its `mark` (microseconds since the epoch) distinguishes it from a
   * row with the same number in another database's history. Number 0: the log was empty.
   */
  readonly sequence: number
  readonly mark: number
  /** It has read everything committed in this snapshot of Postgres, in any order of commits. */
  readonly snapshot: string
  /**
   * The start time of the server and its database: after a failover or restore there are other transactions, and a copy
   * of the database may have older ones.
   */
  readonly server: string
}

/** The pod of a process. */
export interface ReplicaPod {
  /** Its cluster: another cluster may reuse names, and its API server has no information about these pods. */
  readonly cluster: string
  readonly namespace: string
  readonly name: string
  readonly uid: string
}

/** A process's data about itself, sent with every poll. */
export interface ReplicaReport {
  readonly id: string
  /** Unique among living processes. */
  readonly name: string
  /** Where it runs: an earlier process in the same place must have ended. */
  readonly place: string
  readonly pod?: ReplicaPod | undefined
  /** Its version of the time zone rules, or undefined if it has no calendars. */
  readonly zones?: string | undefined
  /** How long it may serve after a successful poll, in milliseconds. */
  readonly servesMs: number
  /** Rows with its place that are this old belong to ended processes. */
  readonly unseenMs: number
}

export interface LogState {
  /** Hashes logged since the given position, at most `maxLogRows` + 1; none without a position. */
  readonly hashes: readonly string[]
  /** The ended keys among them. */
  readonly ended: readonly EndedKey[]
  /** Whether the row of that position still exists; otherwise this is another log. */
  readonly isSame: boolean
  /** The position after reading all of this. */
  readonly position: LogPosition
  /** Names of the other processes that may be serving. */
  readonly others: readonly string[]
  /** Which of them have not polled for `unseenMs`: they hang, are disconnected, or were killed. */
  readonly silent: readonly string[]
  /** The pods of these. */
  readonly silentPods: readonly ReplicaPod[]
  /** Versions of the time zone rules that others have and this process has not. */
  readonly otherZones: readonly string[]
  /**
   * Identifies the triggers that log changes of keys: changes when a trigger is enabled, disabled
   * or recreated. `null` if one of them is missing or disabled.
   */
  readonly source: string | null
  /** The names of those that are neither missing nor disabled. */
  readonly logging: readonly string[]
}

/** Each secret that these revocations end; a replaced one of a revoked key ends at once. */
export function endedSecrets(revoked: readonly RevokedKey[]): readonly RevokedKey[] {
  return revoked.flatMap(({ previousHash, ...key }) => {
    if (previousHash === undefined) return key
    const { endsAt: _, ...previous } = { ...key, hash: previousHash }
    return [key, previous]
  })
}

/** The hashes of all secrets that these revocations end. */
export function hashesOf(revoked: readonly RevokedKey[]): readonly string[] {
  return endedSecrets(revoked).map(({ hash }) => hash)
}

/** A process, and which of the given transactions it has not read. */
export interface Acknowledgement {
  readonly id: string
  readonly name: string
  readonly missing: readonly string[]
  /** The last migration whose changes it applies. */
  readonly knows: number
}

/** A revoked key or secret, and the Postgres transaction that revoked it. */
export interface RevokedKey {
  readonly id: string
  readonly hash: string
  /** The hash of its replaced secret, which has ended with it. */
  readonly previousHash?: string
  /** When a replaced secret ends, or undefined if it has ended. Milliseconds since the epoch. */
  readonly endsAt?: number
  /** Milliseconds since the epoch, or null if it never expires. */
  readonly expiresAt: number | null
  readonly transaction: string
}

/**
 * Records that the replica is alive and has followed the log up to `position`, and reads on from there. What it has read
 * survives a crash of the server, which otherwise could give numbers of these transactions to later ones.
 */
export async function followLog(
  sql: Sql,
  replica: ReplicaReport,
  position: LogPosition | undefined,
  deadlineMs?: number,
): Promise<LogState> {
  const { id, zones = null, unseenMs } = replica
  const { sequence = null, mark = null, snapshot = null } = position ?? {}
  const query = sql<LogState[]>`
    with newest as (
      select sequence, ${markOf(sql)} as mark from tollgate_revocations
      order by sequence desc limit 1
    ),
    noted as (${noteReplica(sql, replica, position)}),
    gone as (${removePredecessors(sql, replica)}),
    others as (
      select name, pod, zones, seen_at < now() - ${unseenMs}::float8 * interval '1 millisecond' as silent
      from tollgate_replicas
      where id <> ${id} and serves_until > now() and id not in (select id from gone)
    ),
    news as (${rowsSince(sql, snapshot)}),
    log as (
      select key_hash as hash, coalesce(key_id, '') as id, ended, ${epochMsOf(sql, 'at')} as at,
        ${epochMsOf(sql, 'ends_at')} as "endsAt", ${epochMsOf(sql, 'expires_at')} as "expiresAt"
      from news limit ${maxLogRows + 1}
    ),
    triggers as (${triggersOn(sql)})
    select
      coalesce((select json_agg(hash) from log), '[]') as hashes,
      coalesce((select json_agg(log) filter (where ended) from log), '[]') as ended,
      (select sequence from newest) is null and ${sequence}::bigint = 0 or exists (
        select from tollgate_revocations
        where sequence = ${sequence}::bigint and ${markOf(sql)} = ${mark}::bigint
      ) as "isSame",
      json_build_object(
        'sequence', coalesce((select sequence from newest), 0),
        'mark', coalesce((select mark from newest), 0),
        'snapshot', pg_current_snapshot()::text,
        'server', ${serverOf(sql)}) as position,
      (select coalesce(json_agg(name order by name), '[]') from others) as others,
      (select coalesce(json_agg(name order by name), '[]') from others where silent) as silent,
      (select coalesce(json_agg(pod), '[]') from others where silent and pod is not null)
        as "silentPods",
      (select coalesce(json_agg(distinct zones), '[]') from others where zones <> ${zones}::text)
        as "otherZones",
      (select source from triggers) as source,
      (select names from triggers) as logging,
      set_config('synchronous_commit',
        coalesce(nullif(current_setting('synchronous_commit'), 'off'), 'local'), true)`
  const [state] = await withDeadline(query, deadlineMs)
  return state as LogState
}

/** A snapshot is stored only if it is of this server. */
function noteReplica(
  sql: Sql,
  replica: ReplicaReport,
  position: LogPosition | undefined,
): Fragment {
  const { id, name, place, zones = null, servesMs } = replica
  const pod = replica.pod ? JSON.stringify(replica.pod) : null
  const { sequence = null, snapshot = null, server = null } = position ?? {}
  return sql`
    insert into tollgate_replicas
      (id, name, place, pod, zones, seen_at, serves_until, acknowledged, snapshot, knows)
    values (${id}, ${name}, ${place}, ${pod}::text::jsonb, ${zones},
      now(), now() + ${servesMs}::float8 * interval '1 millisecond',
      coalesce(${sequence}::bigint, 0),
      case when ${server} = ${serverOf(sql)} then ${snapshot}::pg_snapshot end,
      ${migrationOf.increases})
    on conflict (id) do update set name = excluded.name, seen_at = excluded.seen_at,
      serves_until = excluded.serves_until, acknowledged = excluded.acknowledged,
      snapshot = excluded.snapshot`
}

/** Removes processes that ended: an hour ago, or in the place of this one. */
function removePredecessors(sql: Sql, { id, place, unseenMs }: ReplicaReport): Fragment {
  return sql`
    delete from tollgate_replicas where id = any(array(
      select id from tollgate_replicas
      where id <> ${id} and (serves_until < now() - interval '1 hour'
        or place = ${place} and seen_at < now() - ${unseenMs}::float8 * interval '1 millisecond')
      for update skip locked
    ))
    returning id`
}

/**
 * Rows of later transactions, and of those that were open at the snapshot. Not everything since the oldest of these,
 * which any database of the server may keep open for hours. `between`, because for `=` the planner may read the whole
 * table.
 */
function rowsSince(sql: Sql, snapshot: string | null): Fragment {
  return sql`
    select * from tollgate_revocations
    where transaction >= pg_snapshot_xmax(${snapshot}::pg_snapshot)
      and transaction < pg_snapshot_xmax(pg_current_snapshot())
    union all
    select logged.* from pg_snapshot_xip(${snapshot}::pg_snapshot) as open (transaction)
      join tollgate_revocations as logged
        on logged.transaction between open.transaction and open.transaction
    where pg_visible_in_snapshot(open.transaction, pg_current_snapshot())`
}

/**
 * All processes that may be serving, each with the transactions of these that it has not read. A snapshot from the
 * future is from another server, whose dump was restored.
 */
export async function readAcknowledgements(
  sql: Sql,
  transactions: readonly string[],
  deadlineMs?: number,
): Promise<readonly Acknowledgement[]> {
  const query = sql<Acknowledgement[]>`
    select id, name, array(
      select transaction from unnest(${transactions}::text[]) as transaction
      where (pg_visible_in_snapshot(transaction::xid8, snapshot)
        and pg_snapshot_xmax(snapshot) <= pg_snapshot_xmax(pg_current_snapshot())) is not true
    ) as missing, knows
    from tollgate_replicas where serves_until > now() order by name, id`
  return await withDeadline(query, deadlineMs)
}

/** Of revoked keys, those whose transaction lacks rows in the log. */
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
  for (const { transaction, keys } of await withDeadline(query, deadlineMs)) {
    if (keys >= (missing.get(transaction) ?? 0)) missing.delete(transaction)
  }
  return revoked.filter(({ transaction }) => missing.has(transaction))
}

/**
 * Logs these hashes as a trigger would, '' for a hash that no key has. Returns the transaction: a
 * process that has read it has read everything committed before.
 */
export async function logRevocations(
  sql: Sql,
  hashes: readonly string[],
  deadlineMs?: number,
): Promise<string> {
  const query = sql<[{ transaction: string }]>`
    with logged as (
      insert into tollgate_revocations (key_hash) select unnest(${hashes}::text[])
    )
    select pg_current_xact_id()::text as transaction, pg_notify(${revocationChannel}, '')`
  const [{ transaction }] = await withDeadline(query, deadlineMs)
  return transaction
}

/** Revocations no longer wait for the replica, which must have stopped serving. */
export async function removeReplica(sql: Sql, id: string, deadlineMs?: number): Promise<void> {
  await withDeadline(sql`delete from tollgate_replicas where id = ${id}`, deadlineMs)
}

/** Removes the processes that ran in these pods, unless they have polled within `unseenMs`. Returns their names. */
export async function removeEndedReplicas(
  sql: Sql,
  pods: readonly ReplicaPod[],
  unseenMs: number,
): Promise<readonly string[]> {
  const rows = await withLongDeadline(sql<{ name: string }[]>`
    delete from tollgate_replicas
    where pod = any(${pods.map((pod) => JSON.stringify(pod))}::text[]::jsonb[])
      and seen_at < now() - ${unseenMs}::float8 * interval '1 millisecond'
    returning name`)
  return rows.map(({ name }) => name)
}

/**
 * Deletes rows that were logged more than two days ago, longer than any process may serve without
 * reading them, except the newest row. Returns the number of deleted rows.
 */
export async function purgeRevocations(sql: Sql): Promise<number> {
  const batchRows = 20_000
  let deleted = 0
  for (;;) {
    const { count } = await withLongDeadline(sql`
      delete from tollgate_revocations where sequence = any(array(
        select sequence from tollgate_revocations
        where sequence < (select sequence from tollgate_revocations
          where at < now() - interval '2 days' order by sequence desc limit 1)
        order by sequence
        limit ${batchRows}
        for update skip locked
      ))`)
    deleted += count
    if (count < batchRows) return deleted
  }
}

/**
 * The triggers may have been disabled, or the table restored without them. Every change of a
 * catalogue row gives it a new `xmin`, so disabling and enabling again shows too.
 */
function triggersOn(sql: Sql): Fragment {
  return sql`
    select coalesce(json_agg(tgname), '[]') as names, case when count(*) = ${revocationTriggers.length} then
      string_agg(concat_ws(' ', t.oid, t.xmin, p.xmin), ', ' order by tgname) end as source
    from pg_trigger t join pg_proc p on p.oid = t.tgfoid
    where tgrelid = to_regclass('api_keys') and tgenabled in ('A', 'O')
      and tgname = any(${revocationTriggers}::text[])`
}

function serverOf(sql: Sql): Fragment {
  return sql`concat_ws(' ', extract(epoch from pg_postmaster_start_time()),
    (select oid from pg_database where datname = current_database()))`
}

function markOf(sql: Sql): Fragment {
  return sql`(extract(epoch from at) * 1000000)::bigint`
}
