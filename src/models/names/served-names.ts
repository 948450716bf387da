/**
 * The names that model servers last listed, and to which namespaces names belong, in Postgres:
 * shared by all processes, and outliving them.
 */

import { randomUUID } from 'node:crypto'
import { within, withLongDeadline } from '../../store/postgres/postgres.ts'
import type { Sql } from '../../store/postgres/sql.ts'
import { keptMs, type Missing, type NameOwner } from '../rules/name-owners.ts'

/**
 * By the server's identity. Every method throws `store_unavailable` if the database is unavailable.
 */
export type ServedNamesStore = ReturnType<typeof createServedNamesStore>

/** Owners that have changed; undefined: the name was given up. */
export interface OwnerChanges {
  /** Whether these are all owners, not only those that have changed. */
  readonly areAll: boolean
  readonly owners: ReadonlyMap<string, NameOwner | undefined>
}

/** A change of what is known about an owned name. */
export interface OwnerUpdate {
  readonly name: string
  readonly owner: NameOwner
  /** Where it is listed now, if not by the owner's server. */
  readonly server: string
  readonly before: Missing | undefined
  readonly after: Missing | undefined
}

/** A row may become visible this long after it was written. */
const overlap = '15 seconds'
const overlapMs = 15_000
/** A list that has not been seen for this long belongs to a server that is gone. */
const keptFor = '30 days'
/** Names that were given up are deleted after this time. A reader that was away for half of it reads everything. */
const givenUpFor = '1 hour'
const maxAwayMs = 1_800_000

const noChange: Omit<OwnerRow, 'namespace' | 'server'> = {
  name: '',
  change: '',
  at: '-infinity',
  ms: 0,
}

