/** Merges rows of the ledger that belong to one group: their figures are added. */

import { addExact, type ExactInt } from '../../formats/exact.ts'
import type { Mutable } from '../../formats/mutable.ts'
import { type LimitRow, type UsageRow, usageFigures } from '../store.ts'

/** Merges a row with the one that has its key. */
export function mergeRow<Row>(
  all: Map<string, Row>,
  key: string,
  row: Row,
  add: (one: Row, other: Row) => Row,
): void {
  const known = all.get(key)
  all.set(key, known === undefined ? row : add(known, row))
}

/** The figures of a row of usage that can be added; a field that both rows lack stays missing. */
interface Figures extends Partial<Record<keyof typeof usageFigures | 'refusals', number>> {
  readonly cost?: UsageRow['cost']
}

export const figureNames = [
  ...(Object.keys(usageFigures) as (keyof typeof usageFigures)[]),
  'refusals',
] as const

/** The first row, with the sums of the figures of both. */
export function addUsage<Row extends Figures>(one: Row, other: Row): Row {
  const sums: Mutable<Figures> = {}
  for (const name of figureNames) {
    const [figure, more] = [one[name], other[name]]
    if (figure !== undefined && more !== undefined) sums[name] = addFigure(figure, more)
  }
  if (one.cost != null && other.cost != null) sums.cost = addExact(one.cost, other.cost)
  return { ...one, ...sums }
}

/** Models may report any figure, so sums are capped where whole numbers are no longer exact. */
export function addFigure(one: number, other: number): number {
  return Math.max(-Number.MAX_SAFE_INTEGER, Math.min(Number.MAX_SAFE_INTEGER, one + other))
}

/** The first row, with the sum of both amounts and the times of both. */
export function addCharge(one: LimitRow, other: LimitRow): LimitRow {
  const amount: ExactInt = addExact(one.amount, other.amount)
  const first = Math.min(one.first, other.first)
  return { ...one, amount, first, last: Math.max(one.last, other.last) }
}
