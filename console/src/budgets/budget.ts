/** Which limits are budgets, and the forecast of a budget. */

import type { LimitList } from '../api.ts'
import { sharersIn } from '../parts/limits.tsx'

export type Limit = LimitList['data'][number]

/** A limit by name on money, or with a window of a day or longer. */
export interface Budget extends Limit {
  readonly startsAt: string
  readonly resetsAt: string
}

/** A day on which clocks are put forward has 23 hours. */
const longMs = 22 * 3_600_000

export function isBudget(limit: Limit): limit is Budget {
  const { name, kind, startsAt, resetsAt } = limit
  if (name === null || startsAt === null || resetsAt === null) return false
  return kind === 'cost' || Date.parse(resetsAt) - Date.parse(startsAt) >= longMs
}

/** The budgets among the limits, the one with the least left first. */
export function budgetsIn(limits: readonly Limit[]): readonly Budget[] {
  return limits.filter(isBudget).sort((a, b) => a.percentLeft - b.percentLeft)
}

/** A limit by name, as in every list of the API. */
export type Named = Pick<Limit, 'subscription' | 'model' | 'kind' | 'scope' | 'whom'> & {
  readonly name: string | null
}

/** Identifies it: its resource, name and who shares it. */
export function idOf({ subscription, model, name, kind, whom = '' }: Named): string {
  return [subscription ?? model ?? '', name, kind, whom].join(' ')
}

/** Its resource and who shares it: `funded · shared by group team`. */
export function whereOf({ subscription, model, ...names }: Named): string {
  const of = subscription ?? model ?? 'the installation'
  return [of, sharersIn(names)].filter(Boolean).join(' · ')
}

/** The used share, 1 being all of it. */
export function partUsed({ limit, used, percentLeft }: Budget): number {
  if (limit === null || used === null) return 1 - percentLeft / 100
  return Number(used) / Number(limit)
}

export type Forecast =
  /** Too early in the window. */
  | { readonly is: 'unknown' }
  | { readonly is: 'unused' }
  | { readonly is: 'spent' }
  /** `at` in milliseconds since the epoch. */
  | { readonly is: 'short'; readonly at: number; readonly part: number }
  /** `part`: the used share at the end. */
  | { readonly is: 'enough'; readonly part: number }

/** The share of a window below which no forecast is made. */
const leastPart = 0.02

/** Extrapolates the average rate since the start of the window. */
export function forecast(budget: Budget, now: number): Forecast {
  const [from, to] = [Date.parse(budget.startsAt), Date.parse(budget.resetsAt)]
  const used = partUsed(budget)
  if (budget.percentLeft === 0) return { is: 'spent' }
  if (used <= 0) return { is: 'unused' }
  const passed = (now - from) / (to - from)
  if (passed < leastPart) return { is: 'unknown' }
  const part = used / Math.min(1, passed)
  return part > 1 ? { is: 'short', at: from + (now - from) / used, part } : { is: 'enough', part }
}
