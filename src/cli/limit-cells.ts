/** Cells of tables of limits. */

import type { LimitList } from '../admin/usage/limits.ts'
import type { Cells } from './output.ts'

/** Lists of counters and increases do not have all of its fields. */
type ShownLimit = Partial<LimitList['data'][number]>

/** The owner, the target and the sharers of the limit. */
export function toLimitCells(limit: ShownLimit): Cells {
  const { subscription, model, models, name, kind = 'tokens', scope = 'user', window } = limit
  return {
    SUBSCRIPTION: subscription ?? '',
    MODEL: model ?? models?.join(', ') ?? (scope === 'key' ? 'this key' : 'all'),
    NAME: `${name ?? ''}${limit.enforced === false ? ' (only counted)' : ''}`,
    'SHARED BY': showSharers(limit),
    OF: kind,
    WINDOW: window ?? '-',
    INCREASED: limit.increasedUntil === undefined ? '' : `until ${limit.increasedUntil}`,
  }
}

/** Empty if it is not shared. */
export function showSharers({ scope = 'user', whom, subscription }: ShownLimit): string {
  if (whom !== undefined) return `${scope} ${whom}`
  if (scope === 'subscription' && subscription) return `subscription ${subscription}`
  return scope === 'user' || scope === 'key' ? '' : `all of the ${scope}`
}

/** A number with commas, or money. */
export function formatFigure(value: number | string | null, currency = ''): string {
  if (value === null) return '-'
  return typeof value === 'number' ? value.toLocaleString('en') : `${value} ${currency}`.trim()
}
