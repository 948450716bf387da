/** Removes a user's name from the usage data in the database. */

import { randomUUID } from 'node:crypto'
import { cutName } from '../../../formats/bounded-text.ts'
import { userInLines } from '../../../ratelimit/rules/counter-key.ts'
import type { Pool } from '../../../store/postgres/postgres.ts'

/**
 * Gives the rows of a user a random name; their sums stay. Later usage, and lines that the ledger has not read yet,
 * create new rows under the old name. Resets of the user's counters, increases, requests for increases and notices are
 * removed.
 */
export async function forgetUser(sql: Pool, user: string) {
  const name = `forgotten-${randomUUID()}`
  const counted = userInLines(user)
  return await sql.begin(async (transaction) => {
    await transaction`set local statement_timeout = 0`
    // The id is replaced, too: it is a digest of the name, which would confirm a guess.
    const { count } = await transaction`
      update tollgate_usage_hours set username = ${name}, id = gen_random_uuid()
      where username = ${cutName(user)}`
    const others = [
      transaction`
        update tollgate_usage_limits set whom = ${name}, id = gen_random_uuid()
        where per in ('user', 'key') and whom = ${cutName(user)}`,
      // Resets of a group with that name are kept: without them its counter would have its earlier value again.
      transaction`
        delete from tollgate_counter_resets
        where right(counter, char_length(${counted}::text) + 1) = E'\n' || ${counted}::text
          and counter not in (
            select concat_ws(E'\n', resource, '#' || name, kind || '-' || window_text, whom)
            from tollgate_usage_limits
            where per not in ('user', 'key') and whom = ${cutName(user)})`,
      transaction`
        delete from tollgate_increases
        where per in ('user', 'key')
          and right(counter, char_length(${counted}::text) + 1) = E'\n' || ${counted}::text`,
      transaction`
        update tollgate_increases set created_by = ${name} where created_by = ${user}`,
      transaction`delete from tollgate_limit_requests where username = ${user}`,
      transaction`
        update tollgate_limit_requests set decided_by = ${name} where decided_by = ${user}`,
      transaction`
        delete from tollgate_notices
        where ${user} in (body::jsonb #>> '{data,user}', body::jsonb #>> '{data,decidedBy}')`,
    ]
    let changed = 0
    for (const statement of others) changed += (await statement).count
    return {
      /** Sums of hours. */
      rows: count,
      /** Charges of limits, resets, increases, requests for increases, and notices. */
      others: changed,
      /** Replaces the user's name. */
      name,
    }
  })
}
