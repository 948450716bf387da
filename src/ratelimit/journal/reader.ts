/**
 * Reads a usage journal: all its files, in order, from the last position. What it reads is settled
 * as if the stream had reported it; the counters recognize what they have counted before.
 */

import { type JournaledCounters, minRememberedMs, rememberedMs } from '../../store/counters.ts'
import type { Settle } from '../settle.ts'
import { type JournalFile, openJournalFile, type Place } from './file.ts'
import { type ListedFile, listJournal } from './folder.ts'
import { type JournaledUsage, parseLine } from './line.ts'
import { loadPosition, removeDrafts, savePosition } from './position.ts'

export interface JournalReaderOptions {
  /** The file that Envoy writes. */
  readonly path: string
  readonly settle: Settle
  readonly counters: Pick<JournaledCounters, 'kept' | 'forgetReports'>
  /**
   * Whether the counters outlive this process: reading then continues at the saved position.
   * Otherwise counters start empty, and the whole existing journal is read.
   */
  readonly lasting: boolean
  /** Milliseconds since the epoch. */
  readonly clock: () => number
  /** Whether this process still holds the claim; checked before each step that others would see. */
  readonly mayRead: () => boolean
  /** Called once for each kind of problem with lines. */
  readonly onProblem: (problem: string) => void
}

/** The state of the reader. Counts are those of this process. */
export interface JournalStats {
  /** Lines read, and how many of them were not settled. */
  readonly lines: number
  readonly skipped: number
  /** Bytes that were unread when this process last read; see `countUnread`. */
  readonly unreadBytes: number
}

export type JournalReader = ReturnType<typeof createJournalReader>

/** Lines between two points at which the reader waits for the counters and saves the position. */
const batchLines = 1_000
/**
 * A line may be this much older than another when it is read, because of Envoy's flush interval (10
 * s by default) or a hanging process. Responses are remembered for this long at least.
 */
const latenessMs = minRememberedMs + 10_000
const forgetEveryMs = 60_000
/** A file that was moved elsewhere is followed until it has not grown for this long. */
const movedForMs = 10_000

/** A file that the reader follows. */
interface Followed {
  readonly file: JournalFile
  /** Offset up to which the counters have stored everything. */
  kept: number
  /** When it last grew, or was last in the folder. */
  seenAt: number
}

