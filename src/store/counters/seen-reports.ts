/** The responses that this process has counted. */

import { type Report, rememberedMs } from '../counters.ts'
import { firstKeptMinute, memberOf, minuteOf, neighbourOf } from './reports.ts'

/** One Set for each minute. Entries older than a day are dropped automatically. */
export function createSeenReports() {
  const minutes = new Map<number, Set<string>>()

  function forget(endedBefore: number): void {
    const first = firstKeptMinute(endedBefore)
    for (const minute of minutes.keys()) if (minute < first) minutes.delete(minute)
  }

  return {
    /** The number of remembered responses. */
    get size(): number {
      let size = 0
      for (const seen of minutes.values()) size += seen.size
      return size
    },
    /** Whether this response is reported for the first time; remembers it. */
    isNew({ id, endedAt }: Report, now: number): boolean {
      const member = memberOf(id)
      const minute = minuteOf(endedAt)
      const neighbour = neighbourOf(endedAt)
      if (neighbour !== undefined && minutes.get(neighbour)?.has(member)) return false
      let seen = minutes.get(minute)
      if (seen === undefined) {
        forget(now - rememberedMs)
        seen = new Set()
        minutes.set(minute, seen)
      }
      const { size } = seen
      return seen.add(member).size > size
    },
    /** Forgets responses that ended before this time (milliseconds since the epoch). */
    forget,
  }
}
