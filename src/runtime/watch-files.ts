/** Polls files: unlike a watch of the system, this detects saves by rename and symlink swaps. */

import { stat } from 'node:fs/promises'

export type FilesWatch = ReturnType<typeof watchFiles>

/**
 * Calls `onState` every `everyMs` with a text that identifies the state of the files: when and how
 * each was written, or why that is unknown.
 */
export function watchFiles(
  paths: readonly string[],
  everyMs: number,
  onState: (signature: string) => void,
) {
  let isReading = false
  let isClosed = false
  const timer = setInterval(async () => {
    if (isReading) return
    isReading = true
    const signature = await signatureOf(paths)
    isReading = false
    if (!isClosed) onState(signature)
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