/** `clock`: the time by which names are missing, milliseconds since the epoch; by default the database's. */
export function createServedNamesStore(sql: Sql, clock?: () => number) {
  /** As text: a Date would lose the microseconds. */
  let latest = '-infinity'
  const seen = new Map<string, string>()
  let asked: ReadonlyMap<string, unknown> | undefined
  /** Of the rows that have been read, the one that changed last. */
  let latestChange = noChange
  /** The statements whose rows have been read, with their times in milliseconds. */
  const seenChanges = new Map<string, number>()
  let readAt = Number.NEGATIVE_INFINITY

  /** The rows of statements that have not been read yet, and always the one that had changed last. */
  async function readRows(): Promise<readonly OwnerRow[]> {
    return await within(sql<OwnerRow[]>`
      select name, namespace, server, change, changed_at::text as at,
        (extract(epoch from changed_at) * 1000)::float8 as ms
      from tollgate_name_owners
      where changed_at > ${latestChange.at}::timestamptz - ${overlap}::interval
        and (change <> all(${[...seenChanges.keys()]}::uuid[]) or name = ${latestChange.name})
      order by changed_at`)
  }

  return {
    /**
     * The changes of these servers since the previous call; everything if they are another object.
     */
    async readChanges(
      servers: ReadonlyMap<string, unknown>,
    ): Promise<ReadonlyMap<string, readonly string[]>> {
      if (servers !== asked) {
        latest = '-infinity'
        seen.clear()
        asked = servers
      }
      const rows = await within(sql<{ server: string; names: string[]; at: string }[]>`
        select server, names, changed_at::text as at from tollgate_served_names
        where server = any(${[...servers.keys()]}::text[])
          and changed_at > ${latest}::timestamptz - ${overlap}::interval
        order by changed_at`)
      latest = rows.at(-1)?.at ?? latest
      const changed = rows.filter(({ server, at }) => seen.get(server) !== at)
      for (const { server, at } of changed) seen.set(server, at)
      return new Map(changed.map(({ server, names }) => [server, names]))
    },
    /** Stores the list of a server. */
    async write(server: string, names: readonly string[]): Promise<void> {
      await withLongDeadline(sql`
        with gone as (
          delete from tollgate_served_names
          where seen_at < now() - ${keptFor}::interval and server <> ${server}
        )
        insert into tollgate_served_names as kept (server, names) values (${server}, ${names})
        on conflict (server) do update set
          seen_at = now(),
          names = excluded.names,
          changed_at = case when kept.names = excluded.names then kept.changed_at else now() end`)
    },
    /**
     * The owners that have changed since the previous call. All after a long time without one, and if
     * the row that had changed last is there no longer: the database may then be an older one, as after a restore.
     */
    async readOwners(): Promise<OwnerChanges> {
      const isAway = performance.now() - readAt > maxAwayMs
      const changed = isAway ? [] : await readRows()
      const { name: last, change: lastChange } = latestChange
      const isThere = changed.some(({ name, change }) => name === last && change === lastChange)
      const areAll = isAway || (latestChange !== noChange && !isThere)
      if (areAll) {
        readAt = Number.NEGATIVE_INFINITY
        latestChange = noChange
        seenChanges.clear()
      }
      const rows = areAll ? await readRows() : changed
      readAt = performance.now()
      for (const { change, ms } of rows) seenChanges.set(change, ms)
      latestChange = rows.at(-1) ?? noChange
      for (const [change, ms] of seenChanges) {
        if (ms < latestChange.ms - 2 * overlapMs) seenChanges.delete(change)
      }
      return { areAll, owners: new Map(rows.map((row) => [row.name, ownerOf(row)])) }
    },
    /** Makes claims, except of names that have an owner. Returns the owners of all these names. */
    async claim(
      claims: ReadonlyMap<string, NameOwner>,
    ): Promise<ReadonlyMap<string, NameOwner | undefined>> {
      const all = [...claims]
      const names = all.map(([name]) => name)
      const rows = await withLongDeadline(sql<ClaimRow[]>`
      with claimed as (
        insert into tollgate_name_owners as kept (name, namespace, server, change)
        select name, namespace, server, ${randomUUID()}::uuid
        from unnest(${names}::text[], ${all.map(([, { namespace }]) => namespace)}::text[],
          ${all.map(([, { server }]) => server)}::text[]) as claim (name, namespace, server)
        order by name
        on conflict (name) do update set namespace = excluded.namespace, server = excluded.server,
          missing_ms = 0, missing_at = null, changed_at = now(), change = excluded.change
        where kept.namespace is null
        returning name, namespace, server
      )
      select name, namespace, server from claimed
      union all
      select name, namespace, server from tollgate_name_owners
      where name = any(${names}::text[]) and namespace is not null
        and name not in (select name from claimed)`)
      return new Map(rows.map((row) => [row.name, ownerOf(row)]))
    },
    /** The owned names that are missing, and the time. */
    async readMissing(): Promise<{
      readonly now: number
      readonly missing: ReadonlyMap<string, Missing>
    }> {
      const [time, rows] = [
        await within(
          sql<{ now: number }[]>`select (extract(epoch from now()) * 1000)::float8 as now`,
        ),
        await within(sql<{ name: string; ms: number; at: number }[]>`
          select name, missing_ms as ms, (extract(epoch from missing_at) * 1000)::float8 as at
          from tollgate_name_owners where namespace is not null and missing_at is not null`),
      ]
      return {
        now: clock?.() ?? (time[0]?.now as number),
        missing: new Map(rows.map(({ name, ms, at }) => [name, { ms, at }])),
      }
    },
    /**
     * Stores what was observed, unless another process has done so since it was read. Gives up names
     * that have been missing for too long.
     */
    async update(updates: readonly OwnerUpdate[]): Promise<void> {
      const column = <Value>(read: (update: OwnerUpdate) => Value) => updates.map(read)
      await withLongDeadline(sql`
        with deleted as (
          delete from tollgate_name_owners
          where namespace is null and changed_at < now() - ${givenUpFor}::interval
        ), observed as (
          select *, (missing_ms >= ${keptMs} or to_server <> server) as is_change
          from unnest(${column(({ name }) => name)}::text[],
            ${column(({ owner }) => owner.namespace)}::text[],
            ${column(({ owner }) => owner.server)}::text[],
            ${column(({ server }) => server)}::text[],
            ${column(({ before }) => before?.at ?? null)}::float8[],
            ${column(({ after }) => after?.at ?? null)}::float8[],
            ${column(({ after }) => after?.ms ?? 0)}::float8[])
          as observed (name, namespace, server, to_server, before_at, missing_at, missing_ms)
        )
        update tollgate_name_owners as kept set
          namespace = case when observed.missing_ms >= ${keptMs} then null else kept.namespace end,
          server = observed.to_server,
          missing_ms = observed.missing_ms,
          missing_at = to_timestamp(observed.missing_at / 1000),
          changed_at = case when is_change then now() else kept.changed_at end,
          change = case when is_change then ${randomUUID()}::uuid else kept.change end
        from observed
        where kept.name = observed.name and kept.namespace = observed.namespace
          and kept.server = observed.server
          and (extract(epoch from kept.missing_at) * 1000)::float8
            is not distinct from observed.before_at`)
    },
  }
}

interface ClaimRow {
  readonly name: string
  readonly namespace: string | null
  readonly server: string
}

interface OwnerRow extends ClaimRow {
  readonly change: string
  readonly at: string
  readonly ms: number
}

function ownerOf({ namespace, server }: ClaimRow): NameOwner | undefined {
  return namespace === null ? undefined : { namespace, server }
}
