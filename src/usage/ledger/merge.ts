/** Merges rows of the ledger that are for the same: their figures are added. */

import { type Exact, plus } from '../../formats/exact.ts'
import type { Mutable } from '../../formats/mutable.ts'
import { type LimitRow, type UsageRow, usageFigures } from '../store.ts'

/** Merges a row with the one of its key. */
export function mergeBy<Row>(
  all: Map<string, Row>,
  key: string,
  row: Row,
  add: (one: Row, other: Row) => Row,
): void {
  const known = all.get(key)
  all.set(key, known === undefined ? row : add(known, row))
}

/** What can be added of a row of usage; a field that both rows lack stays missing. */
interface Figures extends Partial<Record<keyof typeof usageFigures | 'refusals', number>> {
  readonly cost?: UsageRow['cost']
}

export const figureNames = [
  ...(Object.keys(usageFigures) as (keyof typeof usageFigures)[]),
  'refusals',
] as const

/** The first row, with the sums of both. */
export function addUsage<Row extends Figures>(one: Row, other: Row): Row {
  const sums: Mutable<Figures> = {}
  for (const name of figureNames) {
    const [figure, more] = [one[name], other[name]]
    if (figure !== undefined && more !== undefined) sums[name] = addFigure(figure, more)
  }
  if (one.cost != null && other.cost != null) sums.cost = plus(one.cost, other.cost)
  return { ...one, ...sums }
}

/** Models may report any figure, so sums are capped where whole numbers are no longer exact. */
export function addFigure(one: number, other: number): number {
  return Math.min(Number.MAX_SAFE_INTEGER, one + other)
}

/** The first row, with the amounts of both and the time of both. */
export function addCharge(one: LimitRow, other: LimitRow): LimitRow {
  const amount: Exact = plus(one.amount, other.amount)
  const first = Math.min(one.first, other.first)
  return { ...one, amount, first, last: Math.max(one.last, other.last) }
}
