/** A folder of resource files, polled for changes. */

import { type FSWatcher, watch } from 'node:fs'
import { setTimeout as delay } from 'node:timers/promises'
import { createRestTimer, type RestTimer } from '../../runtime/loop.ts'
import { resourceFile } from './list-files.ts'
import { createResourceFolder } from './resource-folder.ts'
import type { ResourceSource } from './resource-source.ts'

/** Minimum interval between two checks, and before the second check of a change (ms). */
const settleMs = 100

/**
 * Polling, unlike notifications, also detects saves by rename, symlink swaps of mounted ConfigMaps, and changes on
 * network mounts. After each check it pauses for twenty times the duration of the check, but for 200 ms at least and
 * 700 ms at most: a change must be in force within two seconds. A notification of the system about the folder itself
 * makes the next check happen sooner; nothing depends on it.
 */
export function createFolderSource(
  path: string,
): ResourceSource & { readonly isUnavailable: boolean } {
  const folder = createResourceFolder(path)
  let alarm: RestTimer | undefined
  const listener = listen(path, () => alarm?.ring())
  let restMs = 0
  let isUnavailable = false

  async function rest(signal: AbortSignal): Promise<void> {
    alarm ??= createRestTimer(signal)
    if (restMs === 0) return
    await delay(settleMs, undefined, { signal, ref: false })
    listener.open()
    if (restMs > settleMs) await alarm.rest(restMs - settleMs)
    signal.throwIfAborted()
  }

  return {
    /** Whether the folder cannot be read now; the last state stays. */
    get isUnavailable() {
      return isUnavailable
    },
    async next(signal) {
      for (;;) {
        await rest(signal).catch((aborted: unknown) => {
          listener.close()
          throw aborted
        })
        const startedAt = performance.now()
        try {
          const found = await folder.poll(startedAt)
          isUnavailable = false
          if (found !== undefined) return found
        } catch (error) {
          isUnavailable = true
          listener.close()
          throw error
        } finally {
          const tookMs = performance.now() - startedAt
          restMs = folder.unsettled() ? settleMs : Math.min(Math.max(200, 20 * tookMs), 700)
        }
      }
    },
  }
}

/** Watches one folder, without its subfolders, for files that may contain resources. */
function listen(path: string, onChange: () => void) {
  let watcher: FSWatcher | undefined
  const close = (): void => {
    watcher?.close()
    watcher = undefined
  }
  const note = (_: string, name: string | null): void => {
    if (name === null || name === '..data' || resourceFile.test(name)) onChange()
  }
  return {
    close,
    /** Does nothing if the watch is open. */
    open(): void {
      try {
        watcher ??= watch(path, { persistent: false }, note).on('error', close)
      } catch {
        // The folder is gone, or there are no more watches: polling continues.
      }
    },
  }
}
