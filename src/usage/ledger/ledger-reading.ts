/** Reads the lines after a position of the ledger, and sums them for the ledger. Writes nothing. */

import { renamedSince } from '../../journal/followed-files.ts'
import { createJournalFollower } from '../../journal/follower.ts'
import type { JournalFolder } from '../../journal/journal-folder.ts'
import { isAfterTorn, parseJournalLine } from '../../journal/journal-line.ts'
import type { UnusableUsage } from '../rules/usage.ts'
import type { LedgerPlace, UsageGap } from '../store.ts'
import type { SourceNames } from './journal-files.ts'
import { createLimitSums } from './limit-sums.ts'
import { createFilePlaces, type FilePlace } from './places.ts'
import { createUsageSums } from './sums.ts'

export interface LedgerReadingOptions {
  /** The folder that the gateway shares with the service. */
  readonly folder: Pick<JournalFolder, 'list' | 'open' | 'remove'>
  readonly names: SourceNames
  readonly unusableUsage: UnusableUsage
  /** Milliseconds since the epoch. */
  readonly clock: () => number
  /** A monotonic clock in milliseconds. */
  readonly monotonic: () => number
  /** Called for each gap. */
  readonly onGap: (gap: UsageGap) => void
}

/** Maximum numbers of rows, and of lines, of one statement. */
const maxRows = 2_000
const maxLines = 20_000
/** Maximum number of gaps in one statement; further ones are joined with the last one. */
const maxGaps = 100
/** A response that ends later than this after now is dated back: the clocks of gateway and service may differ. */
const aheadMs = 24 * 3_600_000

export type LedgerReading = ReturnType<typeof createLedgerReading>

/** `stored`: the ledger's position; `isRestored`: it is from a backup, and files that began after it are gone. */
export function createLedgerReading(
  options: LedgerReadingOptions,
  stored: readonly LedgerPlace[],
  isRestored = false,
) {
  const { folder, names, unusableUsage, clock, monotonic } = options
  const sums = createUsageSums()
  const limits = createLimitSums()
  const places = createFilePlaces(stored, clock)
  const { position } = places
  let isLacking = isRestored
  let gaps: UsageGap[] = []
  /** The end of the first response in files that were read from their start, by base name. */
  const begunAt = new Map<string, number>()
  let lines = 0
  /** Whether the state of a file has changed, other than by lines or gaps. */
  let isChanged = false
  const follower = createJournalFollower({
    folder,
    names: [names.script, names.envoy],
    position,
    now: clock,
    onLine: (line, head, name) => add(line, placeOf(head), name),
    onLost: (head) => noteLost(placeOf(head)),
  })

  function placeOf(head: string): FilePlace {
    return places.of(head, () => {
      const one = follower.files().find((each) => each.head === head)
      return one && renamedSince(one)
    })
  }

  function add(text: string, place: FilePlace, name: string): void {
    lines += 1
    if (place.isReadBefore) return
    const line = parseJournalLine(text, unusableUsage)
    if (line === undefined ? !isRetold(text, name) : isAfterTorn(text)) noteLost(place)
    if (line === undefined) return
    const endedAt = Math.min(line.usage.response.endedAt, clock() + aheadMs)
    endGap(place, endedAt)
    if (place.endedAt === null) begunAt.set(name, Math.min(begunAt.get(name) ?? endedAt, endedAt))
    place.endedAt = endedAt
    if (line.charge !== undefined) sums.add(line.usage, line.charge, endedAt)
    limits.add(line, endedAt)
  }

  /** Whether the gateway's script wrote only a part of the line, which is then in Envoy's own log. */
  function isRetold(text: string, name: string): boolean {
    return name === names.script && text.startsWith('{"v"') && !text.endsWith('}')
  }

  /** A part of a file can't be read, or is gone. */
  function noteLost(place: FilePlace): void {
    if (place.isReadBefore) return
    place.gapFrom ??= place.endedAt ?? clock()
    isChanged = true
  }

  function endGap(place: FilePlace, at: number): void {
    if (place.gapFrom !== undefined) noteGap(place.gapFrom, at)
    place.gapFrom = undefined
  }

  function noteGap(from: number, to: number): void {
    const gap = { from, to: Math.max(from, to) }
    options.onGap(gap)
    const last = gaps.length < maxGaps ? gap : (gaps.pop() ?? gap)
    gaps.push({ from: Math.min(last.from, gap.from), to: Math.max(last.to, gap.to) })
  }

  /** When the successor of a file that ended at `endedAt` began, or now if none was read. */
  function nextAfter(endedAt: number): number {
    const begun = Math.max(...begunAt.values())
    return begun >= endedAt ? begun : clock()
  }

  /** From the end of the position to the first line that is left. */
  function noteLacking(): void {
    const begun = begunAt.size === 0 ? clock() : Math.min(...begunAt.values())
    const ended = stored.flatMap(({ endedAt }) => endedAt ?? [])
    noteGap(ended.length === 0 ? begun : Math.max(...ended), begun)
    isLacking = false
  }

  return {
    /** Steps for `inSlices`: reads all complete lines, and feeds them whenever they suffice for a statement. */
    *readAll(feed: () => Promise<void>): Generator<Promise<void> | undefined, void> {
      for (const _ of follower.readAll()) {
        const isFull = sums.size + limits.size >= maxRows || lines >= maxLines
        yield isFull ? feed() : undefined
      }
    },
    /** Notes which files are complete, and finds missing ones of which lines may not have been read. */
    findLost(): void {
      const present = follower.files()
      if (places.noteComplete(present)) isChanged = true
      for (const { endedAt } of places.findGone(present, monotonic())) {
        isChanged = true
        noteGap(endedAt ?? clock(), nextAfter(endedAt ?? clock()))
      }
      if (isLacking) noteLacking()
    },
    /** Whether something was read that the ledger lacks. */
    get isChanged(): boolean {
      return isChanged || lines > 0 || gaps.length > 0
    },
    /** The offsets up to which the lines of present files are read, by inode. */
    offsets(): ReadonlyMap<string, number> {
      // Without removed files, which are read for a while because others may still write to them.
      const present = follower.files().filter(({ absentSince }) => absentSince === undefined)
      return new Map(
        present.map(({ file: { inode }, head, isRead, isCurrent, size }) => {
          // A torn line at the end of a file that is no longer written is never completed.
          return [inode, isRead && !isCurrent ? size : (position.get(head) ?? 0)]
        }),
      )
    },
    /** Returns the sums for the ledger, and starts new ones. */
    drain() {
      for (const place of places.all()) endGap(place, clock())
      const drained = {
        places: places.toStored(),
        rows: sums.drain(),
        limits: limits.drain(),
        gaps,
      }
      isChanged = false
      lines = 0
      gaps = []
      return drained
    },
    close: follower.close,
  }
}
