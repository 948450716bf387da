/**
 * Follows the resets of counters by all gateways, within a second: by notifications of the database, and by polling.
 */

import { createRestTimer, repeat } from '../../runtime/loop.ts'
import type { CounterReset } from '../rules/windows.ts'
import type { ResetStore, StoredReset } from './postgres-resets.ts'

const everyMs = 1_000

export type ResetFeed = ReturnType<typeof createResetFeed>

/** `onFault`: called when the database does not respond, after which it is asked again. */
export function createResetFeed(
  resets: Pick<ResetStore, 'read'>,
  onFault: (error: unknown) => void,
) {
  const ending = new AbortController()
  const { signal } = ending
  const alarm = createRestTimer(signal)
  /** When the latest known reset was written. */
  let latest = 0

  /** Reads new resets, and perhaps some known ones; the first call reads all, and must precede the reading of lines. */
  async function read(): Promise<readonly StoredReset[]> {
    const found = await resets.read(latest)
    for (const { writtenAt } of found) latest = Math.max(latest, writtenAt)
    return found
  }

  return {
    read,
    /** Reports further resets, some of them more than once. */
    start(onReset: (key: string, reset: CounterReset) => void): void {
      const step = async (): Promise<void> => {
        for (const { key, at, used } of await read()) onReset(key, { at, used })
      }
      void repeat({ step, restMs: everyMs, onFault, signal, alarm })
    },
    /** Call it when the database has sent a notification, or may have failed to. */
    ring: (): void => alarm.ring(),
    stop: (): void => ending.abort(),
  }
}
