import type { LimitList, LimitRequestList } from '../api.ts'
import { useSession } from '../session.tsx'
import { useLoaded } from '../use-loaded.ts'
import { Ask } from './ask.tsx'
import { AskLink } from './ask-link.tsx'
import { idOf } from './budget.ts'
import { BudgetCards } from './budget-cards.tsx'
import { OwnRequests, requestPage } from './own-requests.tsx'

const everyMs = 10_000
const none: LimitRequestList = { object: 'list', data: [], has_more: false }

/** The caller's budgets and requests. */
export function Mine() {
  const { call, me } = useSession()
  const limits = useLoaded('', () => call<LimitList>('GET', '/v1/limits'), everyMs)
  const requests = useLoaded(
    '',
    // Only persons can request an increase.
    async () =>
      me.credential === 'identity-token'
        ? await call<LimitRequestList>('GET', `/v1/limit-requests?limit=${requestPage}`)
        : none,
    everyMs,
  )
  const { data, currency } = limits.value ?? { data: [] }
  const open = requests.value?.data.filter(({ state }) => state === 'open') ?? []
  return (
    <>
      <BudgetCards
        value={limits.value}
        error={limits.error ?? requests.error}
        empty="No budget applies to you"
        more={(budget) => (
          <AskLink
            limit={budget}
            currency={currency}
            open={open.filter((request) => idOf(request) === idOf(budget))}
          />
        )}
      />
      {requests.value && <OwnRequests requests={requests.value} limits={data} {...{ currency }} />}
      {limits.value && <Ask limits={limits.value} onAsked={requests.reload} />}
    </>
  )
}
