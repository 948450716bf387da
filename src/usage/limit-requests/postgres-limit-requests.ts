/** Requests for increases in Postgres, which changes a request and its increase in one transaction. */

import { type ExactInt, parseExact } from '../../formats/exact.ts'
import { addIncrease } from '../../ratelimit/increases/postgres-increases.ts'
import {
  inTransaction,
  type Pool,
  withDeadline,
  withLongDeadline,
} from '../../store/postgres/postgres.ts'
import { earlierNow, epochMs, type Fragment, type Sql } from '../../store/postgres/sql.ts'
import { createNoticeStore } from '../notices/postgres-notices.ts'
import {
  type LimitRequest,
  type LimitRequests,
  listedDays,
  maxOpen,
  noticeOf,
} from './limit-requests.ts'

/**
 * All reject if the database is unavailable; a change may then have been made. `notifies`: whether each request and
 * each decision causes a notice.
 */
export function createLimitRequests(pool: Pool, notifies: boolean): LimitRequests {
  const columns = pool`
    id, username as user, counter, per, amount::text as limit, reason, state,
    ${epochMs(pool, 'until')} as until,
    ${epochMs(pool, 'created_at')} as "createdAt",
    decided_by as "decidedBy", ${epochMs(pool, 'decided_at')} as "decidedAt",
    decision_reason as "decisionReason", increase_id as "increaseId",
    granted_amount::text as "grantedLimit",
    ${epochMs(pool, 'granted_until')} as "grantedUntil"`
  const isListedAt = (instant: Fragment) => pool`(
    case state when 'open' then until > ${instant}
    else decided_at > ${instant} - make_interval(days => ${listedDays}) end)`
  const isListed = (now: number) => isListedAt(pool`${new Date(now)}::timestamptz`)
  type Row = Omit<LimitRequest, 'limit' | 'grantedLimit'> & {
    readonly limit: string
    readonly grantedLimit: string | null
  }
  const toRequest = (row: Row): LimitRequest => ({
    ...row,
    limit: parseExact(row.limit) as ExactInt,
    grantedLimit: row.grantedLimit === null ? null : (parseExact(row.grantedLimit) as ExactInt),
  })

  async function enqueueNotice(sql: Sql, request: LimitRequest) {
    if (notifies) await createNoticeStore(sql).add([noticeOf(request)])
  }

  return {
    async add(asked) {
      const { user, counter, per, limit, until, reason, createdAt } = asked
      const now = createdAt
      await withLongDeadline(pool`
        delete from tollgate_limit_requests where not ${isListedAt(earlierNow(pool, now))}`)
      return await inTransaction(pool, async (sql) => {
        // Another request of the user may take the slot first, at most as often as there are slots.
        for (let tries = 0; tries <= maxOpen; tries += 1) {
          const [row] = await withLongDeadline(sql<Row[]>`
            insert into tollgate_limit_requests
              (username, slot, counter, per, amount, until, reason, created_at)
            select ${user}::text, slot, ${counter}, ${per}, ${limit}::numeric,
              ${new Date(until)}::timestamptz, ${reason}, ${new Date(now)}::timestamptz
            from generate_series(1, ${maxOpen}::int) as slot
            where not exists (
              select 1 from tollgate_limit_requests as other
              where other.username = ${user}::text and other.state = 'open' and other.slot = slot.slot)
            order by slot limit 1
            on conflict (username, slot) where state = 'open' do nothing
            returning ${columns}`)
          if (row === undefined) continue
          const added = toRequest(row)
          await enqueueNotice(sql, added)
          return added
        }
        return undefined
      })
    },
    async list(user, now, page) {
      const which =
        user === null
          ? pool`state = 'open' order by created_at, id`
          : pool`username = ${user} order by created_at desc, id`
      const rows = await withLongDeadline(pool<Row[]>`
        select ${columns} from tollgate_limit_requests
        where ${isListed(now)} and ${which} limit ${page.limit} offset ${page.offset}`)
      return rows.map(toRequest)
    },
    async countOpen(now) {
      const [row] = await withDeadline(pool<{ readonly open: number }[]>`
        select count(*)::float8 as open from tollgate_limit_requests
        where ${isListed(now)} and state = 'open'`)
      return row?.open ?? 0
    },
    async find(id, now) {
      const [row] = await withLongDeadline(pool<Row[]>`
        select ${columns} from tollgate_limit_requests where id = ${id}::uuid and ${isListed(now)}`)
      return row && toRequest(row)
    },
    async decide(id, verdict) {
      const { by, at, reason, grant } = verdict
      return await inTransaction(pool, async (sql) => {
        const [row] = await withLongDeadline(sql<Row[]>`
          select ${columns} from tollgate_limit_requests
          where id = ${id}::uuid and ${isListed(at)} for update`)
        if (row === undefined) return undefined
        const open = toRequest(row)
        if (open.state !== 'open') return open
        const { counter, per } = open
        const increase =
          grant &&
          (await addIncrease(sql, {
            ...{ ...grant, counter, per, reason: open.reason },
            ...{ createdBy: by, createdAt: at },
          }))
        if (grant && increase === undefined) return 'full'
        const [decided] = await withLongDeadline(sql<Row[]>`
          update tollgate_limit_requests set state = ${grant ? 'approved' : 'denied'},
            decided_by = ${by}, decided_at = ${new Date(at)}::timestamptz, decision_reason = ${reason}::text,
            increase_id = ${increase?.id ?? null}::uuid, granted_amount = ${grant?.limit ?? null}::numeric,
            granted_until = ${grant ? new Date(grant.until) : null}::timestamptz
          where id = ${id}::uuid returning ${columns}`)
        const request = toRequest(decided as Row)
        await enqueueNotice(sql, request)
        return request
      })
    },
  }
}
