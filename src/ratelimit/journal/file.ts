/** One file of the usage journal, followed while it grows, is renamed, truncated or removed. */

import { type FileHandle, open } from 'node:fs/promises'

/** How far a file has been read, in a form that outlives the process. */
export interface Place {
  readonly inode: string
  /** Bytes; the end of a whole line. */
  readonly offset: number
  /** What the file begins with, since inodes are used again; empty until that much is there. */
  readonly head: string
}

export type JournalFile = ReturnType<typeof follow>

/** Read at once, and so the longest line there may be. */
const chunkBytes = 65_536
/** Holds the first line's request id, which no other file begins with. */
const headBytes = 44
const lineEnd = 10

/** Opens a file to go on where it had been read to, if one of these places is its own. */
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

function follow(handle: FileHandle, begin: Place, sizeAtFirst: number) {
  const { inode } = begin
  let { offset, head } = begin
  let size = sizeAtFirst
  let atEnd = false
  let overlong = 0
  /** Whether the rest of a line that is too long is still to come. */
  let skipping = false

  async function readHead(): Promise<string> {
    const bytes = Buffer.alloc(headBytes)
    const { bytesRead } = await handle.read(bytes, 0, headBytes, 0)
    return bytesRead < headBytes ? '' : bytes.toString('latin1')
  }

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
    /** Bytes that were not read when the file was last looked at. */
    get unread(): number {
      return Math.max(0, size - offset)
    },
    /** Whether no whole line was left when it was last read. */
    get atEnd(): boolean {
      return atEnd
    },
    /** Lines that were too long to be any, so far. */
    get overlong(): number {
      return overlong
    },
    /** Looks how long it is by now. One that was truncated or written anew begins anew. */
    async refresh(): Promise<void> {
      size = (await handle.stat()).size
      if (size < offset) restart()
      if (size === offset) return
      atEnd = false
      const found = await readHead()
      if (head !== '' && found !== head) restart()
      head = found
    },
    /** The next whole lines without their ends, some hundreds at most; none at the end. */
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
