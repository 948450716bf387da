/** Rows of usage as the series of a plot. */

import type { Series } from '../parts/bars.tsx'
import type { UsageRow } from './read-usage.ts'

/** The groups with the most tokens; the last one contains all others. */
export const colors = ['#4c6ef5', '#12b886', '#f59f00', '#e64980', '#15aabf', '#868e96'] as const
const others = colors.length - 1

type Field = 'model' | 'key_id' | 'subscription' | 'user'

export function colorAt(at: number): string {
  return colors[Math.min(at, others)] as string
}

/** `totals` the largest first; `rows` by time and group; `starts` in milliseconds since the epoch. */
export function toSeries(
  starts: readonly number[],
  totals: readonly UsageRow[],
  rows: readonly UsageRow[],
  field: Field,
  nameOf: (value: string) => string = (value) => value,
): readonly Series[] {
  const placeOf = new Map(totals.map((row, at) => [row[field], Math.min(at, others)]))
  const series = colors.slice(0, totals.length).map((color, at) => ({
    color,
    label:
      at === others && totals.length > colors.length ? 'others' : nameOf(totals[at]?.[field] ?? ''),
    values: starts.map(() => 0),
  }))
  const timeAt = new Map(starts.map((start, at) => [start, at]))
  for (const row of rows) {
    const at = timeAt.get(Date.parse(row.start ?? ''))
    const values = series[placeOf.get(row[field]) ?? others]?.values
    if (values && at !== undefined) values[at] = (values[at] ?? 0) + row.total_tokens
  }
  return series
}
