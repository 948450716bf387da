/** Resets of counters in Postgres, for counters that end with their process. */

import type { Counter } from '../../core/decision/counter.ts'
import { digestOf } from '../postgres/digest.ts'
import { withLongDeadline } from '../postgres/postgres.ts'
import type { Sql } from '../postgres/sql.ts'
import { createMemoryCounters, type MemoryCounters, type Resets } from './memory.ts'

/** Longer than the longest window (366 days). */
const keptFor = '367 days'

/** Both throw `store_unavailable` if the database is unavailable. */
export function createKeptResets(sql: Sql) {
  return {
    async read(): Promise<Resets> {
      const rows = await withLongDeadline(sql<{ counter: string; at: number }[]>`
        select counter, (extract(epoch from reset_at) * 1000)::float8 as at
        from tollgate_counter_resets where reset_at > now() - ${keptFor}::interval`)
      return new Map(rows.map(({ counter, at }) => [counter, at]))
    },
    async write(counters: readonly Counter[], at: number): Promise<void> {
      const keys = counters.map(({ key }) => key)
      const ids = keys.map(digestOf)
      await withLongDeadline(sql`
        with old as (
          delete from tollgate_counter_resets where reset_at < now() - ${keptFor}::interval
        )
        insert into tollgate_counter_resets as kept (id, counter, reset_at)
        select id, counter, ${new Date(at)}::timestamptz
        from unnest(${ids}::uuid[], ${keys}::text[]) as reset (id, counter)
        on conflict (id) do update set reset_at = greatest(kept.reset_at, excluded.reset_at)`)
    },
  }
}

/** Counters whose resets outlive this process, because the journal is read again at the next start. */
export async function openMemoryCounters(sql: Sql): Promise<MemoryCounters> {
  const kept = createKeptResets(sql)
  const counters = createMemoryCounters(await kept.read())
  const end = counters.reset
  // Not spread: its sizes are read when they are asked for.
  return Object.assign(counters, {
    async reset(reset: readonly Counter[], at: number): Promise<void> {
      await kept.write(reset, at)
      await end(reset, at)
    },
  })
}
