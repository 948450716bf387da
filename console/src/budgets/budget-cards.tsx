import { Text } from '@mantine/core'
import type { ReactNode } from 'react'
import type { LimitList, SharedLimitList } from '../api.ts'
import { Link } from '../parts/link.tsx'
import { Nothing } from '../parts/nothing.tsx'
import { count } from '../parts/numbers.ts'
import { Pending } from '../parts/pending.tsx'
import { Problem } from '../parts/problem.tsx'
import { addressOf } from '../route.ts'
import type { Loaded } from '../use-loaded.ts'
import { type Budget, budgetsIn, idOf } from './budget.ts'
import { BudgetCard } from './budget-card.tsx'

const maxCards = 60

interface BudgetCardsProps
  extends Pick<Loaded<LimitList | SharedLimitList>, 'value' | 'error'>,
    Pick<CardsProps, 'more'> {
  /** The text for an empty list. */
  readonly empty: string
}

/** A card for each budget of a list, once it is loaded. */
export function BudgetCards({ value, error, empty, more }: BudgetCardsProps) {
  const budgets = value && budgetsIn(value.data)
  return (
    <>
      <Problem error={error} />
      {value === undefined && error === undefined && <Pending shape="cards" />}
      {budgets?.length === 0 && (
        <Nothing title={empty}>
          A budget is an entry in <code className="code">spec.limits</code> of a Subscription, a
          ModelRef or the Tenant. Other limits are on the{' '}
          <Link to={addressOf('models')}>Models</Link> page.
        </Nothing>
      )}
      {budgets && <Cards {...{ budgets, more }} currency={value?.currency} />}
      {budgets && (value.has_more || budgets.length > maxCards) && (
        <Text size="sm" c="dimmed">
          These are the {count(Math.min(maxCards, budgets.length))} with the least left. To see
          others, enter a subscription.
        </Text>
      )}
    </>
  )
}

interface CardsProps {
  readonly budgets: readonly Budget[]
  readonly currency: string | undefined
  /** The links of a budget. */
  readonly more: (budget: Budget) => ReactNode
}

/** Cards of the first budgets. */
export function Cards({ budgets, currency, more }: CardsProps) {
  return (
    <div className="budgets">
      {budgets.slice(0, maxCards).map((budget) => (
        <BudgetCard key={idOf(budget)} {...{ budget, currency }} more={more(budget)} />
      ))}
    </div>
  )
}
