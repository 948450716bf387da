/** Which grants are likely to repeat: a record costs as much as several Checks, which one request is not worth. */

import { BoundedMap } from '../runtime/bounded-map.ts'

/** Maximum life of a record, in milliseconds. */
const soonMs = 30_000

/**
 * Returns whether a request with this digest (`recordDigest`) was granted in the last half minute, or published in the
 * last minute, so that it is published again as soon as its record has expired. `max`: how many digests are remembered.
 */
export function createRepeatDetector(max: number, now: () => number) {
  const until = new BoundedMap<string, number>(max)
  return (digest: Buffer): boolean => {
    const name = digest.toString('latin1')
    const at = now()
    const isRepeated = at < (until.get(name) ?? Number.NEGATIVE_INFINITY)
    until.set(name, at + (isRepeated ? 2 * soonMs : soonMs))
    return isRepeated
  }
}
