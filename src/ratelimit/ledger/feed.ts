/**
 * Feeds the usage ledger from the usage journal. The position is in the database and moves together
 * with the sums, so each line is added exactly once, however often this process, another reader or
 * the database fails. What was lost before it was read is recorded as a gap.
 */

import { open as openFile } from 'node:fs/promises'
import type { UnusableUsage } from '../../core/decision/usage.ts'
import type { LedgerPlace, UsageGap, UsageLedger } from '../../store/usage.ts'
import { type JournalFile, openJournalFile, readHead } from '../journal/file.ts'
import { type ListedFile, listJournal } from '../journal/folder.ts'
import { readLine } from '../journal/line.ts'
import { createUsageSums } from './sums.ts'

export interface LedgerFeedOptions {
  /** The file that Envoy writes. */
  readonly path: string
  /** The name of the journal, the same for every process that sees the file. */
  readonly journal: string
  readonly ledger: Pick<UsageLedger, 'open' | 'feed'>
  readonly unusableUsage: UnusableUsage
  /** Milliseconds since the epoch. */
  readonly clock: () => number
  /** A monotonic clock in milliseconds. */
  readonly monotonic: () => number
  /** Called for each gap. */
  readonly onGap: (gap: UsageGap) => void
}

/** The most that one statement adds. */
const maxRows = 2_000
const maxLines = 20_000
/** Gaps of one statement; further ones are joined. */
const maxGaps = 100
/** A file that was moved elsewhere is followed, or waited for, this long. */
const movedForMs = 10_000
/** How often the database is told that the journal is still read. */
const seenEveryMs = 60_000
/** No response ends later than this after now; the clocks of gateway and service may differ. */
const aheadMs = 24 * 3_600_000

interface Followed {
  readonly file: JournalFile
  readonly head: string
  /** Whether it may grow. */
  isCurrent: boolean
  /** In monotonic time; undefined while it is in the folder. */
  absentSince: number | undefined
}

type Place = { -readonly [Key in keyof LedgerPlace]: LedgerPlace[Key] }

