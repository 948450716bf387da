/** A folder of resource files, looked at again and again. */

import { type FSWatcher, watch } from 'node:fs'
import { setTimeout as delay } from 'node:timers/promises'
import { createFolder } from './files.ts'
import type { ResourceSource } from './source.ts'

/** Milliseconds between two looks at least, and until the second look at a change. */
const settleMs = 100

/**
 * Looking, unlike listening, also sees saves by rename, symlink swaps of mounted ConfigMaps and
 * network mounts. After each look it rests for twenty times as long as that took, but 200 ms at
 * least and 700 ms at most: a change is to be in force within two seconds. Where the system tells
 * of a change in the folder itself the next look comes sooner; nothing depends on that.
 */
export function createFolderSource(path: string): ResourceSource {
  const folder = createFolder(path)
  const listener = listen(path)
  let restMs = 0

  async function rest(signal: AbortSignal): Promise<void> {
    if (restMs === 0) return
    const options = { signal, ref: false }
    await delay(settleMs, undefined, options)
    if (restMs > settleMs) {
      await Promise.race([delay(restMs - settleMs, undefined, options), listener.heard()])
    }
  }

  return {
    async next(signal) {
      for (;;) {
        await rest(signal).catch((aborted: unknown) => {
          listener.close()
          throw aborted
        })
        listener.forget()
        const startedAt = performance.now()
        try {
          const found = await folder.look(startedAt)
          if (found !== undefined) return found
        } catch (error) {
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

/** Listens to one folder, without those below it, for files that may hold resources. */
function listen(path: string) {
  let watcher: FSWatcher | undefined
  let changed = false
  let tell = (): void => {}
  const close = (): void => {
    watcher?.close()
    watcher = undefined
  }
  const onChange = (_: string, name: string | null): void => {
    if (name !== null && !/^\.\.data$|\.(ya?ml|json)$/.test(name)) return
    changed = true
    tell()
  }
  return {
    close,
    /** Settles once something has changed that is not forgotten; never where nobody tells. */
    async heard(): Promise<void> {
      if (watcher === undefined) {
        try {
          watcher = watch(path, { persistent: false }, onChange).on('error', close)
        } catch {
          // A folder that is gone, or no more watches to be had: looking goes on.
        }
      }
      if (!changed)
        await new Promise<void>((settle) => {
          tell = settle
        })
    },
    /** What was heard until now is being looked at. */
    forget() {
      changed = false
    },
  }
}
