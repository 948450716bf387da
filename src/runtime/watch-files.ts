/** Polls files: unlike a watch of the system, this detects saves by rename and symlink swaps. */

import { stat } from 'node:fs/promises'
import { repeat } from './loop.ts'

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
  const closing = new AbortController()
  const { signal } = closing
  void repeat({
    async step() {
      const signature = await signatureOf(paths)
      if (!signal.aborted) onState(signature)
    },
    restMs: everyMs,
    restsFirst: true,
    signal,
    // An error of `onState` is a bug, and is not handled.
    onFault(error) {
      throw error
    },
  })
  return { close: (): void => closing.abort() }
}

async function signatureOf(paths: readonly string[]): Promise<string> {
  const all = paths.map(async (path) => {
    // A program can set the time of a write (`cp -p`), but not that of a change.
    const { mtimeNs, ctimeNs, size, ino } = await stat(path, { bigint: true })
    return `${mtimeNs} ${ctimeNs} ${size} ${ino}`
  })
  return await Promise.all(all).then(
    (found) => found.join(),
    (error: NodeJS.ErrnoException) => `${error.code}`,
  )
}
