/** Follows the resets of counters by all gateways, within a second: by notifications of the database, and by polling. */

import { createAlarm, repeat } from '../../runtime/loop.ts'
import type { CounterReset } from '../rules/windows.ts'
import type { ResetStore, StoredReset } from './postgres-resets.ts'

const everyMs = 1_000

export type ResetFeed = ReturnType<typeof createResetFeed>

/** `onFault`: the database does not answer; it is asked again. */
export function createResetFeed(
  resets: Pick<ResetStore, 'read'>,
  onFault: (error: unknown) => void,
) {
  const ending = new AbortController()
  const { signal } = ending
  const alarm = createAlarm(signal)
  /** When the latest reset was written that was heard of. */
  let latest = 0

  /** What is new, and perhaps some that were heard of; at first all, before which no line is to be read. */
  async function read(): Promise<readonly StoredReset[]> {
    const found = await resets.read(latest)
    for (const { writtenAt } of found) latest = Math.max(latest, writtenAt)
    return found
  }

  return {
    read,
    /** Hears of further ones, some of them more than once. */
    start(onReset: (key: string, reset: CounterReset) => void): void {
      const step = async (): Promise<void> => {
        for (const { key, at, used } of await read()) onReset(key, { at, used })
      }
      void repeat({ step, restMs: everyMs, onFault, signal, alarm })
    },
    /** The database has told of a reset, or may have missed to. */
    ring: (): void => alarm.ring(),
    stop: (): void => ending.abort(),
  }
}
