/**
 * Follows the files with a gateway's lines: the one that grows, and earlier ones that were renamed, in
 * whatever order, since sums do not mind. Each line is taken once, however files are moved and whenever the
 * process ends, because its position is kept with what was made of the lines.
 */

import type { Folder } from './folder.ts'
import {
  createFollowedFiles,
  type Followed,
  type FollowedFilesOptions,
  type Position,
  refreshHead,
} from './followed-files.ts'
import { type IsDone, removeSaved } from './remove-saved.ts'

export type { Position }

interface FollowerOptions extends FollowedFilesOptions {
  readonly folder: Pick<Folder, 'list' | 'open' | 'remove'>
  /**
   * Called with each whole line, without its end, its file's head, and which file that is or was renamed from; never
   * with an empty one. Must not throw.
   */
  readonly take: (line: string, head: string, name: string) => void
  /** Nothing is taken beyond it. */
  readonly until?: Position
}

/**
 * Put at the end of a file of framed lines that was renamed, before any line is in another one: whoever has read
 * it looks for that one at once. For all others it is empty lines.
 */
export const endMark = '\n\n\n\n'
/** Between lines there is one, and at most another one after a torn line. */
const emptyOfMark = 3

export type Follower = ReturnType<typeof createFollower>

/** Bytes of one read, and so of the longest line. */
const chunkBytes = 65_536
const lineEnd = 10

export function createFollower(options: FollowerOptions) {
  const { position, take, onLost = () => {}, until } = options
  const files = createFollowedFiles(options)
  const chunk = Buffer.allocUnsafe(chunkBytes)
  /** Whether a file has ended since the last look at the folder. */
  let isMarked = false

  function discover(): void {
    isMarked = false
    files.discover()
  }

  /** Takes the next lines of a file; returns how many bytes were read, 0 at its end. */
  function readChunk(one: Followed): number {
    one.isFull = false
    // Closed while somebody else was reading.
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
    // A longer line is none: its rest is passed over with the next line end.
    const begin = one.isSkipping ? chunk.indexOf(lineEnd) + 1 : 0
    one.isSkipping = end === 0
    for (const line of chunk.toString('utf8', begin, Math.max(begin, end - 1)).split('\n')) {
      one.empty = line === '' ? one.empty + 1 : 0
      if (line !== '') take(line, head, one.growing)
      else if (one.empty >= emptyOfMark) isMarked = true
    }
    position.set(head, offset + (end || bytes))
    return end || bytes
  }

  /** Returns whether it has come to the ends of these. */
  function readUpTo(maxBytes: number, isWanted: (one: Followed) => boolean): boolean {
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
    /** Takes what files that grow have at their ends, or only those of one name, at most about this many bytes. */
    readEnds(maxBytes: number, only?: string): void {
      readUpTo(maxBytes, (one) => (only === undefined || one.growing === only) && files.isLive(one))
    },
    /** Takes what all files have, also new ones, at most about this many bytes; returns whether that is all. */
    catchUp(maxBytes: number): boolean {
      discover()
      return readUpTo(maxBytes, () => true)
    },
    /** The files whose lines are taken, as of its last look at the folder; each has a line. */
    files: (): readonly Readonly<Followed>[] =>
      files.all.filter(({ head, isCopy }) => head !== '' && !isCopy),
    /** Steps for `inSlices`: takes every whole line that is there. */
    *readAll(): Generator<undefined, void> {
      discover()
      for (const one of files.all) {
        while (readChunk(one) > 0) yield
      }
    },
    /** How many bytes are not taken yet, as of the last look at the folder. */
    get unreadBytes(): number {
      let bytes = 0
      for (const { head, isCopy, file } of files.all) {
        if (!isCopy) bytes += Math.max(0, file.size() - (position.get(head) ?? 0))
      }
      return bytes
    },
    /** As in remove-saved.ts, where `saved` is what was saved with this position. */
    tidy(saved: Position, kept: number, isDone?: IsDone): void {
      discover()
      removeSaved(options, files, saved, kept, isDone)
    },
    /** Takes nothing any more, also if somebody is reading. */
    close: files.close,
  }
}
