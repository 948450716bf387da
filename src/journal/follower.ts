/**
 * Follows the files with a gateway's lines: the one that grows, and earlier ones that were renamed, in
 * whatever order, since sums do not mind. Each line is taken once, however files are moved and whenever the
 * process ends, because its position is kept with what was made of the lines.
 */

import { renamedAt } from './files.ts'
import { type Folder, type LineFile, type Listed, listLineFiles, type OpenFile } from './folder.ts'
import { headBytes, headIn } from './head.ts'

/** How far each file was taken, in bytes, by its head: wherever it is moved, and whichever it was renamed from. */
export type Position = Map<string, number>

interface FollowerOptions {
  readonly folder: Pick<Folder, 'list' | 'open' | 'remove'>
  /** The files that grow; renamed ones have a dot and milliseconds since the epoch behind them. */
  readonly names: readonly string[]
  /** Moves with each chunk of lines that was taken. */
  readonly position: Position
  /**
   * Called with each whole line, without its end, its file's head, and which file that is or was renamed from; never
   * with an empty one. Must not throw.
   */
  readonly take: (line: string, head: string, name: string) => void
  /** Called when a file has a line that is too long, or is shorter than what was taken of it. Must not throw. */
  readonly onLost?: (head: string) => void
  /** Milliseconds since the epoch. */
  readonly now: () => number
  /** Nothing is taken beyond it. */
  readonly until?: Position
}

/** A file whose lines are taken; it has one. */
interface FollowedFile {
  readonly head: string
  readonly inode: string
  /** Whether it still is one that grows. */
  readonly isCurrent: boolean
  /** Whether no whole line was left when it was read last. */
  readonly isRead: boolean
  /** In bytes, as it was listed last. */
  readonly size: number
}

/**
 * Put at the end of a file of framed lines that was renamed, before any line is in another one: whoever has read
 * it looks for that one at once. For all others it is empty lines.
 */
export const endMark = '\n\n\n\n'
/** Between lines there is one, and at most another one after a torn line. */
const emptyOfMark = 3

interface Followed {
  readonly file: OpenFile
  /** Empty until its first line is there. */
  head: string
  /** As it was listed last. */
  name: string
  /** Which of the files that grow it is, or was renamed from. */
  readonly growing: string
  size: number
  /** Whether the rest of an overlong line is still to come. */
  isSkipping: boolean
  /** How many empty lines were last in what was read. */
  empty: number
  isRead: boolean
  /** Whether there may be more than the last read could take. */
  isFull: boolean
  /** Another file has the same lines, and is longer. */
  isCopy: boolean
  /** Since when it is not in the folder; undefined while it is. */
  absentSince: number | undefined
  isClosed: boolean
}

export type Follower = ReturnType<typeof createFollower>

/** Bytes of one read, and so of the longest line. */
const chunkBytes = 65_536
const lineEnd = 10
/** How long a file that was renamed or removed may still be written: Envoy's threads open lazily. */
const writtenForMs = 60_000
/** Of files that are gone, positions that are kept, should one be put back. */
const maxAbsent = 128

