/** Which responses were counted, in this process. */

import { type Report, rememberedMs } from '../counters.ts'
import { firstKeptMinute, memberOf, minuteOf, neighbourOf } from './reports.ts'

export type SeenReports = ReturnType<typeof createSeenReports>

/** One Set for each minute. What is older than a day it forgets by itself. */
export function createSeenReports() {
  const minutes = new Map<number, Set<string>>()

  function forget(endedBefore: number): void {
    const first = firstKeptMinute(endedBefore)
    for (const minute of minutes.keys()) if (minute < first) minutes.delete(minute)
  }

  function isNewMember(member: string, endedAt: number, now: number): boolean {
    const minute = minuteOf(endedAt)
    const neighbour = neighbourOf(endedAt)
    if (neighbour !== undefined && minutes.get(neighbour)?.has(member)) return false
    let seen = minutes.get(minute)
    if (seen === undefined) {
      forget(now - rememberedMs)
      seen = new Set()
      minutes.set(minute, seen)
    }
    if (seen.has(member)) return false
    seen.add(member)
    return true
  }

  return {
    /** Responses remembered. */
    get size(): number {
      let size = 0
      for (const seen of minutes.values()) size += seen.size
      return size
    },
    /** Whether this response is told of for the first time; it is remembered from now on. */
    isNew: ({ id, endedAt }: Report, now: number): boolean =>
      isNewMember(memberOf(id), endedAt, now),
    /** The same of a response by its `memberOf`, as another process tells of it. */
    isNewMember,
    /** Forgets those that ended before then (milliseconds since the epoch). */
    forget,
  }
}
