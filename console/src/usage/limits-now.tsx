import { Card, SimpleGrid, Text } from '@mantine/core'
import type { LimitList } from '../api.ts'
import { LimitBars } from '../parts/limits.tsx'
import type { Asked, FoundUsage } from './read-usage.ts'

type Limit = LimitList['data'][number]

const maxCards = 12

/** What is left of the caller's limits, the most used first. */
export function LimitsNow({ limits }: { readonly limits: readonly Limit[] }) {
  const groups = new Map<string, Limit[]>()
  for (const limit of limits) {
    const name = `${limit.model ?? 'this key'}, ${limit.subscription}`
    groups.set(name, [...(groups.get(name) ?? []), limit])
  }
  const share = (all: readonly Limit[]) => Math.max(...all.map(({ used, limit }) => used / limit))
  const shown = [...groups].sort(([, a], [, b]) => share(b) - share(a)).slice(0, maxCards)
  if (shown.length === 0) return null
  return (
    <section aria-label="What is left now">
      <Text fw={600} component="h2" size="md" mb="xs">
        What is left now
      </Text>
      <SimpleGrid cols={{ base: 1, sm: 2, lg: 3 }}>
        {shown.map(([name, all]) => (
          <Card key={name} withBorder p="sm">
            <Text size="sm" fw={500} mb="xs" className="breaks">
              {name}
            </Text>
            <LimitBars
              limits={all.map((each) => ({ ...each, resetsAt: each.resetsAt ?? '' }))}
              of={name}
            />
          </Card>
        ))}
      </SimpleGrid>
    </section>
  )
}

const windows = { hour: ['1h', '60m'], day: ['24h', '1440m'], month: [] as string[] }

/**
 * The limit that each bar of the plot may be compared with; undefined: none. All usage in a bar must
 * be what one limit counts: of one model, which one subscription pays for, in windows of its length.
 */
export function ceilingOf({ span, by, key }: Asked, { totals, limits }: FoundUsage) {
  const [only, ...others] = totals
  if (by.value !== 'model' || key !== '' || only === undefined || others.length > 0)
    return undefined
  const counting = limits.filter(({ model, scope }) => model === only.model && scope === 'user')
  if (new Set(counting.map(({ subscription }) => subscription)).size !== 1) return undefined
  return counting.find(
    (limit) =>
      windows[span.unit].includes(limit.window ?? '') &&
      (!('kind' in limit) || limit.kind === 'tokens'),
  )
}
