import { Card, SimpleGrid } from '@mantine/core'
import type { LimitList } from '../api.ts'
import { AskLink } from '../budgets/ask-link.tsx'
import { LimitBars, partLeft } from '../parts/limits.tsx'
import { Section } from '../parts/section.tsx'
import type { Asked, FoundUsage } from './read-usage.ts'

type Limit = LimitList['data'][number]

const maxCards = 12

/** The limits of a model in a subscription, or of several models together. */
interface Limits {
  readonly model: string
  /** Empty if any subscription may pay. */
  readonly subscription: string
  readonly states: readonly Limit[]
}

/** Limits by model and subscription, the most used first. */
export function byUse(limits: readonly Limit[]): readonly Limits[] {
  const groups = Map.groupBy(limits, ({ model, models, subscription, scope }) =>
    JSON.stringify([model ?? models ?? scope === 'key', subscription]),
  )
  const left = ({ states }: Limits) => Math.min(...states.map(partLeft))
  return [...groups.values()]
    .map((states) => {
      const [{ subscription }] = states as [Limit]
      return { model: titleOf(states[0] as Limit), subscription: subscription ?? '', states }
    })
    .sort((a, b) => left(a) - left(b))
}

function titleOf({ model, models, scope }: Limit): string {
  return model ?? models?.join(', ') ?? (scope === 'key' ? 'this key' : 'All models')
}

export function LimitGroup({
  model,
  subscription,
  states,
  currency,
}: Limits & { readonly currency: string | undefined }) {
  return (
    <>
      <div className="spread">
        <b className="breaks">{model}</b>
        <span className="note">{subscription}</span>
      </div>
      <LimitBars
        limits={states}
        of={`${model}, ${subscription}`}
        currency={currency}
        more={(limit) => <AskLink limit={limit} />}
      />
    </>
  )
}

/** The caller's limits, the most used first. */
export function LimitsNow({
  limits,
  currency,
}: {
  readonly limits: readonly Limit[]
  readonly currency: string | undefined
}) {
  const shown = byUse(limits).slice(0, maxCards)
  if (shown.length === 0) return null
  return (
    <Section title="What is left now">
      <SimpleGrid cols={{ base: 1, sm: 2, lg: 3 }}>
        {shown.map(({ model, subscription, states }) => (
          <Card key={`${model} ${subscription}`} withBorder p="md">
            <LimitGroup {...{ model, subscription, states, currency }} />
          </Card>
        ))}
      </SimpleGrid>
    </Section>
  )
}

const windows = { hour: ['1h', '60m'], day: ['24h', '1440m'], month: [] as string[] }

/**
 * The limit with which each bar of the plot can be compared, if any. One limit must count all usage in a bar: of one
 * model, which one subscription pays for, in windows of its length.
 */
export function ceilingOf({ span, by, key }: Asked, { totals, limits }: FoundUsage) {
  const [only, ...others] = totals
  if (by.value !== 'model' || key !== '' || only === undefined || others.length > 0)
    return undefined
  const counting = limits.filter(
    ({ model, scope, name }) => model === only.model && scope === 'user' && name === null,
  )
  if (new Set(counting.map(({ subscription }) => subscription)).size !== 1) return undefined
  return counting.find(
    (limit) => windows[span.unit].includes(limit.window ?? '') && limit.kind === 'tokens',
  )
}
