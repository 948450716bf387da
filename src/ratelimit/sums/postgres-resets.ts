/** Resets of counters in Postgres, from which every gateway reads them. */

import { digest128 } from '../../formats/bounded-text.ts'
import { type ExactInt, parseExact } from '../../formats/exact.ts'
import { withLongDeadline } from '../../store/postgres/postgres.ts'
import { epochMs, type Sql } from '../../store/postgres/sql.ts'
import type { CounterReset } from '../rules/windows.ts'

/** The channel that notifies of resets. Notifications may be missed, so resets are also polled every second. */
export const resetsChannel = 'tollgate_counter_resets'

/** How long resets are stored: longer than the longest window (366 days). */
const keptFor = '367 days'
/** How late a transaction may become visible, in milliseconds. */
const overlapMs = 60_000

export interface StoredReset extends CounterReset {
  readonly key: string
  /** When it was written, by the database's clock (ms). */
  readonly writtenAt: number
}

export type ResetStore = ReturnType<typeof createResetStore>

/** Both reject if the database is unavailable; a reset is then refused, but may have been made. */
export function createResetStore(sql: Sql) {
  return {
    /** The last reset of each counter, among resets written since shortly before `after`. */
    async read(after = 0): Promise<readonly StoredReset[]> {
      const rows = await withLongDeadline(sql<(Omit<StoredReset, 'used'> & { used: string })[]>`
        select counter as key, ${epochMs(sql, 'reset_at')} as at,
          coalesce(used, 0)::text as used,
          ${epochMs(sql, 'written_at')} as "writtenAt"
        from tollgate_counter_resets
        where reset_at > now() - ${keptFor}::interval
          and written_at > ${new Date(Math.max(0, after - overlapMs))}::timestamptz`)
      return rows.map((row) => ({ ...row, used: parseExact(row.used) ?? 0 }))
    },
    /** Resets these counters to this value as of `at` (ms). */
    async write(keys: readonly string[], at: number, used: ExactInt = 0): Promise<void> {
      const ids = keys.map(digest128)
      await withLongDeadline(sql`
        with old as (
          delete from tollgate_counter_resets where reset_at < now() - ${keptFor}::interval
        ), kept as (
          insert into tollgate_counter_resets as kept (id, counter, reset_at, used)
          select id, counter, ${new Date(at)}::timestamptz, ${used}::bigint
          from unnest(${ids}::uuid[], ${keys}::text[]) as reset (id, counter)
          order by id
          on conflict (id) do update set reset_at = excluded.reset_at, used = excluded.used, written_at = now()
            where excluded.reset_at > kept.reset_at
          returning 1
        )
        select pg_notify(${resetsChannel}, '') from (select count(*) from kept) as done`)
    },
  }
}