export function createFollower(options: FollowerOptions) {
  const { folder, names, position, take, onLost = () => {}, now, until } = options
  const chunk = Buffer.allocUnsafe(chunkBytes)
  let followed: Followed[] = []
  let isClosed = false
  /** Whether a file has ended since the last look at the folder. */
  let isMarked = false

  /** Opens what is new, and looks at what has changed. */
  function discover(): void {
    isMarked = false
    if (isClosed) return
    // One that is being renamed has two names for a moment, and still is current.
    const byInode = new Map(listLineFiles(folder, names).map((each) => [each.inode, each]))
    for (const one of followed) note(one, byInode.get(one.file.inode))
    followed = followed.filter(keepOrClose)
    const known = new Set(followed.map(({ file }) => file.inode))
    for (const [inode, each] of byInode) if (!known.has(inode)) open(each)
    const heads = new Set<string>()
    for (const one of followed.toSorted((a, b) => b.size - a.size)) {
      const { head, size } = one
      one.isCopy = head !== '' && heads.has(head)
      heads.add(head)
      // An older state of the file: what was appended to it since is not told from what was read.
      if (one.isCopy || (position.get(head) ?? 0) <= size) continue
      position.set(head, size)
      onLost(head)
    }
  }

  function note(one: Followed, listed: LineFile | undefined): void {
    if (listed === undefined) one.absentSince ??= now()
    else {
      one.absentSince = undefined
      one.name = listed.name
    }
    const size = listed?.size ?? one.file.size()
    if (size === one.size) return
    one.size = size
    refreshHead(one)
  }

  function refreshHead(one: Followed): void {
    const head = headIn(chunk.subarray(0, one.file.read(chunk.subarray(0, headBytes), 0)))
    if (head !== one.head) one.isSkipping = false
    one.head = head
    one.isRead = false
  }

  /** Whether its file may still grow. */
  function keepOrClose(one: Followed): boolean {
    const { absentSince } = one
    if (absentSince === undefined || now() - absentSince < writtenForMs) return true
    close(one)
    return false
  }

  function close(one: Followed): void {
    one.isClosed = true
    one.file.close()
  }

  function open({ name, growing, inode }: LineFile): void {
    const file = folder.open(name)
    if (file === undefined) return
    // It was renamed since it was listed, and is found next time.
    if (file.inode !== inode) {
      file.close()
      return
    }
    const one: Followed = {
      file,
      name,
      growing,
      head: '',
      size: file.size(),
      isSkipping: false,
      empty: 0,
      isFull: false,
      isRead: false,
      isCopy: false,
      absentSince: undefined,
      isClosed: false,
    }
    refreshHead(one)
    followed.push(one)
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
    const bytes = file.read(until === undefined ? chunk : upTo(until, head, offset), offset)
    one.isFull = bytes === chunkBytes
    // A Check asks each time, and most of the time there is nothing.
    if (bytes === 0) {
      one.isRead = true
      return 0
    }
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

  function upTo(last: Position, head: string, offset: number): Buffer {
    return chunk.subarray(0, Math.max(0, (last.get(head) ?? 0) - offset))
  }

  /** When it was renamed, in milliseconds since the epoch; undefined: it was not, or is not in the folder. */
  function renamedSince({ name, growing, absentSince }: Followed): number | undefined {
    return absentSince === undefined ? renamedAt(name, growing) : undefined
  }

  /** Whether it may have grown since it was listed. */
  function isLive(one: Followed): boolean {
    return now() - (renamedSince(one) ?? Number.POSITIVE_INFINITY) < writtenForMs
  }

  /** Returns whether it has come to the ends of these. */
  function readUpTo(maxBytes: number, isWanted: (one: Followed) => boolean): boolean {
    let left = maxBytes
    for (;;) {
      for (const one of followed) {
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
      readUpTo(maxBytes, (one) => (only === undefined || one.growing === only) && isLive(one))
    },
    /** Takes what all files have, also new ones, at most about this many bytes; returns whether that is all. */
    catchUp(maxBytes: number): boolean {
      discover()
      return readUpTo(maxBytes, () => true)
    },
    /** What it follows, as of its last look at the folder. */
    files: (): readonly FollowedFile[] =>
      followed.flatMap(({ file: { inode }, head, name, growing, size, absentSince, ...one }) => {
        const isCurrent = name === growing && absentSince === undefined
        return head === '' || one.isCopy
          ? []
          : [{ head, inode, isCurrent, isRead: one.isRead, size }]
      }),
    /** Steps for `inSlices`: takes every whole line that is there. */
    *readAll(): Generator<undefined, void> {
      discover()
      for (const one of [...followed]) {
        while (readChunk(one) > 0) yield
      }
    },
    /** How many bytes are not taken yet, as of the last look at the folder. */
    get unreadBytes(): number {
      let bytes = 0
      for (const { head, isCopy, file } of followed) {
        if (!isCopy) bytes += Math.max(0, file.size() - (position.get(head) ?? 0))
      }
      return bytes
    },
    /**
     * Removes renamed files whose lines are all in what was saved with this position, and that nobody
     * writes any more; of each name the newest `kept` stay. `isDone`: whether other readers are done with one;
     * `newer`: how many there are of its name that were renamed later.
     */
    tidy(
      saved: Position,
      kept: number,
      isDone: (file: Listed, newer: number) => boolean = () => true,
    ): void {
      discover()
      const there = new Set(followed.map(({ head }) => head))
      const renamed = followed
        .filter((one) => renamedSince(one) !== undefined)
        // Of one name all are as long.
        .toSorted((a, b) => (a.name < b.name ? 1 : -1))
      for (const all of Map.groupBy(renamed, ({ growing }) => growing).values()) {
        for (const [newer, one] of all.entries()) if (newer >= kept) removeRead(one, newer)
      }
      const gone = [...position.keys()].filter((head) => !there.has(head))
      for (const head of gone.slice(0, -maxAbsent)) position.delete(head)

      function removeRead(one: Followed, newer: number): void {
        const size = one.file.size()
        const { name, head, file } = one
        // A torn line at its end is nobody's.
        const end = one.isRead ? Math.min(size, position.get(head) ?? 0) : size
        if (isLive(one) || (saved.get(head) ?? 0) < end) return
        if (isDone({ name, inode: file.inode, size }, newer)) folder.remove(name)
      }
    },
    /** Takes nothing any more, also if somebody is reading. */
    close(): void {
      isClosed = true
      for (const one of followed) close(one)
      followed = []
    },
  }
}
