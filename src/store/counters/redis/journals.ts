/** The coordination in Redis of processes that read a usage journal. */

import { randomUUID } from 'node:crypto'
import { type JournaledCounters, minRememberedMs, rememberedMs } from '../../counters.ts'
import { firstKeptMinute, minuteOf } from '../reports.ts'
import { allTags, claimKeyOf, seenPrefixOf } from './keys.ts'
import type { CounterCommands } from './scripts.ts'

export interface RedisJournalsOptions {
  readonly commands: CounterCommands
  readonly cluster: boolean
  /** Its name. */
  readonly journal: string
  /** Milliseconds since the epoch. */
  readonly wallClock: () => number
}

/**
 * The claim of a journal, and the removal of responses that its readers have passed. Neither
 * rejects.
 */
export function createRedisJournals(
  options: RedisJournalsOptions,
): Pick<JournaledCounters, 'claimJournal' | 'forgetReports'> {
  const { commands, journal, wallClock } = options
  const owner = randomUUID()
  const tags = options.cluster ? allTags : ['all']
  /** The first minute of each tag that has not been removed yet. */
  const nextMinutes = new Map<string, number>()

  async function forget(tag: string, firstKept: number): Promise<void> {
    // Older sets have expired by themselves.
    const oldest = firstKept - minuteOf(rememberedMs)
    const from = Math.max(oldest, nextMinutes.get(tag) ?? oldest)
    if (from >= firstKept) return
    const minutes = Array.from({ length: firstKept - from }, (_, i) => from + i)
    await commands.forget(minutes.map((minute) => seenPrefixOf(tag, journal) + minute))
    nextMinutes.set(tag, firstKept)
  }

  return {
    async claimJournal(ms) {
      return commands.claim([claimKeyOf(journal)], [owner, ms]).then(
        (claimed) => claimed === 1,
        () => false,
      )
    },
    async forgetReports(endedBefore) {
      const firstKept = firstKeptMinute(Math.min(endedBefore, wallClock() - minRememberedMs))
      await Promise.allSettled(tags.map((tag) => forget(tag, firstKept)))
    },
  }
}