/** A reader. Calls of `readAll` and `reset` must not overlap. */
export function createJournalReader(options: JournalReaderOptions) {
  const { path, settle, counters, lasting, clock, mayRead } = options
  let followed: Followed[] = []
  let places: readonly Place[] | undefined
  let loadedAt = Number.NEGATIVE_INFINITY
  /** The inodes of files opened since then. */
  const opened = new Set<string>()
  let forgottenBefore = Number.NEGATIVE_INFINITY
  let newestEnd = Number.NEGATIVE_INFINITY
  let lines = 0
  let skipped = 0
  let sinceKept = 0
  let savedAs = ''
  let forgotAt = clock()
  const logged = new Set<string>()

  function skip(why: string): void {
    skipped += 1
    if (logged.has(why)) return
    logged.add(why)
    options.onProblem(why)
  }

  function load(): void {
    if (places !== undefined) return
    const position = lasting ? loadPosition(path) : undefined
    places = position?.places ?? []
    loadedAt = clock()
    opened.clear()
    if (!lasting) return
    removeDrafts(path, Date.now())
    forgottenBefore = position?.forgottenBefore ?? clock() - latenessMs
    savedAs = ''
  }

  /** Opens new files, and drops those that are gone. */
  async function discover(): Promise<void> {
    const listed = await listJournal(path)
    const inodes = listed.map(({ inode }) => inode)
    for (const each of listed) {
      if (followed.some(({ file }) => file.inode === each.inode)) continue
      const file = await openJournalFile(each.path, places).catch(() => undefined)
      // Renamed meanwhile; the next call finds it.
      if (file === undefined) continue
      if (file.inode !== each.inode) {
        await file.close()
        continue
      }
      opened.add(file.inode)
      followed.push({ file, kept: file.place.offset, seenAt: clock() })
    }
    const now = clock()
    for (const each of [...followed]) {
      const isThere = inodes.includes(each.file.inode)
      if (isThere || each.file.unread > 0) each.seenAt = now
      else if (now - each.seenAt > movedForMs) await leave(each)
    }
    const rank = ({ file }: Followed): number => inodes.indexOf(file.inode)
    followed.sort((a, b) => rank(a) - rank(b))
  }

  async function leave(one: Followed): Promise<void> {
    followed = followed.filter((each) => each !== one)
    await one.file.close()
  }

  async function read(file: JournalFile): Promise<void> {
    await file.refresh()
    do {
      const { overlong } = file
      for (const line of await file.next()) take(line)
      if (file.overlong > overlong) skip('a line is too long to be one')
      if (sinceKept >= batchLines) await keep()
    } while (!file.atEnd && mayRead())
  }

  function take(line: string): void {
    lines += 1
    sinceKept += 1
    const usages = parseLine(line)
    if (usages.length === 0) skip('a line is not of the form that Envoy writes')
    for (const usage of usages) {
      const why = tooOld(usage)
      if (why !== undefined) {
        skip(why)
        continue
      }
      newestEnd = Math.max(newestEnd, usage.response.endedAt)
      settle(usage, 'journal')
    }
  }

  function tooOld({ response: { endedAt } }: JournaledUsage): string | undefined {
    // A clock that is behind what was forgotten has stepped back; what has just ended is new then.
    const since = Math.min(forgottenBefore, clock() - latenessMs)
    if (endedAt < since) return 'a line tells of a time that may have been counted before'
    if (!lasting || clock() - endedAt < rememberedMs) return undefined
    return 'a line tells of a response that ended more than a day ago'
  }

  /** Waits until everything read is stored by the counters, and records the position. */
  async function keep(): Promise<void> {
    const offsets = followed.map(({ file }) => file.place.offset)
    if (sinceKept > 0) await counters.kept()
    if (!mayRead()) return
    sinceKept = 0
    followed.forEach((each, i) => {
      each.kept = offsets[i] as number
    })
    save()
  }

  /** Saved places of files that no listing has shown yet, perhaps because they were being renamed. */
  function unopened(): readonly Place[] {
    if (places === undefined || clock() - loadedAt > movedForMs) return []
    return places.filter(({ inode }) => !opened.has(inode))
  }

  function save(): void {
    if (!lasting) return
    const known = [...followed.map(({ file }) => file.place), ...unopened()]
    const position = { places: known, forgottenBefore }
    const text = JSON.stringify(position)
    if (text === savedAs) return
    savePosition(path, position)
    savedAs = text
  }

  /** Once a file is read to its end, it reports no more old responses. */
  async function forget(): Promise<void> {
    const now = clock()
    if (Math.abs(now - forgotAt) < forgetEveryMs) return
    forgotAt = now
    // By Envoy's clock, which may be behind ours, or may have reported nothing for long.
    const before = Math.min(now, newestEnd) - latenessMs
    if (!(before > forgottenBefore)) return
    // Saved first: a response that the counters have forgotten must never be counted again.
    forgottenBefore = before
    save()
    await counters.forgetReports(forgottenBefore)
  }

  return {
    get stats(): JournalStats {
      const unreadBytes = followed.reduce((sum, { file }) => sum + file.unread, 0)
      return { lines, skipped, unreadBytes }
    },
    /**
     * Reads to the end of every file. If `mayRead` becomes false, resolves early, with its progress
     * recorded. Rejects if the counters have been stopped.
     */
    async readAll(): Promise<void> {
      load()
      await discover()
      for (const { file } of [...followed]) {
        await read(file)
        if (!mayRead()) return
      }
      await keep()
      if (mayRead()) await forget()
    },
    /**
     * Bytes that nobody has read, or that the counters have not stored, whichever process reads;
     * while none does, all that is written counts.
     */
    async countUnread(): Promise<number> {
      const read = lasting ? loadPosition(path)?.places : followed.map(({ file }) => file.place)
      const offsets = new Map(read?.map(({ inode, offset }) => [inode, offset]))
      let unread = 0
      for (const { inode, size } of await listJournal(path)) {
        unread += Math.max(0, size - (offsets.get(inode) ?? 0))
      }
      return unread
    },
    /** Whether the file was read to its end, and the counters have stored all of it. */
    isDone({ inode, size }: ListedFile): boolean {
      const one = followed.find(({ file }) => file.inode === inode)
      return one?.file.atEnd === true && one.kept + one.file.unread >= size
    },
    /** Discards its position; the next `readAll` starts at the saved one. */
    async reset(): Promise<void> {
      places = undefined
      const files = followed
      followed = []
      sinceKept = 0
      for (const { file } of files) await file.close()
    },
  }
}
