/** Reads the state of a ledger at one moment, to compare it with journals. */

import { ServiceError } from '../../../formats/errors.ts'
import { type ExactInt, maxExactInt, parseExact } from '../../../formats/exact.ts'
import { inTransaction, type Pool, statementDeadlineMs } from '../../../store/postgres/postgres.ts'
import { epochMs, type Sql } from '../../../store/postgres/sql.ts'
import {
  type LedgerState,
  type LimitRow,
  type PastSums,
  usageFigures,
  type VerifiedSums,
} from '../../store.ts'
import { createUsageReader, rethrowTimeout, sumColumns } from './reader.ts'

/** The state with the sums of these whole hours, in milliseconds since the epoch. */
export async function readLedgerState(sql: Pool, from: number, to: number): Promise<LedgerState> {
  return await sql.begin(async (snapshot) => {
    await snapshot`set local statement_timeout = 0`
    const rows = await snapshot<(Omit<VerifiedSums, 'cost'> & { readonly cost: string })[]>`
      select ${epochMs(snapshot, 'hour')} as hour, username as user, key_id as "keyId",
        model, ${sumColumns(snapshot, usageFigures)}, coalesce(sum(cost_nano), 0)::text as cost
      from tollgate_usage_hours
      where hour >= ${new Date(from)} and hour < ${new Date(to)} and not demo
      group by hour, username, key_id, model`
    const exact = rows.map((row) => ({ ...row, cost: exactOf(row.cost) }))
    return {
      rows: exact,
      limits: await readLimits(snapshot, from, to),
      ...(await readJournals(snapshot)),
      gaps: await gapsOf(snapshot, from, to),
    }
  }, 'isolation level repeatable read read only')
}

async function readLimits(sql: Sql, from: number, to: number): Promise<readonly LimitRow[]> {
  const rows = await sql<(Omit<LimitRow, 'amount'> & { readonly amount: string })[]>`
    select resource, name, kind, per, whom, window_text as "window", amount::text as amount,
      ${epochMs(sql, 'begins_at')} as begin,
      ${epochMs(sql, 'first_at')} as first,
      ${epochMs(sql, 'last_at')} as last
    from tollgate_usage_limits
    where first_at < ${new Date(to)} and last_at >= ${new Date(from)}`
  return rows.map((row) => ({ ...row, amount: exactOf(row.amount) }))
}

/** Models may report any figure, so the database's sums may exceed whole numbers that JavaScript has exactly. */
function exactOf(sum: string): ExactInt {
  return parseExact(sum) ?? maxExactInt
}

/** Statements of `readPastSums`. */
const statements = 4

/**
 * The state with sums by subscription. Throws `usage_timeout` if there are more than `maxRows`, or it takes too long.
 */
export async function readPastSums(
  sql: Pool,
  from: number,
  to: number,
  maxRows: number,
): Promise<PastSums> {
  const read = inTransaction(
    sql,
    async (snapshot) => {
      const rows = await snapshot<PastSums['rows'][number][]>`
      select ${epochMs(snapshot, 'hour')} as hour, username as user, subscription, model,
        sum(answers)::float8 as answers, sum(total_tokens)::float8 as total,
        sum(refusals)::float8 as refusals
      from tollgate_usage_hours
      where hour >= ${new Date(from)} and hour < ${new Date(to)} and not demo
      group by hour, username, subscription, model order by hour limit ${maxRows + 1}`
      return { rows, ...(await readJournals(snapshot)), gaps: await gapsOf(snapshot, from, to) }
    },
    statements * statementDeadlineMs,
    'isolation level repeatable read read only',
  )
  const past = await read.catch(rethrowTimeout)
  if (past.rows.length > maxRows) throw new ServiceError('usage_timeout')
  return past
}

async function readJournals(snapshot: Sql): Promise<Pick<LedgerState, 'journals' | 'archives'>> {
  const journals = await snapshot<LedgerState['journals'][number][]>`
    select journal, places, ${epochMs(snapshot, 'seen_at')} as "seenAt"
    from tollgate_usage_journals order by journal`
  const archives = await snapshot<LedgerState['archives'][number][]>`
    select journal, piece::float8 as piece, hash from tollgate_usage_archives order by journal`
  return { journals, archives }
}

function gapsOf(snapshot: Sql, from: number, to: number): Promise<LedgerState['gaps']> {
  return createUsageReader(snapshot).gaps(from, to) as Promise<LedgerState['gaps']>
}
