/** The file in which this process stores the ended keys that it knows. */

import { stat } from 'node:fs/promises'
import { createMutex } from '../../runtime/mutex.ts'
import { createOutage } from '../../runtime/outage.ts'
import { unlessMissing } from '../../runtime/unless-missing.ts'
import { noteIfLate } from '../../runtime/with-timeout.ts'
import type { createKnownEnds } from './known-ends.ts'
import { appendEndedKeys, replaceRevocationFile } from './revocation-file.ts'

/** The file is rewritten when this many lines are obsolete, and at least as many as are needed. */
const maxSpentLines = 1_000

/**
 * `onWriting`: called when the file cannot be written, and with undefined when it can again. A disk that has not
 * responded for `hangingMs` counts as one that cannot be written.
 */
export function createEndedKeysWriter(
  path: string,
  known: ReturnType<typeof createKnownEnds>,
  onWriting: (error: unknown) => void,
  hangingMs = 5_000,
) {
  const withLock = createMutex()
  const outage = createOutage(onWriting)
  let lines = 0

  async function rewriteAll(): Promise<void> {
    await replaceRevocationFile(path, known.all())
    lines = known.size
  }

  async function writeQueue(): Promise<boolean> {
    try {
      await noteIfLate(hangingMs, writeUnwritten(), outage.note)
      outage.note(undefined)
      return true
    } catch (error) {
      outage.note(error)
      return false
    }
  }

  async function writeUnwritten(): Promise<void> {
    const keys = known.unwritten
    // Not at once: the disk of a network that hangs would stop the process.
    const exists = (await stat(path).catch(unlessMissing)) !== undefined
    // Even without any key, so that a folder that cannot be written is noticed at once.
    if (!exists) await rewriteAll()
    else if (keys.length > 0) {
      await appendEndedKeys(path, keys)
      lines += keys.length
    }
    known.noteWritten(keys.length)
  }

  return {
    path,
    get isFailing(): boolean {
      return outage.isOpen
    },
    /** Call it with the number of its lines when it was read. */
    noteRead(count: number): void {
      lines = count
    },
    /** Writes the queue, once for all waiters. Returns false if that failed. */
    write: (): Promise<boolean> => withLock(writeQueue),
    /** Drops obsolete lines if there are many. */
    async compact(): Promise<void> {
      if (lines >= Math.max(maxSpentLines, 2 * known.size)) await withLock(rewriteAll)
    },
  }
}
