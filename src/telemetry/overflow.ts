/** Counts for which a metric has no room for another series, under a label of their own. */

import type { Point } from './metric-data.ts'

export const overflowLabels = { overflow: 'true' } as const

/** Empty if there are none. */
export function overflowPoint(value: number): readonly Point[] {
  return value === 0 ? [] : [{ attributes: overflowLabels, value }]
}
