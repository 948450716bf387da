/** A folder of resource files, looked at again and again. */

import { setTimeout as delay } from 'node:timers/promises'
import { createFolder } from './files.ts'
import type { ResourceSource } from './source.ts'

/** Milliseconds until the second look at a change. */
const settleMs = 100

/**
 * Looking, unlike listening, also sees saves by rename, symlink swaps of mounted ConfigMaps and
 * network mounts. After each look it rests for twenty times as long as that took, but 200 ms at
 * least and 700 ms at most: a change is to be in force within two seconds.
 */
export function createFolderSource(path: string): ResourceSource {
  const folder = createFolder(path)
  let restMs = 0
  return {
    async next(signal) {
      for (;;) {
        if (restMs > 0) await delay(restMs, undefined, { signal, ref: false })
        const startedAt = performance.now()
        const found = await folder.look(startedAt).finally(() => {
          const tookMs = performance.now() - startedAt
          restMs = folder.unsettled() ? settleMs : Math.min(Math.max(200, 20 * tookMs), 700)
        })
        if (found !== undefined) return found
      }
    },
  }
}
