import { SimpleGrid } from '@mantine/core'
import { compact, count, money, share, some } from '../parts/numbers.ts'
import type { Period, Periods as PeriodsRead, Sum } from './read-periods.ts'
import { Stat } from './stat.tsx'

/** Today, this week, this month. */
export function Periods({ periods, currency }: PeriodsRead) {
  return (
    <SimpleGrid cols={{ base: 1, sm: 3 }}>
      {periods.map((period) => (
        <PeriodCard key={period.name} {...period} currency={currency} />
      ))}
    </SimpleGrid>
  )
}

function PeriodCard({
  name,
  before,
  now,
  full,
  whole,
  currency,
}: Period & Pick<PeriodsRead, 'currency'>) {
  const costIn = ({ cost }: Sum) => (cost === undefined ? '' : ` · ${money(cost, currency)}`)
  return (
    <Stat
      title={name}
      value={now.tokens < 10_000_000 ? count(now.tokens) : compact(now.tokens)}
      unit="tokens"
      exact={count(now.tokens)}
      line={`${some(now.answers, 'request')}${costIn(now)}`}
      foot={
        <>
          <Change now={full.now.tokens} before={full.before.tokens} />
          <span>
            {before} {compact(whole.tokens)}
            {costIn(whole)}
          </span>
        </>
      }
    />
  )
}

/** The change since the previous period, up to the last full hour. */
export function Change({ now, before }: { readonly now: number; readonly before: number }) {
  if (before === 0) return null
  const change = now / before - 1
  const isMore = change >= 0
  return (
    <span
      className="change"
      title="Up to the last full hour, compared with the same part of the previous period"
      data-way={isMore ? 'more' : 'less'}
    >
      {isMore ? '↑' : '↓'} {share(Math.abs(change))}
    </span>
  )
}
