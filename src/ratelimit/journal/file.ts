/**
 * One file of the usage journal, followed while it grows and across renames, truncation and
 * removal.
 */

import { type FileHandle, open } from 'node:fs/promises'

/** A read position in a file, in a form that outlives the process. */
export interface Place {
  readonly inode: string
  /** Bytes; always at the end of a line. */
  readonly offset: number
  /** The first bytes of the file, because inodes are reused; empty until there are enough. */
  readonly head: string
}

export type JournalFile = ReturnType<typeof follow>

/** Bytes per read, and so the longest possible line. */
const chunkBytes = 65_536
/** Includes the first line's request id, which no other file begins with. */
const headBytes = 44
const lineEnd = 10

/** Opens a file and continues at its position, if one of these places belongs to it. */
export async function openJournalFile(
  path: string,
  places: readonly Place[] = [],
): Promise<JournalFile> {
  const handle = await open(path, 'r')
  try {
    const stat = await handle.stat({ bigint: true })
    const inode = String(stat.ino)
    const begin = places.find((place) => place.inode === inode) ?? { inode, offset: 0, head: '' }
    return follow(handle, begin, Number(stat.size))
  } catch (error) {
    await handle.close()
    throw error
  }
}

/** What a file begins with, which identifies it; empty if it is too short. */
export async function readHead(handle: FileHandle): Promise<string> {
  const bytes = Buffer.alloc(headBytes)
  const { bytesRead } = await handle.read(bytes, 0, headBytes, 0)
  return bytesRead < headBytes ? '' : bytes.toString('latin1')
}

function follow(handle: FileHandle, begin: Place, sizeAtFirst: number) {
  const { inode } = begin
  let { offset, head } = begin
  let size = sizeAtFirst
  let writtenAtNs = 0n
  let atEnd = false
  let overlong = 0
  /** Whether the rest of an overlong line is still to come. */
  let skipping = false

  function restart(): void {
    offset = 0
    head = ''
    skipping = false
  }

  return {
    inode,
    get place(): Place {
      return { inode, offset, head }
    },
    /** Bytes that were unread when the file was last checked. */
    get unread(): number {
      return Math.max(0, size - offset)
    },
    /** Whether no whole line was left at the last read. */
    get atEnd(): boolean {
      return atEnd
    },
    /** Lines that were too long, so far. */
    get overlong(): number {
      return overlong
    },
    /** Updates its length. A file that was truncated or rewritten is read from its start. */
    async refresh(): Promise<void> {
      const stat = await handle.stat({ bigint: true })
      size = Number(stat.size)
      // Another journal of the same length may be in its place.
      const isUnchanged = size === offset && stat.mtimeNs === writtenAtNs
      writtenAtNs = stat.mtimeNs
      if (isUnchanged) return
      if (size < offset) restart()
      atEnd = false
      const found = await readHead(handle)
      if (head !== '' && found !== head) restart()
      head = found
    },
    /** The next whole lines without their line ends, at most some hundreds; none at the end. */
    async next(): Promise<readonly string[]> {
      const chunk = Buffer.allocUnsafe(Math.min(chunkBytes, size - offset))
      const { bytesRead } = await handle.read(chunk, 0, chunk.length, offset)
      if (offset === 0 && bytesRead >= headBytes) head = chunk.toString('latin1', 0, headBytes)
      const end = chunk.subarray(0, bytesRead).lastIndexOf(lineEnd) + 1
      atEnd = end === 0 && bytesRead < chunkBytes
      if (atEnd) return []
      if (end === 0) {
        if (!skipping) overlong += 1
        skipping = true
        offset += bytesRead
        return []
      }
      const begin = skipping ? chunk.indexOf(lineEnd) + 1 : 0
      skipping = false
      offset += end
      if (begin === end) return []
      return chunk.toString('utf8', begin, end - 1).split('\n')
    },
    close: (): Promise<void> => handle.close(),
  }
}
