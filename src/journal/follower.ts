/**
 * Follows a gateway's files of lines, current and rotated, in any order, since addition commutes. However files are
 * renamed and whenever the process ends, each line is taken once, because the position is saved together with the
 * result.
 */

import {
  createFollowedFiles,
  type FollowedFile,
  type FollowedFilesOptions,
  type JournalPosition,
  refreshHead,
} from './followed-files.ts'
import type { JournalFolder } from './journal-folder.ts'
import { type IsDone, removeSavedFiles } from './remove-saved.ts'

export type { JournalPosition }

interface FollowerOptions extends FollowedFilesOptions {
  readonly folder: Pick<JournalFolder, 'list' | 'open' | 'remove'>
  /**
   * Called with each complete line without its line end, the head of its file, and the file's base name; never with an
   * empty line. Must not throw.
   */
  readonly onLine: (line: string, head: string, name: string) => void
  /** Lines after this position are not taken. */
  readonly until?: JournalPosition
}

/**
 * Appended to a rotated file of framed lines before its successor gets a line: a reader that meets it looks for the
 * successor at once. Other readers see empty lines.
 */
export const endMark = '\n\n\n\n'
/** Empty lines that identify the mark. Framing leaves one between lines, and two after a torn line. */
const emptyOfMark = 3

export type JournalFollower = ReturnType<typeof createJournalFollower>

/** Bytes of one read, hence the maximum length of a line. */
const chunkBytes = 65_536
const lineEnd = 10

export function createJournalFollower(options: FollowerOptions) {
  const { position, onLine, onLost = () => {}, until } = options
  const files = createFollowedFiles(options)
  const chunk = Buffer.allocUnsafe(chunkBytes)
  /** Whether an end mark was read since the folder was last listed. */
  let isMarked = false

  function discover(): void {
    isMarked = false
    files.discover()
  }

  /** Takes the next lines of a file; returns their length in bytes, 0 at its end. */
  function readChunk(one: FollowedFile): number {
    one.isFull = false
    // Closed while another caller was reading.
    if (one.isClosed) return 0
    if (one.head === '') refreshHead(one)
    const { file, head } = one
    if (head === '' || one.isCopy) return 0
    const offset = position.get(head) ?? 0
    const most = until === undefined ? chunkBytes : Math.max(0, (until.get(head) ?? 0) - offset)
    const bytes = file.read(chunk.subarray(0, most), offset)
    one.isFull = bytes === chunkBytes
    const end = chunk.subarray(0, bytes).lastIndexOf(lineEnd) + 1
    one.isRead = end === 0 && bytes < chunkBytes
    if (one.isRead) return 0
    if (end === 0 && !one.isSkipping) onLost(head)
    // The rest of an overlong line is skipped up to the next line end.
    const begin = one.isSkipping ? chunk.indexOf(lineEnd) + 1 : 0
    one.isSkipping = end === 0
    for (const line of chunk.toString('utf8', begin, Math.max(begin, end - 1)).split('\n')) {
      one.empty = line === '' ? one.empty + 1 : 0
      if (line !== '') onLine(line, head, one.growing)
      else if (one.empty >= emptyOfMark) isMarked = true
    }
    position.set(head, offset + (end || bytes))
    return end || bytes
  }

  /** Returns whether the wanted files were read to their ends. */
  function readUpTo(maxBytes: number, isWanted: (one: FollowedFile) => boolean): boolean {
    let left = maxBytes
    for (;;) {
      for (const one of files.all) {
        if (!isWanted(one)) continue
        do left -= readChunk(one)
        while (one.isFull && left > 0)
      }
      if (!isMarked || left <= 0) return left > 0
      discover()
    }
  }

  return {
    /**
     * Takes the new lines of files that may still grow, or only of those with this base name; at most about `maxBytes`.
     */
    readEnds(maxBytes: number, only?: string): void {
      readUpTo(maxBytes, (one) => (only === undefined || one.growing === only) && files.isLive(one))
    },
    /** Takes the new lines of all files, new files included, at most about `maxBytes`; returns whether none is left. */
    catchUp(maxBytes: number): boolean {
      discover()
      return readUpTo(maxBytes, () => true)
    },
    /** The files whose lines are taken, as last listed; each has a complete line. */
    files: (): readonly Readonly<FollowedFile>[] =>
      files.all.filter(({ head, isCopy }) => head !== '' && !isCopy),
    /** Steps for `inSlices`: takes all complete lines. */
    *readAll(): Generator<undefined, void> {
      discover()
      for (const one of files.all) {
        while (readChunk(one) > 0) yield
      }
    },
    /** Bytes that are not taken yet, in the files last listed. */
    get unreadBytes(): number {
      let bytes = 0
      for (const { head, isCopy, file } of files.all) {
        if (!isCopy) bytes += Math.max(0, file.size() - (position.get(head) ?? 0))
      }
      return bytes
    },
    /** Removes files by `removeSavedFiles`; `saved`: the last saved position. */
    tidy(saved: JournalPosition, kept: number, isDone?: IsDone): void {
      discover()
      removeSavedFiles(options, files, saved, kept, isDone)
    },
    /** Stops taking lines, also for a caller that is reading. */
    close: files.close,
  }
}
