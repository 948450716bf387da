/** Made-up usage for display: its rows are marked, so that bills and comparisons exclude them. */

import { digest128 } from '../../src/formats/bounded-text.ts'
import { dayMs } from '../../src/formats/time.ts'
import { inSlices } from '../../src/runtime/slices.ts'
import type { Pool } from '../../src/store/postgres/postgres.ts'
import { rowsInSteps } from '../../src/usage/ledger/postgres/ledger.ts'
import type { DemoUsage } from '../../src/usage/store.ts'

/**
 * Replaces the rows of these days, each in a transaction, and removes rows of earlier days; `onDay` is called after
 * each day. Rows of one time are identical at every call, so concurrent calls do no harm.
 */
export async function writeDemoUsage(
  sql: Pool,
  days: ReadonlyMap<number, readonly DemoUsage[]>,
  onDay: (written: number) => void,
): Promise<void> {
  let written = 0
  for (const [day, rows] of days) {
    const marked = (await inSlices(rowsInSteps(rows))).map(mark)
    await sql.begin(async (transaction) => {
      await transaction`
        delete from tollgate_usage_hours
        where demo and hour >= ${new Date(day)} and hour < ${new Date(day + dayMs)}`
      await transaction`
        insert into tollgate_usage_hours
        select * from json_populate_recordset(null::tollgate_usage_hours,
          ${JSON.stringify(marked)}::json)
        on conflict do nothing`
    })
    written += 1
    onDay(written)
  }
  const first = Math.min(...days.keys())
  await sql`delete from tollgate_usage_hours where demo and hour < ${new Date(first)}`
}

/** Removes all rows of the demo, and returns their number. */
export async function removeDemoUsage(sql: Pool): Promise<number> {
  const { count } = await sql`delete from tollgate_usage_hours where demo`
  return count
}

/** Gives the row its own id, so that the user's real usage is never added to it. */
function mark(row: Record<string, unknown>): Record<string, unknown> {
  return { ...row, id: digest128(`demo ${row.id}`), demo: true }
}
