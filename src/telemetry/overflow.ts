/** What found no room among the series of a metric, told apart from all of them by its one label. */

import type { Point } from './metric-data.ts'

export const overflowLabels = { overflow: 'true' } as const

/** Nothing where nothing was left over. */
export function overflowPoint(value: number): readonly Point[] {
  return value === 0 ? [] : [{ attributes: overflowLabels, value }]
}
