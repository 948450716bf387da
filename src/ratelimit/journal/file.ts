/**
 * One file of the usage journal, followed while it grows and across renames, truncation and
 * removal.
 */

import { hash } from 'node:crypto'
import { type FileHandle, open } from 'node:fs/promises'

/** A read position in a file, in a form that outlives the process. */
export interface Place {
  readonly inode: string
  /** Bytes; always at the end of a line. */
  readonly offset: number
  /** A digest of the first line, because inodes are reused; empty until it is there. */
  readonly head: string
}

export type JournalFile = ReturnType<typeof follow>

/** Bytes per read, and so the longest possible line. */
const chunkBytes = 65_536
/**
 * Of a longer first line, what identifies it: with its request id, which no other file begins with. In JSON
 * it follows names of up to 300 characters.
 */
const headBytes = 4_096
/** Too few: in JSON the request id comes later, so that two files may begin with the same. */
const earlierBytes = 44
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

/**
 * What identifies a file, wherever it is moved; empty until its first line is there. Positions that an
 * earlier version has stored have the first bytes instead: a file that `isKnown` by these keeps them.
 */
export async function readHead(
  handle: FileHandle,
  isKnown: (head: string) => boolean = () => false,
): Promise<string> {
  const bytes = Buffer.allocUnsafe(headBytes)
  const { bytesRead } = await handle.read(bytes, 0, headBytes, 0)
  const first = bytes.toString('latin1', 0, Math.min(bytesRead, earlierBytes))
  return isKnown(first) ? first : headIn(bytes.subarray(0, bytesRead))
}

/** Of the bytes at the start of a file; never changes once it is not empty. */
function headIn(bytes: Buffer): string {
  const first = bytes.subarray(0, headBytes)
  const end = first.indexOf(lineEnd)
  if (end < 0 && first.length < headBytes) return ''
  return hash('sha256', first.subarray(0, end < 0 ? headBytes : end), 'hex').slice(0, 32)
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
      const found = await readHead(handle, (first) => first === head)
      if (head !== '' && found !== head) restart()
      head = found
    },
    /** The next whole lines without their line ends, at most some hundreds; none at the end. */
    async next(): Promise<readonly string[]> {
      const chunk = Buffer.allocUnsafe(Math.min(chunkBytes, size - offset))
      const { bytesRead } = await handle.read(chunk, 0, chunk.length, offset)
      if (offset === 0) head = headIn(chunk.subarray(0, bytesRead))
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
