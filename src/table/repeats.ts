/** Which allowed requests come again soon: a record costs several Checks, which one request is not worth. */

import { BoundedMap } from '../runtime/bounded-map.ts'

/** As long as a record lasts at most, in milliseconds. */
const soonMs = 30_000

/**
 * Returns whether a request of this digest (rules/digest.ts) was allowed in the last half minute, or published in the
 * last minute, so that one whose record is over is published again at once. `max`: how many are remembered.
 */
export function createRepeats(max: number, now: () => number) {
  const until = new BoundedMap<string, number>(max)
  return (digest: Buffer): boolean => {
    const name = digest.toString('latin1')
    const at = now()
    const isRepeated = at < (until.get(name) ?? Number.NEGATIVE_INFINITY)
    until.set(name, at + (isRepeated ? 2 * soonMs : soonMs))
    return isRepeated
  }
}
