/** `GET /v1/usage`: sums of the usage ledger. */

import { toCsv } from '../../formats/csv.ts'
import { ServiceError } from '../../formats/errors.ts'
import { toTimestamp } from '../../formats/time.ts'
import type { ExternalDeps } from '../deps.ts'
import type { Api } from '../http/api.ts'
import { noteForeignRead, recordForeignRead } from '../http/audit.ts'
import { callerOf } from '../http/authenticate-api.ts'
import { createShareQueue } from '../http/rate-limit-key.ts'
import { responsesWith } from '../http/schema.ts'
import { focusColumns, toFocusRows } from './focus.ts'
import {
  readUsageQuestion,
  usagePageSize,
  usageParameters,
  usageScopeOf,
} from './usage-question.ts'
import { csvColumns, toGapJson, toUsageRow, usagePageSchema } from './usage-view.ts'

const schema = {
  operationId: 'getUsage',
  summary: 'Read usage',
  description: `Your own usage by hour, day or month; a key sees only its own, an administrator the usage of all users, or of
the given user. Pages have ${usagePageSize.toLocaleString('en')} rows. There is no usage without USAGE_JOURNAL.`,
  tags: ['Usage'],
  querystring: usageParameters,
  response: responsesWith('A page of sums, in the order of its groups.', [400, 404], {
    content: {
      'application/json': { schema: usagePageSchema },
      'text/csv': { schema: { type: 'string' } },
    },
  }),
} as const

/** The message where there is no ledger. */
export const noLedgerMessage = 'There is no usage ledger: USAGE_JOURNAL is off.'

/** Adds the route. A caller's queries run one after the other. */
export function getUsage(app: Api, deps: ExternalDeps): void {
  const { usage, isAdmin, clock, searchesAtOnce } = deps
  const bill = { currency: deps.billingCurrency, issuer: deps.instanceName }
  const inTurn = createShareQueue(searchesAtOnce, 'usage_timeout')
  const config = { audit: 'usage.read' } as const
  app.get('/v1/usage', { schema, config }, async (request, reply) => {
    const caller = callerOf(request)
    const { query: raw } = request
    const isOwn = raw.user === caller.user
    if (!isOwn && raw.user !== undefined) noteForeignRead(request, { user: raw.user })
    const isFocus = raw.format === 'focus'
    const isAdministrator = (isFocus || !isOwn) && (await isAdmin(caller))
    const seesAll = !isOwn && isAdministrator
    if (!isOwn && !seesAll && raw.user !== undefined) {
      throw new ServiceError('admin_required', {
        message: "Only an administrator may see another user's usage.",
      })
    }
    if (isFocus && !isAdministrator) {
      throw new ServiceError('admin_required', { message: 'format=focus is for administrators.' })
    }
    if (usage === undefined) throw new ServiceError('not_found', { message: noLedgerMessage })
    const scope = seesAll ? undefined : usageScopeOf(caller)
    const { query, cursorAfter } = readUsageQuestion(raw, scope, clock())
    if (seesAll) noteForeignRead(request, { ...(raw.user && { user: raw.user }) })
    const [found, gaps] = await inTurn(caller, async () => [
      await usage.read(query),
      await usage.gaps(query.from, query.to),
    ])
    const page = found.slice(0, usagePageSize)
    await recordForeignRead(request, page.length)
    const last = found.length > usagePageSize ? page.at(-1) : undefined
    const next =
      last && cursorAfter([...(last.start === undefined ? [] : [last.start]), ...last.group])
    if (raw.format === 'csv' || isFocus) {
      const parameters = new URLSearchParams({ ...raw, cursor: next ?? '' })
      if (next !== undefined) reply.header('link', `<?${parameters}>; rel="next"`)
      const text = isFocus
        ? toCsv(
            focusColumns,
            page.flatMap((total) => toFocusRows(total, bill)),
          )
        : toCsv(
            csvColumns(query),
            page.map((total) => toUsageRow(total, query)),
          )
      return reply.type('text/csv; charset=utf-8').send(text)
    }
    return {
      object: 'list',
      from: toTimestamp(query.from),
      to: toTimestamp(query.to),
      data: page.map((total) => toUsageRow(total, query)),
      gaps: gaps.map(toGapJson),
      ...(page.some(({ cost }) => cost !== null) && { currency: bill.currency }),
      has_more: next !== undefined,
      ...(next !== undefined && { next_cursor: next }),
    }
  })
}
