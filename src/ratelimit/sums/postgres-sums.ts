/** Sums of long windows in Postgres. */

import { digest128 } from '../../formats/bounded-text.ts'
import { parseExact } from '../../formats/exact.ts'
import { withLongDeadline } from '../../store/postgres/postgres.ts'
import type { Sql } from '../../store/postgres/sql.ts'
import type { LongSums } from './sum-store.ts'

/** Both reject if the database is unavailable. */
export function createPostgresSums(sql: Sql): LongSums {
  return {
    async load(ids) {
      const digests = ids.map(uuidOf)
      const rows = await withLongDeadline(sql<{ id: string; gateway: string; used: string }[]>`
        select id::text, gateway, used::text from tollgate_window_sums
        where id = any(${digests}::uuid[])`)
      const byId = Map.groupBy(rows, ({ id }) => id)
      return digests.map((digest) => {
        return new Map(
          (byId.get(digest) ?? []).map(({ gateway, used }) => [gateway, parseExact(used) ?? 0]),
        )
      })
    },
    async save(gateway, sums) {
      const ids = sums.map(({ id }) => uuidOf(id))
      const ends = sums.map(({ end }) => new Date(end).toISOString())
      const used = sums.map((each) => each.used)
      await withLongDeadline(sql`
        with old as (
          delete from tollgate_window_sums where ends_at < now() - interval '1 day'
        )
        insert into tollgate_window_sums as kept (id, gateway, ends_at, used)
        select id, ${gateway}, ends_at, used
        from unnest(${ids}::uuid[], ${ends}::timestamptz[], ${used}::bigint[])
          as sum (id, ends_at, used)
        -- All processes lock rows in the same order, so that they do not deadlock.
        order by id
        on conflict (id, gateway) do update set used = greatest(kept.used, excluded.used),
          -- Another version of the time zone rules may end it later.
          ends_at = greatest(kept.ends_at, excluded.ends_at)`)
    },
  }
}

/** The digest of an id, in the form in which Postgres writes it. */
function uuidOf(id: string): string {
  return digest128(id).replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-')
}
