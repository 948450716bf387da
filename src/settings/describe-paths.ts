import { meterable, type PathRules } from '../operations/operations.ts'

/** METER_PATHS with every operation that can be counted. */
export const everyMeter = Object.keys(meterable).join(',')

/** Describes for operators which operations are counted and what happens to the others. */
export function describePaths({ metered, unmetered }: PathRules): string {
  const others = Object.values(meterable).filter((each) => !metered.has(each))
  const counted = `counted: ${[...metered].join(', ')}`
  if (others.length === 0 && unmetered === 'open') return counted
  const state = unmetered === 'open' ? 'open and not counted' : 'closed, since not counted'
  return `${counted}; ${state}: ${[...others, 'the rest'].join(', ')}`
}
