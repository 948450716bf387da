/** What model servers were last seen to list, in Postgres: shared by all processes, and outliving them. */

import { statementDeadlineMs, within } from './postgres/postgres.ts'
import type { Sql } from './postgres/sql.ts'

/** By what identifies a server. Every method throws `store_unavailable` when there is no database. */
export type ServedNamesStore = ReturnType<typeof createServedNamesStore>

/** What was written this long before what is known may become visible only now. */
const overlap = '15 seconds'
/** A list that nobody has seen for so long is that of a server that is gone. */
const keptFor = '30 days'

export function createServedNamesStore(sql: Sql) {
  /** As Postgres writes it: a Date would lose the microseconds. */
  let latest = '-infinity'
  const seen = new Map<string, string>()
  let asked: ReadonlyMap<string, unknown> | undefined
  return {
    /** What has changed of these servers since the call before; all of it when they are another object. */
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
    /** Keeps the list of a server. */
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
