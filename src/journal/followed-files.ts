/** The journal files that a follower reads: discovers them and tracks the state of each. */

import { fileHeadOf, headBytes } from './file-head.ts'
import { rotatedAt } from './journal-files.ts'
import {
  type JournalFolder,
  type LineFile,
  listLineFiles,
  type OpenFile,
} from './journal-folder.ts'

/** Byte offset up to which each file has been read, by its head, which a move or rename does not change. */
export type JournalPosition = Map<string, number>

export interface FollowedFilesOptions {
  readonly folder: Pick<JournalFolder, 'list' | 'open'>
  /** Names of the current files; rotated ones have a dot and milliseconds since the epoch appended. */
  readonly names: readonly string[]
  /** Advances with each chunk of lines taken. */
  readonly position: JournalPosition
  /** Called when a line is too long, or a file is shorter than its position. Must not throw. */
  readonly onLost?: (head: string) => void
  /** Milliseconds since the epoch. */
  readonly now: () => number
}

export type FollowedFile = ReturnType<typeof toFollowed>

export type FollowedFiles = ReturnType<typeof createFollowedFiles>

/** How long a renamed or removed file may still be written: Envoy's threads reopen files lazily. */
const writtenForMs = 60_000
/** Shared by all reads, which are synchronous. */
const beginning = Buffer.allocUnsafe(headBytes)

export function createFollowedFiles(options: FollowedFilesOptions) {
  const { folder, names, position, onLost = () => {}, now } = options
  let followed: FollowedFile[] = []
  let isClosed = false

  function note(one: FollowedFile, listed: LineFile | undefined): void {
    const { name = one.name, isCurrent = false, size = one.file.size() } = listed ?? {}
    one.name = name
    one.isCurrent = isCurrent
    one.absentSince = listed === undefined ? (one.absentSince ?? now()) : undefined
    // A current file may have been emptied, and be as long as before.
    if (size === one.size && !isCurrent) return
    one.size = size
    refreshHead(one)
  }

  /** Closes the file once it can no longer grow; returns whether it stays open. */
  function keepOrClose(one: FollowedFile): boolean {
    const isKept = now() - (one.absentSince ?? now()) < writtenForMs
    if (!isKept) close(one)
    return isKept
  }

  function open(listed: LineFile): void {
    const file = folder.open(listed.name)
    // Renamed since it was listed; the next call finds it.
    if (file?.inode !== listed.inode) {
      file?.close()
      return
    }
    const one = toFollowed(file, listed)
    refreshHead(one)
    followed.push(one)
  }

  return {
    /** The files as of the last `discover`. */
    get all(): readonly FollowedFile[] {
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
    isLive: (one: FollowedFile): boolean =>
      now() - (renamedSince(one) ?? Number.POSITIVE_INFINITY) < writtenForMs,
    /** Closes all files; `discover` then finds none. */
    close(): void {
      isClosed = true
      for (const one of followed) close(one)
      followed = []
    },
  }
}

function toFollowed(file: OpenFile, { name, growing, isCurrent }: LineFile) {
  return {
    file,
    /** Empty until its first line is complete. */
    head: '',
    /** As last listed. */
    name,
    /** Its base name: the name of the current file that it is, or was renamed from. */
    growing,
    /** Whether it still has its base name. */
    isCurrent,
    size: file.size(),
    /** Whether the rest of an overlong line is being skipped. */
    isSkipping: false,
    /** Number of empty lines at the end of what was read. */
    empty: 0,
    /** Whether the last read found no complete line. */
    isRead: false,
    /** Whether the last read filled its buffer, so that there may be more. */
    isFull: false,
    /** Whether a longer file with the same head is followed. */
    isCopy: false,
    /** When it disappeared from the folder, or undefined while it is there. */
    absentSince: undefined as number | undefined,
    isClosed: false,
  }
}

/** Reads the head of the file again: one that was emptied has another head, or none yet. */
export function refreshHead(one: FollowedFile): void {
  const head = fileHeadOf(beginning.subarray(0, one.file.read(beginning, 0)))
  if (head !== one.head) one.isSkipping = false
  one.head = head
  one.isRead = false
}

/** When it was renamed, in milliseconds since the epoch, or undefined if it is current or absent. */
export function renamedSince({ name, growing, absentSince }: FollowedFile): number | undefined {
  return absentSince === undefined ? rotatedAt(name, growing) : undefined
}

function close(one: FollowedFile): void {
  one.isClosed = true
  one.file.close()
}
