/** The journal files that a follower reads: discovers them and tracks the state of each. */

import { renamedAt } from './files.ts'
import { type Folder, type LineFile, listLineFiles, type OpenFile } from './folder.ts'
import { headBytes, headIn } from './head.ts'

/** Byte offset up to which each file has been read, by its head, which a move or rename does not change. */
export type Position = Map<string, number>

export interface FollowedFilesOptions {
  readonly folder: Pick<Folder, 'list' | 'open'>
  /** Names of the current files; rotated ones have a dot and milliseconds since the epoch appended. */
  readonly names: readonly string[]
  /** Advances with each chunk of lines taken. */
  readonly position: Position
  /** Called when a line is too long, or a file is shorter than its position. Must not throw. */
  readonly onLost?: (head: string) => void
  /** Milliseconds since the epoch. */
  readonly now: () => number
}

export interface Followed {
  readonly file: OpenFile
  /** Empty until its first line is complete. */
  head: string
  /** As last listed. */
  name: string
  /** Its base name: the name of the current file that it is, or was renamed from. */
  readonly growing: string
  /** Whether it still has its base name. */
  isCurrent: boolean
  size: number
  /** Whether the rest of an overlong line is being skipped. */
  isSkipping: boolean
  /** Number of empty lines at the end of what was read. */
  empty: number
  /** Whether the last read found no complete line. */
  isRead: boolean
  /** Whether the last read filled its buffer, so that there may be more. */
  isFull: boolean
  /** Whether a longer file with the same head is followed. */
  isCopy: boolean
  /** When it disappeared from the folder, or undefined while it is there. */
  absentSince: number | undefined
  isClosed: boolean
}

export type FollowedFiles = ReturnType<typeof createFollowedFiles>

/** How long a renamed or removed file may still be written: Envoy's threads reopen files lazily. */
const writtenForMs = 60_000
/** Shared by all reads, which are synchronous. */
const beginning = Buffer.allocUnsafe(headBytes)

export function createFollowedFiles(options: FollowedFilesOptions) {
  const { folder, names, position, onLost = () => {}, now } = options
  let followed: Followed[] = []
  let isClosed = false

  function note(one: Followed, listed: LineFile | undefined): void {
    const { name = one.name, isCurrent = false, size = one.file.size() } = listed ?? {}
    one.name = name
    one.isCurrent = isCurrent
    one.absentSince = listed === undefined ? (one.absentSince ?? now()) : undefined
    if (size === one.size) return
    one.size = size
    refreshHead(one)
  }

  /** Closes the file once it can no longer grow; returns whether it stays open. */
  function keepOrClose(one: Followed): boolean {
    const isKept = now() - (one.absentSince ?? now()) < writtenForMs
    if (!isKept) close(one)
    return isKept
  }

  function open({ name, growing, isCurrent, inode }: LineFile): void {
    const file = folder.open(name)
    // Renamed since it was listed; the next call finds it.
    if (file?.inode !== inode) {
      file?.close()
      return
    }
    const one: Followed = {
      ...{ file, name, growing, isCurrent, head: '', size: file.size(), empty: 0 },
      ...{ isSkipping: false, isFull: false, isRead: false, isCopy: false, isClosed: false },
      absentSince: undefined,
    }
    refreshHead(one)
    followed.push(one)
  }

  return {
    /** The files as of the last `discover`. */
    get all(): readonly Followed[] {
      return followed
    },
    /** Lists the folder, opens new files and refreshes changed ones. */
    discover(): void {
      if (isClosed) return
      // A file that is being renamed has two names for a moment; its base name wins.
      const byInode = new Map(listLineFiles(folder, names).map((each) => [each.inode, each]))
      for (const one of followed) note(one, byInode.get(one.file.inode))
      followed = followed.filter(keepOrClose)
      for (const { file } of followed) byInode.delete(file.inode)
      for (const each of byInode.values()) open(each)
      const heads = new Set<string>()
      for (const one of followed.toSorted((a, b) => b.size - a.size)) {
        const { head, size } = one
        one.isCopy = head !== '' && heads.has(head)
        heads.add(head)
        // The file was restored to an older state: lines appended since can't be told from lines already read, so all
        // are skipped.
        if (one.isCopy || (position.get(head) ?? 0) <= size) continue
        position.set(head, size)
        onLost(head)
      }
    },
    /** Whether it may still be written: it is current, absent, or was renamed less than a minute ago. */
    isLive: (one: Followed): boolean =>
      now() - (renamedSince(one) ?? Number.POSITIVE_INFINITY) < writtenForMs,
    /** Closes all files; `discover` then finds none. */
    close(): void {
      isClosed = true
      for (const one of followed) close(one)
      followed = []
    },
  }
}

export function refreshHead(one: Followed): void {
  const head = headIn(beginning.subarray(0, one.file.read(beginning, 0)))
  if (head !== one.head) one.isSkipping = false
  one.head = head
  one.isRead = false
}

/** When it was renamed, in milliseconds since the epoch, or undefined if it is current or absent. */
export function renamedSince({ name, growing, absentSince }: Followed): number | undefined {
  return absentSince === undefined ? renamedAt(name, growing) : undefined
}

function close(one: Followed): void {
  one.isClosed = true
  one.file.close()
}
