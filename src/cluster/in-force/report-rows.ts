/**
 * What processes have in force, in Postgres: one statement per function. A report contains the
 * changes since the previous one; a reader reads what is new.
 */

import { withDeadline, withLongDeadline } from '../../store/postgres/postgres.ts'
import type { Sql } from '../../store/postgres/sql.ts'
import type { EnvoyState, InForce } from '../rules/enforcement.ts'

/** Postgres notifies this channel whenever a process has reported a change. */
export const inForceChannel = 'tollgate_in_force'

/** How far a process has reported what it has in force. */
export interface ReportPosition {
  /** A random name, new whenever the process reports everything. */
  readonly edition: string
  /** From 1; the number of the report within the edition. */
  readonly revision: number
}

/** Changes of models, by key; undefined for one that is no longer in force. */
export type InForceChanges = ReadonlyMap<string, InForce | undefined>

/**
 * Records that a process is starting, so that it is not waited for until it has reported. Call it
 * before the process is listed as serving.
 */
export async function recordProcessStart(sql: Sql, replica: string): Promise<void> {
  await withLongDeadline(
    sql`insert into tollgate_reports (replica) values (${replica}) on conflict do nothing`,
  )
}

/** Reports everything, as the first revision of this edition. */
export async function reportAllInForce(
  sql: Sql,
  replica: string,
  edition: string,
  all: InForceChanges,
): Promise<void> {
  const query = sql`
    with report as (
      insert into tollgate_reports (replica, edition, revision, reported_at)
      values (${replica}, ${edition}, 1, now())
      on conflict (replica) do update
        set edition = excluded.edition, revision = 1, reported_at = excluded.reported_at
      returning revision
    ),
    gone as (
      delete from tollgate_in_force
      where replica = ${replica} and model <> all(${[...all.keys()]}::text[])
    ),
    written as (${writeRows(sql, replica, all)})
    select pg_notify(${inForceChannel}, '')`
  await withLongDeadline(query)
}

/**
 * Reports the changes since `last`; even without changes it shows that the process is alive. False:
 * the database does not have this process's last state, for example after a restore.
 */
export async function reportChanges(
  sql: Sql,
  replica: string,
  last: ReportPosition,
  changes: InForceChanges,
): Promise<boolean> {
  const { edition, revision } = last
  if (changes.size === 0) {
    const { count } = await withLongDeadline(sql`update tollgate_reports set reported_at = now()
      where replica = ${replica} and edition = ${edition} and revision = ${revision}::bigint`)
    return count === 1
  }
  const query = sql`
    with report as (
      update tollgate_reports set revision = revision + 1, reported_at = now()
      where replica = ${replica} and edition = ${edition} and revision = ${revision}::bigint
      returning revision
    ),
    written as (${writeRows(sql, replica, changes)})
    select pg_notify(${inForceChannel}, '') from report`
  return (await withLongDeadline(query)).length === 1
}

/** Writes rows with the revision of `report`. */
function writeRows(sql: Sql, replica: string, changes: InForceChanges) {
  return sql`
    insert into tollgate_in_force (replica, model, revision, access, limits, server, envoy)
    select ${replica}, model, report.revision, access, limits, server, envoy
    from ${rowsOf(sql, changes)}, report
    on conflict (replica, model) do update set revision = excluded.revision,
      access = excluded.access, limits = excluded.limits, server = excluded.server,
      envoy = excluded.envoy`
}

function rowsOf(sql: Sql, changes: InForceChanges) {
  const column = (field: keyof InForce) =>
    [...changes.values()].map((each) => each?.[field] ?? null)
  return sql`unnest(${[...changes.keys()]}::text[], ${column('access')}::text[],
    ${column('limits')}::text[], ${column('server')}::text[], ${column('envoy')}::text[])
    as row (model, access, limits, server, envoy)`
}

/** Deletes reports of processes that are no longer waited for. */
export async function purgeReports(sql: Sql): Promise<void> {
  await withLongDeadline(sql`delete from tollgate_reports where reported_at < now() - interval '1 hour'
    and replica not in (select id from tollgate_replicas)`)
}

type Row = Readonly<
  Record<'replica' | 'name', string> & {
    edition: string | null
    revision: number | null
    unreportedMs: number | null
    changes: readonly (readonly [string, string | null, string, string, EnvoyState])[]
  }
>

/** Reads new data of all processes that may be serving, except those that are only starting. */
export async function readReports(
  sql: Sql,
  known: ReadonlyMap<string, ReportPosition>,
  deadlineMs: number,
) {
  const of = [...known.values()]
  const rows = await withDeadline(
    sql<Row[]>`
      with known as (
        select * from unnest(${[...known.keys()]}::uuid[], ${of.map((each) => each.edition)}::uuid[],
          ${of.map(({ revision }) => revision)}::bigint[]) as known (replica, edition, revision)
      )
      select r.id as replica, r.name, p.edition, p.revision::float8 as revision,
        (extract(epoch from now() - p.reported_at) * 1000)::float8 as "unreportedMs",
        (select coalesce(json_agg(json_build_array(model, access, limits, server, envoy)), '[]')
          from tollgate_in_force f where f.replica = r.id and f.revision >
            case when known.edition = p.edition then known.revision else 0 end) as changes
      from tollgate_replicas r
        left join tollgate_reports p on p.replica = r.id
        left join known on known.replica = r.id
      where r.serves_until > now() and (p.replica is null or p.edition is not null)
      order by r.name, r.id`,
    deadlineMs,
  )
  return rows.map(({ replica, name, edition, revision, unreportedMs, changes }) => ({
    replica,
    name,
    /** Milliseconds since the last report, or undefined if the process does not report. */
    unreportedMs: unreportedMs ?? undefined,
    /** Undefined if the process has not reported yet. */
    last: edition === null || revision === null ? undefined : { edition, revision },
    /** Everything that it has in force, if its edition is new. */
    changes: new Map<string, InForce | undefined>(
      changes.map(([model, access, limits, server, envoy]) => [
        model,
        access === null ? undefined : { access, limits, server, envoy },
      ]),
    ),
  }))
}
