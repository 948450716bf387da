/** Reads what a ledger says at one moment, to compare it with journals. */

import type { Pool } from '../postgres/postgres.ts'
import type { LedgerState, VerifiedSums } from '../usage.ts'
import { createUsageReader } from './reader.ts'

/** The state with the sums of these whole hours, in milliseconds since the epoch. */
export async function readLedgerState(sql: Pool, from: number, to: number): Promise<LedgerState> {
  return await sql.begin(async (snapshot) => {
    await snapshot`set local statement_timeout = 0`
    const rows = await snapshot<VerifiedSums[]>`
      select (extract(epoch from hour) * 1000)::float8 as hour, username as user, key_id as "keyId",
        model, sum(answers)::float8 as answers, sum(input_tokens)::float8 as input,
        sum(output_tokens)::float8 as output, sum(cached_tokens)::float8 as cached,
        sum(reasoning_tokens)::float8 as reasoning, sum(total_tokens)::float8 as total,
        sum(estimated_tokens)::float8 as estimated
      from tollgate_usage_hours
      where hour >= ${new Date(from)} and hour < ${new Date(to)}
      group by hour, username, key_id, model`
    const journals = await snapshot<LedgerState['journals'][number][]>`
      select journal, places, (extract(epoch from seen_at) * 1000)::float8 as "seenAt"
      from tollgate_usage_journals order by journal`
    const archives = await snapshot<LedgerState['archives'][number][]>`
      select journal, piece::float8 as piece, hash from tollgate_usage_archives order by journal`
    const gaps = await createUsageReader(snapshot).gaps(from, to)
    return { rows, journals, gaps, archives }
  }, 'isolation level repeatable read read only')
}
