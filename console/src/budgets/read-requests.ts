/** The requests that wait for an administrator, each with the current limit and its usage. */

import type { SharedLimitList } from '../api.ts'
import type { Session } from '../session.tsx'
import { idOf, type Limit } from './budget.ts'
import type { LimitRequest } from './own-requests.tsx'

export const openPage = 25

export interface OpenRequest extends LimitRequest {
  /** Undefined for a limit per user without usage, or one that is no longer in force. */
  readonly now: Pick<Limit, 'limit' | 'used' | 'window'> | undefined
}

export interface OpenRequests {
  readonly rows: readonly OpenRequest[]
  readonly hasMore: boolean
  readonly currency: string | undefined
}

interface Listed<Row> {
  readonly data: readonly Row[]
  readonly has_more?: boolean
  readonly currency?: string
}

/** The oldest first. */
export async function readOpenRequests(call: Session['call']): Promise<OpenRequests> {
  const path = `/v1/limit-requests?all=true&limit=${openPage}`
  const { data, has_more = false } = await call<Listed<LimitRequest>>('GET', path)
  const isShared = ({ scope }: LimitRequest) => scope !== 'user'
  const [shared, ...own] = await Promise.all([
    data.length > 0
      ? call<SharedLimitList>('GET', '/v1/admin/limits?limit=1000')
      : ({ data: [] } satisfies Listed<Limit>),
    ...data.map((request) => (isShared(request) ? [] : readOwn(call, request))),
  ])
  const rows = data.map((request, at) => {
    const among: readonly Limit[] = isShared(request) ? shared.data : (own[at] ?? [])
    return { ...request, now: among.find((each) => idOf(each) === idOf(request)) }
  })
  return { rows, hasMore: has_more, currency: 'currency' in shared ? shared.currency : undefined }
}

/** The usage of the user's limits with that name. */
async function readOwn(call: Session['call'], { user, subscription, model, name }: LimitRequest) {
  const query = new URLSearchParams({
    ...{ user, name },
    ...(subscription !== null && { subscription }),
    ...(model !== null && { model }),
  })
  const path = `/v1/counters?${query}`
  // The request can also be decided without it.
  const { data } = await call<Listed<Limit>>('GET', path).catch(() => ({ data: [] }))
  return data
}
