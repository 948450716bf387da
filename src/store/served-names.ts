/**
 * The names that model servers last listed, in Postgres: shared by all processes, and outliving
 * them.
 */

import { statementDeadlineMs, within } from './postgres/postgres.ts'
import type { Sql } from './postgres/sql.ts'

/**
 * By the server's identity. Every method throws `store_unavailable` if the database is unavailable.
 */
export type ServedNamesStore = ReturnType<typeof createServedNamesStore>

/** A row may become visible this long after it was written. */
const overlap = '15 seconds'
/** A list that has not been seen for this long belongs to a server that is gone. */
const keptFor = '30 days'

export function createServedNamesStore(sql: Sql) {
  /** As text: a Date would lose the microseconds. */
  let latest = '-infinity'
  const seen = new Map<string, string>()
  let asked: ReadonlyMap<string, unknown> | undefined
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
      await within(
        sql`
          with gone as (
            delete from tollgate_served_names
            where seen_at < now() - ${keptFor}::interval and server <> ${server}
          )
          insert into tollgate_served_names as kept (server, names) values (${server}, ${names})
          on conflict (server) do update set
            seen_at = now(),
            names = excluded.names,
            changed_at = case when kept.names = excluded.names then kept.changed_at else now() end`,
        statementDeadlineMs,
      )
    },
  }
}
