/** Polls files: unlike a watch of the system, this detects saves by rename and symlink swaps. */

import { stat } from 'node:fs/promises'

export type FilesWatch = ReturnType<typeof watchFiles>

/**
 * Calls `look` every `everyMs` with a text that identifies the state of the files: when and how
 * each was written, or why that is unknown.
 */
export function watchFiles(
  paths: readonly string[],
  everyMs: number,
  look: (signature: string) => void,
) {
  let isLooking = false
  let isClosed = false
  const timer = setInterval(async () => {
    if (isLooking) return
    isLooking = true
    const signature = await signatureOf(paths)
    isLooking = false
    if (!isClosed) look(signature)
  }, everyMs).unref()
  return {
    close(): void {
      isClosed = true
      clearInterval(timer)
    },
  }
}

async function signatureOf(paths: readonly string[]): Promise<string> {
  const all = paths.map(async (path) => {
    const { mtimeNs, size, ino } = await stat(path, { bigint: true })
    return `${mtimeNs} ${size} ${ino}`
  })
  return await Promise.all(all).then(
    (found) => found.join(),
    (error: NodeJS.ErrnoException) => `${error.code}`,
  )
}
