/**
 * The monthly partitions of the usage ledger: created in advance, and dropped as a whole once they are older than the
 * retention. Needs ownership of the table, as its migration gives it, and `create` on its schema.
 */

import { advisoryLocks } from '../../../store/postgres/advisory-locks.ts'
import type { Pool } from '../../../store/postgres/postgres.ts'
import type { Sql } from '../../../store/postgres/sql.ts'

/**
 * The tables, each with its partition key (a time), and the time of a row's last change if it may be much later: a
 * window may be longer than the retention.
 */
const tables = [
  { table: 'tollgate_usage_hours', time: 'hour', changed: undefined },
  { table: 'tollgate_usage_limits', time: 'begins_at', changed: 'last_at' },
] as const
type Table = (typeof tables)[number]

/** Months of misplaced rows that one call moves to partitions of their own. */
const maxMoved = 12

/**
 * Creates the partitions of this month and the next, and of months that have rows in the default partition; drops
 * partitions that ended before the retention by both this clock and the database's and in which nothing was charged
 * since, and deletes gaps and journals of that age. `now` and `retentionMs` in milliseconds. Of concurrent calls only
 * one has an effect.
 */
export async function maintainPartitions(sql: Pool, now: number, retentionMs: number) {
  return await sql.begin(async (transaction) => {
    await transaction`set local statement_timeout = '60s'`
    await transaction`set local lock_timeout = '2s'`
    /** The names of created and dropped partitions. */
    const [made, dropped]: [string[], string[]] = [[], []]
    const [lock] = await transaction<{ taken: boolean; at: number }[]>`
      select pg_try_advisory_xact_lock(${advisoryLocks.partitions}) as taken,
        (extract(epoch from now()) * 1000)::float8 as at`
    if (!lock?.taken) return { made, dropped }
    const months = [monthAt(now), monthAt(now, 1)]
    // Dropping loses data, so the clock of one process does not decide alone.
    const oldest = Math.min(now, lock.at) - retentionMs
    for (const each of tables) {
      const all = [...(await namesOf(transaction, each))]
      for (const month of [...months, ...(await misplacedIn(transaction, each))]) {
        const name = nameOf(each, month)
        if (all.includes(name)) continue
        await make(transaction, each, name, month)
        all.push(name)
        made.push(name)
      }
      for (const name of all) {
        if (endOf(name) > oldest || (await isInUse(transaction, each, name, oldest))) continue
        await transaction`drop table ${transaction.identifier(name)}`
        dropped.push(name)
      }
    }
    await transaction`delete from tollgate_usage_gaps where to_time < ${new Date(oldest)}`
    await transaction`delete from tollgate_usage_journals where seen_at < ${new Date(oldest)}`
    return { made, dropped }
  })
}

async function namesOf(sql: Sql, { table }: Table): Promise<readonly string[]> {
  const rows = await sql<{ name: string }[]>`
    select relname as name from pg_inherits join pg_class on pg_class.oid = inhrelid
    where inhparent = ${table}::regclass and relname ~ '_[0-9]+_[0-9]+$'`
  return rows.map(({ name }) => name)
}

/** Months that have rows in the default partition. */
async function misplacedIn(sql: Sql, { table, time }: Table): Promise<readonly Month[]> {
  const rows = await sql.unsafe<{ month: Month }[]>(
    `select distinct (extract(epoch from date_trunc('month', ${time}, 'UTC')) * 1000)::float8 as month
    from ${table}_default limit ${maxMoved}`,
  )
  return rows.map(({ month }) => month)
}

/** Whether the partition has a row that was changed since. */
async function isInUse(
  sql: Sql,
  { changed }: Table,
  name: string,
  since: number,
): Promise<boolean> {
  if (changed === undefined) return false
  const rows = await sql`
    select from ${sql.identifier(name)}
    where ${sql.identifier(changed)} > ${new Date(since)} limit 1`
  return rows.length > 0
}

/** Creates a partition, and moves the rows of its month there from the default partition. */
async function make(sql: Sql, { table, time }: Table, name: string, month: Month): Promise<void> {
  const [from, to] = [month, monthAt(month, 1)].map((at) => new Date(at).toISOString())
  await sql.unsafe(`create table "${name}" (like ${table} including all)`)
  await sql.unsafe(
    `with misplaced as (
      delete from ${table}_default where ${time} >= '${from}' and ${time} < '${to}' returning *
    )
    insert into "${name}" select * from misplaced`,
  )
  await sql.unsafe(
    `alter table ${table} attach partition "${name}" for values from ('${from}') to ('${to}')`,
  )
}

/** Its begin, in milliseconds since the epoch, in UTC. */
type Month = number

/** The month of an instant, or this many months later. */
function monthAt(time: number, later = 0): Month {
  const date = new Date(time)
  return Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + later)
}

function nameOf({ table }: Table, month: Month): string {
  return `${table}_${new Date(month).toISOString().slice(0, 7).replace('-', '_')}`
}

/** When the month of this partition ends, in milliseconds since the epoch. */
function endOf(name: string): number {
  const [year = 0, month = 0] = name.split('_').slice(-2).map(Number)
  return Date.UTC(year, month)
}
