/** Increases in Postgres, where every gateway reads them. */

import { type ExactInt, parseExact } from '../../formats/exact.ts'
import { acquireLock, advisoryLocks } from '../../store/postgres/advisory-locks.ts'
import {
  inTransaction,
  type Pool,
  withDeadline,
  withLongDeadline,
} from '../../store/postgres/postgres.ts'
import { earlierNow, epochMs, type Fragment, type Sql } from '../../store/postgres/sql.ts'
import {
  type IncreaseStore,
  maxIncreases,
  type NewIncrease,
  type StoredIncrease,
} from './active-increases.ts'

/** How long an ended increase stays in the table. */
const keptFor = '1 day'

type Row = Omit<StoredIncrease, 'limit'> & { readonly limit: string }

/** All reject if the database is unavailable; a change may then have been made. `readMs`: how long a read may take. */
export function createIncreaseStore(pool: Pool, readMs?: number): IncreaseStore {
  const columns = columnsOf(pool)
  return {
    async read(after) {
      const rows = await withDeadline(
        pool<Row[]>`
          select ${columns} from tollgate_increases where until > ${new Date(after)}::timestamptz
          order by amount desc, until desc, id`,
        readMs,
      )
      return rows.map(toIncrease)
    },
    add: (increase) => inTransaction(pool, (sql) => addIncrease(sql, increase)),
    async remove(id, now) {
      const [row] = await withLongDeadline(pool<Row[]>`
        delete from tollgate_increases
        where id = ${id}::uuid and until > ${earlierNow(pool, now)} returning ${columns}`)
      return row && toIncrease(row)
    },
  }
}

/** As `add` of the store, within a transaction: until that ends, no other one counts the increases. */
export async function addIncrease(
  sql: Sql,
  { counter, per, limit, until, reason, createdBy, createdAt }: NewIncrease,
): Promise<StoredIncrease | undefined> {
  const now = new Date(createdAt)
  await acquireLock(sql, advisoryLocks.increases)
  const [row] = await withLongDeadline(sql<Row[]>`
    with old as (
      delete from tollgate_increases where until < ${earlierNow(sql, createdAt)} - ${keptFor}::interval
    ), added as (
      insert into tollgate_increases (counter, per, amount, until, reason, created_by, created_at)
      select ${counter}, ${per}, ${limit}::numeric, ${new Date(until)}::timestamptz, ${reason}, ${createdBy},
        ${now}::timestamptz
      where (select count(*) from tollgate_increases where until > ${now}::timestamptz) < ${maxIncreases}
      returning *
    )
    select ${columnsOf(sql)} from added`)
  return row && toIncrease(row)
}

function columnsOf(sql: Sql): Fragment {
  return sql`
    id, counter, per, amount::text as limit, reason, created_by as "createdBy",
    ${epochMs(sql, 'until')} as until,
    ${epochMs(sql, 'created_at')} as "createdAt"`
}

function toIncrease(row: Row): StoredIncrease {
  return { ...row, limit: parseExact(row.limit) as ExactInt }
}
