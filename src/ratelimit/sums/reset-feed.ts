/** Hears of resets of counters by whatever gateway, within a second: told by the database, and asked for. */

import { createAlarm, repeat } from '../../runtime/loop.ts'
import type { CounterReset } from '../rules/windows.ts'
import type { KeptResets } from './kept-resets.ts'

export interface ResetFeedOptions {
  readonly resets: Pick<KeptResets, 'read'>
  /** Called with each reset, some of them more than once. */
  readonly onReset: (key: string, reset: CounterReset) => void
  /** The database does not answer; it is asked again. */
  readonly onFault: (error: unknown) => void
}

const everyMs = 1_000

export type ResetFeed = ReturnType<typeof createResetFeed>

export function createResetFeed({ resets, onReset, onFault }: ResetFeedOptions) {
  const ending = new AbortController()
  const alarm = createAlarm(ending.signal)
  /** When the latest reset was written that was heard of. */
  let latest = 0

  async function step(): Promise<void> {
    for (const { key, at, used, writtenAt } of await resets.read(latest)) {
      latest = Math.max(latest, writtenAt)
      onReset(key, { at, used })
    }
  }

  return {
    /** Resolves once all resets of the past are known, before which no line is to be read; rejects if they can't be. */
    async start(): Promise<void> {
      await step()
      const { signal } = ending
      void repeat({ step, restMs: everyMs, onFault, signal, alarm, restsFirst: true })
    },
    /** The database has told of a reset, or may have missed to. */
    ring: (): void => alarm.ring(),
    stop: (): void => ending.abort(),
  }
}
