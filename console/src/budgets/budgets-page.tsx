import { Group, Text } from '@mantine/core'
import type { LimitList, SharedLimitList } from '../api.ts'
import { Filter } from '../parts/filter.tsx'
import { Link } from '../parts/link.tsx'
import { Nothing } from '../parts/nothing.tsx'
import { count } from '../parts/numbers.ts'
import { Page } from '../parts/page.tsx'
import { Pending } from '../parts/pending.tsx'
import { Problem } from '../parts/problem.tsx'
import { WhoseSwitch } from '../parts/whose-switch.tsx'
import { addressOf, usePlace } from '../route.ts'
import { useSession } from '../session.tsx'
import { useLoaded } from '../use-loaded.ts'
import { type Budget, budgetsIn, idOf } from './budget.ts'
import { BudgetCard } from './budget-card.tsx'
import { WhoUsed } from './who-used.tsx'

const everyMs = 10_000
const maxCards = 60
const everybody = '*'

/** A card for each budget: the own ones, or for administrators all that several share. */
export function BudgetsPage() {
  const { call, me } = useSession()
  const { query } = usePlace()
  const isEverybody = me.administrator && query.get('owner') === everybody
  const subscription = query.get('subscription') ?? ''
  const address = isEverybody
    ? `/v1/admin/limits?limit=1000&subscription=${encodeURIComponent(subscription)}`
    : '/v1/limits'
  const { value, error } = useLoaded(
    address,
    () => call<LimitList | SharedLimitList>('GET', address),
    everyMs,
  )
  const budgets = value && budgetsIn(value.data)
  const open = isEverybody && me.ledger ? query.get('of') : null
  const opened = budgets?.find((each) => idOf(each) === open)
  return (
    <Page
      title="Budgets"
      about="Limits by name on money, or over a day and longer. Most are shared; what others used of them is for administrators."
      actions={me.administrator && <WhoseSwitch label="Whose budgets" isEverybody={isEverybody} />}
    >
      {isEverybody && (
        <Group gap="sm">
          <Filter name="subscription" label="Subscription" placeholder="Subscription: all" />
        </Group>
      )}
      <Problem error={error} />
      {value === undefined && error === undefined && <Pending shape="cards" />}
      {budgets?.length === 0 && (
        <Nothing title={isEverybody ? 'No budget is shared' : 'No budget holds for you'}>
          A budget is an entry in <code className="code">spec.limits</code> of a Subscription, a
          ModelRef or the Tenant. What is left of other limits is on the page of the{' '}
          <Link to={addressOf('models')}>models</Link>.
        </Nothing>
      )}
      {opened && <WhoUsed budget={opened} id={idOf(opened)} />}
      {budgets && <Cards {...{ budgets, isEverybody }} currency={value?.currency} />}
      {budgets && (value.has_more || budgets.length > maxCards) && (
        <Text size="sm" c="dimmed">
          These are the {count(Math.min(maxCards, budgets.length))} with the least left. There are
          more: name a subscription.
        </Text>
      )}
    </Page>
  )
}

interface CardsProps {
  readonly budgets: readonly Budget[]
  readonly currency: string | undefined
  readonly isEverybody?: boolean
}

/** The first ones; `isEverybody`: each leads to who used what of it. */
export function Cards({ budgets, currency, isEverybody = false }: CardsProps) {
  const { me } = useSession()
  return (
    <div className="budgets">
      {budgets.slice(0, maxCards).map((budget) => {
        const id = idOf(budget)
        const address = addressOf('budgets', { owner: everybody, of: id })
        return (
          <BudgetCard
            key={id}
            {...{ budget, currency }}
            more={isEverybody && me.ledger && <Link to={address}>Who used it</Link>}
          />
        )
      })}
    </div>
  )
}
