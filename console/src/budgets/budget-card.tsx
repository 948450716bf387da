import { Card } from '@mantine/core'
import type { ReactNode } from 'react'
import { now } from '../clock.ts'
import { figure, isSpent, LeftBar, per, sharersIn, whole } from '../parts/limits.tsx'
import { share } from '../parts/numbers.ts'
import { Time } from '../parts/time.tsx'
import { type Budget, forecast } from './budget.ts'

interface BudgetCardProps {
  readonly budget: Budget
  readonly currency: string | undefined
  /** Links. */
  readonly more?: ReactNode
}

/** The rest of a budget, its usage, and how long it will last. */
export function BudgetCard({ budget, currency, more }: BudgetCardProps) {
  const { name, kind, limit, used, remaining, percentLeft, resetsAt, enforced } = budget
  const { increasedUntil } = budget
  const left = isSpent(budget)
    ? 'Nothing'
    : remaining === null
      ? `${percentLeft}%`
      : figure(kind, remaining, currency)
  return (
    <Card
      withBorder
      component="section"
      aria-label={`Budget ${name}, ${aboutOf(budget)}`}
      className="stat budget"
    >
      <div className="budget-head">
        <h2 className="title breaks">{name}</h2>
        {!enforced && <span className="tag">only counted</span>}
        <span className="note">{aboutOf(budget)}</span>
      </div>
      <p
        className="stat-value"
        title={remaining === null ? undefined : exactly(remaining, currency)}
      >
        {left}{' '}
        <small>left of {limit === null ? `it ${per(budget)}` : whole(budget, currency)}</small>
      </p>
      <LeftBar state={budget} label={`Left of ${name}`} />
      <dl className="budget-facts">
        <dt>Used</dt>
        <dd title={used === null ? undefined : exactly(used, currency)}>
          {used === null ? `${100 - percentLeft}%` : figure(kind, used, currency)}
        </dd>
        <dt>At the pace so far</dt>
        <dd>
          <Outlook {...{ budget, currency }} />
        </dd>
        <dt>Resets</dt>
        <dd>
          <Time at={resetsAt} isDistance />
        </dd>
        {increasedUntil !== undefined && (
          <>
            <dt>Increase ends</dt>
            <dd>
              <Time at={increasedUntil} isDistance />
            </dd>
          </>
        )}
      </dl>
      {more && <div className="below">{more}</div>}
    </Card>
  )
}

/** An amount of money with all digits. */
function exactly(value: number | string, currency = ''): string {
  return `${value} ${currency}`.trim()
}

/** Where it applies, and who shares it. */
function aboutOf(budget: Budget): string {
  const { subscription, model, models, scope } = budget
  const on = model ?? models?.join(', ') ?? (scope === 'key' ? 'this key' : 'all models')
  const of = subscription ?? (model === null && scope !== 'installation' && 'of the installation')
  return [of, on, sharersIn(budget)].filter(Boolean).join(' · ')
}

function Outlook({ budget, currency }: Pick<BudgetCardProps, 'budget' | 'currency'>) {
  const { kind, limit } = budget
  const outlook = forecast(budget, now())
  if (outlook.is === 'spent') return 'nothing is left'
  if (outlook.is === 'unused') return 'nothing used yet'
  if (outlook.is === 'unknown') return 'too early to say'
  const { part } = outlook
  const end =
    limit === null ? share(part) : figure(kind, roundedTo(kind, Number(limit) * part), currency)
  if (outlook.is === 'enough') return `about ${end} at the end`
  return (
    <span className="short">
      about {end}: used up <Time at={new Date(outlook.at).toISOString()} isDistance />
    </span>
  )
}

/** A forecast has few significant digits. */
function roundedTo(kind: Budget['kind'], value: number): number {
  const digits = Number(value.toPrecision(3))
  return kind === 'cost' ? digits : Math.round(digits)
}
