/** What METER_PATHS and UNMETERED_PATHS say, in words, for the log of a start. */

import { meterable, type PathRules } from '../operations/operations.ts'

/** METER_PATHS with every operation that can be counted. */
export const allMeterNames = Object.keys(meterable).join(',')

/** There, an uncounted operation would evade the limit on cost. */
const underBudget = '403 path_closed where an enforced limit on cost holds'

/** Describes for operators which operations are counted and what happens to the others. */
export function describePaths({ metered, unmetered }: PathRules): string {
  const others = Object.values(meterable).filter((each) => !metered.has(each))
  const counted = `counted: ${[...metered].join(', ')}`
  if (others.length === 0 && unmetered === 'open') return counted
  const state =
    unmetered === 'open' ? 'open and not counted' : 'closed, because they are not counted'
  const budget = unmetered === 'open' ? ` (${underBudget})` : ''
  return `${counted}; ${state}: ${[...others, 'the rest'].join(', ')}${budget}`
}
