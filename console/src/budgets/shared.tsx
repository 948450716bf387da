import { Group } from '@mantine/core'
import { useRef } from 'react'
import type { IncreaseList, SharedLimitList } from '../api.ts'
import { Filter } from '../parts/filter.tsx'
import { Link } from '../parts/link.tsx'
import { addressHere, usePlace } from '../route.ts'
import { useSession } from '../session.tsx'
import { isWaitingFor, useLoaded } from '../use-loaded.ts'
import { budgetsIn, idOf } from './budget.ts'
import { BudgetCards } from './budget-cards.tsx'
import { Grant } from './grant.tsx'
import { Increases } from './increases.tsx'
import { OpenRequestList } from './open-requests.tsx'
import { WhoUsed } from './who-used.tsx'

const everyMs = 10_000
/** For data that changes rarely, and whose reads are audited. */
const rarelyMs = 60_000
/** The value of `owner` in the address. */
export const everybody = '*'

/** For administrators: open requests, all shared budgets, and increases. */
export function Shared() {
  const { call, me } = useSession()
  const { query } = usePlace()
  const subscription = query.get('subscription') ?? ''
  const address = `/v1/admin/limits?limit=1000&subscription=${encodeURIComponent(subscription)}`
  const limits = useLoaded(address, () => call<SharedLimitList>('GET', address), everyMs)
  const increases = useLoaded('', () => call<IncreaseList>('GET', '/v1/admin/increases'), rarelyMs)
  const { data, currency } = limits.value ?? { data: [] }
  const of = me.ledger ? query.get('of') : null
  const opened = budgetsIn(data).find((each) => idOf(each) === of)
  // What is above them has its place; a later filter does not take them away.
  const hasOpened = useRef(false)
  hasOpened.current ||= !isWaitingFor(limits)
  const onChanged = () => {
    limits.reload()
    increases.reload()
  }
  return (
    <>
      <OpenRequestList onDecided={onChanged} />
      <Group gap="sm">
        <Filter name="subscription" label="Subscription" placeholder="Subscription: all" />
      </Group>
      {opened && <WhoUsed budget={opened} id={idOf(opened)} />}
      <BudgetCards
        {...limits}
        empty="No budget is shared"
        more={(budget) => (
          <>
            {me.ledger && <Link to={addressHere({ of: idOf(budget) })}>Who used it</Link>}
            {budget.enforced && <Link to={addressHere({ raise: idOf(budget) })}>Grant more</Link>}
          </>
        )}
      />
      {hasOpened.current && <Increases {...increases} currency={currency} onEnded={onChanged} />}
      <Grant limits={data} currency={currency} onGranted={onChanged} />
    </>
  )
}
