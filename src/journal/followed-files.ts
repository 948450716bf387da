/** The files with a gateway's lines that are followed: which there are, and what each of them is now. */

import { renamedAt } from './files.ts'
import { type Folder, type LineFile, listLineFiles, type OpenFile } from './folder.ts'
import { headBytes, headIn } from './head.ts'

/** How far each file was taken, in bytes, by its head: wherever it is moved, and whichever it was renamed from. */
export type Position = Map<string, number>

export interface FollowedFilesOptions {
  readonly folder: Pick<Folder, 'list' | 'open'>
  /** The files that grow; renamed ones have a dot and milliseconds since the epoch behind them. */
  readonly names: readonly string[]
  /** Moves with each chunk of lines that was taken. */
  readonly position: Position
  /** Called when a file has a line that is too long, or is shorter than what was taken of it. Must not throw. */
  readonly onLost?: (head: string) => void
  /** Milliseconds since the epoch. */
  readonly now: () => number
}

export interface Followed {
  readonly file: OpenFile
  /** Empty until its first line is there. */
  head: string
  /** As it was listed last. */
  name: string
  /** Which of the files that grow it is, or was renamed from. */
  readonly growing: string
  /** Whether it still is one that grows. */
  isCurrent: boolean
  size: number
  /** Whether the rest of an overlong line is still to come. */
  isSkipping: boolean
  /** How many empty lines were last in what was read. */
  empty: number
  /** Whether no whole line was left when it was read last. */
  isRead: boolean
  /** Whether there may be more than the last read could take. */
  isFull: boolean
  /** Another file has the same lines, and is longer. */
  isCopy: boolean
  /** Since when it is not in the folder; undefined while it is. */
  absentSince: number | undefined
  isClosed: boolean
}

export type FollowedFiles = ReturnType<typeof createFollowedFiles>

/** How long a file that was renamed or removed may still be written: Envoy's threads open lazily. */
const writtenForMs = 60_000
/** For one read at a time. */
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

  /** Whether its file may still grow. */
  function keepOrClose(one: Followed): boolean {
    const isKept = now() - (one.absentSince ?? now()) < writtenForMs
    if (!isKept) close(one)
    return isKept
  }

  function open({ name, growing, isCurrent, inode }: LineFile): void {
    const file = folder.open(name)
    // It was renamed since it was listed, and is found next time.
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
    /** As of the last look at the folder. */
    get all(): readonly Followed[] {
      return followed
    },
    /** Opens what is new, and looks at what has changed. */
    discover(): void {
      if (isClosed) return
      // One that is being renamed has two names for a moment, and still is current.
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
        // An older state of the file: what was appended to it since is not told from what was read.
        if (one.isCopy || (position.get(head) ?? 0) <= size) continue
        position.set(head, size)
        onLost(head)
      }
    },
    /** Whether it may have grown since it was listed. */
    isLive: (one: Followed): boolean =>
      now() - (renamedSince(one) ?? Number.POSITIVE_INFINITY) < writtenForMs,
    /** Finds nothing any more. */
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

/** When it was renamed, in milliseconds since the epoch; undefined: it was not, or is not in the folder. */
export function renamedSince({ name, growing, absentSince }: Followed): number | undefined {
  return absentSince === undefined ? renamedAt(name, growing) : undefined
}

function close(one: Followed): void {
  one.isClosed = true
  one.file.close()
}