/** Calls of `step` and `reset` must not overlap. */
export function createLedgerFeed(options: LedgerFeedOptions) {
  const { path, journal, ledger, clock, monotonic, onGap } = options
  const sums = createUsageSums(options.unusableUsage)
  /** undefined: the position must be read. */
  let revision: number | undefined
  /** By the head of the file. */
  const places = new Map<string, Place>()
  let followed: Followed[] = []
  /** In monotonic time, by head. */
  const missingSince = new Map<string, number>()
  /** Offsets that the database has, by inode. */
  const stored = new Map<string, number>()
  let gaps: UsageGap[] = []
  /** Set after lines that cannot be read, until one can. */
  let gapFrom: number | undefined
  /** When the first response ended of a file that was read from its start. */
  let begunAt: number | undefined
  let lines = 0
  let changed = false
  let fedAt = Number.NEGATIVE_INFINITY

  async function open(): Promise<void> {
    if (revision !== undefined) return
    const position = await ledger.open(journal)
    revision = position.revision
    for (const place of position.places) places.set(place.head, { ...place })
  }

  /** Forgets everything since the last successful step. */
  async function reset(): Promise<void> {
    revision = undefined
    places.clear()
    missingSince.clear()
    sums.take()
    gaps = []
    gapFrom = undefined
    begunAt = undefined
    lines = 0
    changed = false
    const files = followed
    followed = []
    for (const { file } of files) await file.close()
  }

  async function discover(): Promise<void> {
    const listed = await listJournal(path)
    const now = monotonic()
    for (const each of listed) {
      const known = followed.find(({ file }) => file.inode === each.inode)
      const one = known ?? (await follow(each))
      if (one === undefined) continue
      one.absentSince = undefined
      one.isCurrent = each.path === path
    }
    for (const one of [...followed]) {
      if (listed.some(({ inode }) => inode === one.file.inode)) continue
      one.absentSince ??= now
      if (now - one.absentSince <= movedForMs || !one.file.atEnd) continue
      // Read to its end, wherever it is now.
      placeOf(one).done = true
      await leave(one)
    }
    const rank = ({ file }: Followed) => listed.findIndex(({ inode }) => inode === file.inode)
    followed.sort((a, b) => rank(a) - rank(b))
  }

  /** Opens a file at its place; undefined: it has no line yet, is gone, or is a copy. */
  async function follow({ path: at, inode, size }: ListedFile): Promise<Followed | undefined> {
    const isOpen = (head: string) => followed.some((each) => each.head === head)
    const head = await headOf(at, (first) => places.has(first) && !isOpen(first))
    if (head === '' || isOpen(head)) return undefined
    let place = places.get(head)
    if (place === undefined) {
      place = { head, offset: 0, endedAt: null, done: false }
      places.set(head, place)
      changed = true
    } else if (place.offset > size) {
      // An older state of the file: what was appended to it since is not told from what was read.
      noteGap(place.endedAt ?? clock(), clock())
      place.offset = size
    }
    const file = await openJournalFile(at, [{ inode, offset: place.offset, head }])
    const one = { file, head, isCurrent: at === path, absentSince: undefined }
    if (file.inode === inode) followed.push(one)
    else await file.close()
    return file.inode === inode ? one : undefined
  }

  async function leave(one: Followed): Promise<void> {
    followed = followed.filter((each) => each !== one)
    await one.file.close()
  }

  function placeOf({ head }: Followed): Place {
    return places.get(head) as Place
  }

  async function read(one: Followed): Promise<void> {
    const { file, head } = one
    const place = placeOf(one)
    await file.refresh()
    // Truncated or rewritten: it is opened again under its new head.
    if (file.place.head !== head || file.place.offset < place.offset) return await leave(one)
    do {
      const { overlong } = file
      for (const line of await file.next()) take(line, place)
      if (file.overlong > overlong) gapFrom ??= place.endedAt ?? clock()
      if (file.place.offset !== place.offset) changed = true
      place.offset = file.place.offset
      if (sums.size >= maxRows || lines >= maxLines) await feed(false)
    } while (!file.atEnd)
    const done = !one.isCurrent
    if (place.done !== done) changed = true
    place.done = done
  }

  function take(line: string, place: Place): void {
    lines += 1
    const { usages, isWhole } = readLine(line)
    const now = clock()
    if (!isWhole) gapFrom ??= place.endedAt ?? now
    for (const usage of usages) {
      const endedAt = Math.min(usage.response.endedAt, now + aheadMs)
      if (gapFrom !== undefined) noteGap(gapFrom, endedAt)
      gapFrom = undefined
      sums.add(usage, endedAt)
      if (place.endedAt === null) begunAt = Math.min(begunAt ?? endedAt, endedAt)
      place.endedAt = endedAt
    }
    if (usages.length === 0) gapFrom ??= place.endedAt ?? now
  }

  function noteGap(from: number, to: number): void {
    const gap = { from, to: Math.max(from, to) }
    onGap(gap)
    changed = true
    const last = gaps.at(-1)
    if (last === undefined || gaps.length < maxGaps) gaps.push(gap)
    else {
      const joined = { from: Math.min(last.from, gap.from), to: Math.max(last.to, gap.to) }
      gaps[gaps.length - 1] = joined
    }
  }

  /** Files of which more may have been written than was read, and that are gone. */
  function findLost(): void {
    const now = monotonic()
    for (const [head, { done, endedAt }] of places) {
      const isThere = followed.some((each) => each.head === head)
      const since = isThere ? now : (missingSince.get(head) ?? now)
      missingSince.set(head, since)
      if (now - since <= movedForMs) continue
      missingSince.delete(head)
      places.delete(head)
      changed = true
      const from = endedAt ?? clock()
      if (!done) noteGap(from, begunAt !== undefined && begunAt >= from ? begunAt : clock())
    }
  }

  async function feed(closes: boolean): Promise<void> {
    if (gapFrom !== undefined) noteGap(gapFrom, clock())
    gapFrom = undefined
    const offsets = followed.map((one) => [one.file.inode, placeOf(one).offset] as const)
    const step = { journal, revision: revision ?? 0, places: [...places.values()], gaps, closes }
    const isOurs = await ledger.feed({ ...step, rows: sums.take() })
    if (!isOurs) throw new OtherReader()
    revision = step.revision + 1
    gaps = []
    lines = 0
    changed = false
    fedAt = monotonic()
    for (const [inode, offset] of offsets) stored.set(inode, offset)
  }

  async function run(closes: boolean): Promise<void> {
    await open()
    await discover()
    for (const one of [...followed]) await read(one)
    findLost()
    if (changed || closes || monotonic() - fedAt >= seenEveryMs) await feed(closes)
  }

  return {
    /**
     * Adds what has been written since the last step. `closes`: it is the last one of this process.
     * Rejects if the ledger is unavailable; the next step begins at the position that it has.
     */
    async step(closes = false): Promise<void> {
      try {
        await run(closes)
      } catch (error) {
        await reset()
        // It has added the same lines; the next step continues after them.
        if (!(error instanceof OtherReader)) throw error
      }
    },
    /** Whether the ledger has everything in this file. */
    isDone: ({ inode, size }: ListedFile): boolean => (stored.get(inode) ?? -1) >= size,
    /** Closes its files; the next step reads the position anew. */
    reset,
  }
}

/** Another reader has moved the position. */
class OtherReader extends Error {}

/** Empty if its first line is not there yet, or no file. */
async function headOf(path: string, isKnown: (head: string) => boolean): Promise<string> {
  const handle = await openFile(path).catch(() => undefined)
  try {
    return handle === undefined ? '' : await readHead(handle, isKnown)
  } finally {
    await handle?.close()
  }
}
