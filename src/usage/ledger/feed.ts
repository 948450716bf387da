/**
 * Feeds the usage ledger from the lines of a journal. The position is in the database and moves in one statement with
 * the sums, so each line is added exactly once, however often this process, another reader or the database fails. What
 * was lost before it was read is recorded as a gap.
 */

import type { Folder, Listed } from '../../journal/folder.ts'
import { createFollower, type Follower, type Position } from '../../journal/follower.ts'
import { headFromLedger } from '../../journal/head.ts'
import { isAfterTorn, readLine } from '../../journal/read-line.ts'
import { inSlices } from '../../runtime/slices.ts'
import type { UnusableUsage } from '../rules/usage.ts'
import type { UsageGap, UsageLedger } from '../store.ts'
import type { SourceNames } from './journal-files.ts'
import { createLimitSums } from './limit-sums.ts'
import { createUsageSums } from './sums.ts'

export interface LedgerFeedOptions {
  /** The folder that the gateway shares with the service. */
  readonly folder: Pick<Folder, 'list' | 'open' | 'remove'>
  readonly names: SourceNames
  /** The name of the journal, the same for every process that sees the folder. */
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

/** Maximum of one statement. */
const maxRows = 2_000
const maxLines = 20_000
/** Maximum number of gaps in one statement; further ones are merged. */
const maxGaps = 100
/** How long a missing file is waited for: it may be being moved. */
const movedForMs = 10_000
/** How often the database records that the journal is still read. */
const seenEveryMs = 60_000
/** A response that ends later than this after now is dated back: the clocks of gateway and service may differ. */
const aheadMs = 24 * 3_600_000

/** The state of a file besides its position. */
interface Place {
  /** End of its last line, in milliseconds since the epoch; null: it has none. */
  endedAt: number | null
  /** Whether it is complete and was read to its end. */
  done: boolean
  /** The start of a gap: set by an unreadable part, until a line can be read again. */
  gapFrom: number | undefined
}

/** Calls of `step` and `reset` must not overlap. */
export function createLedgerFeed(options: LedgerFeedOptions) {
  const { folder, names, journal, ledger, unusableUsage, clock, monotonic, onGap } = options
  const sums = createUsageSums()
  const limits = createLimitSums()
  /** undefined: the position must be read from the database. */
  let revision: number | undefined
  /** By head, as the position. */
  const places = new Map<string, Place>()
  const position: Position = new Map()
  let follower: Follower | undefined
  /** Since when a file is missing, in monotonic time, by head. */
  const missingSince = new Map<string, number>()
  /** Offsets that are in the database, by inode. */
  let stored = new Map<string, number>()
  let gaps: UsageGap[] = []
  /** When the first response ended of files that were read from their start, by base name. */
  const begunAt = new Map<string, number>()
  let lines = 0
  let changed = false
  let fedAt = Number.NEGATIVE_INFINITY

  async function open(): Promise<void> {
    if (revision !== undefined) return
    const found = await ledger.open(journal)
    for (const { head: known, offset, endedAt, done } of found.places) {
      const head = headFromLedger(known)
      places.set(head, { endedAt, done, gapFrom: undefined })
      position.set(head, offset)
    }
    follower = createFollower({
      folder,
      names: [names.script, names.envoy],
      position,
      now: clock,
      take: (line, head, name) => take(line, placeOf(head), name),
      onLost: (head) => noteLost(placeOf(head)),
    })
    revision = found.revision
  }

  /** Forgets everything since the last successful step. */
  function reset(): void {
    revision = undefined
    follower?.close()
    follower = undefined
    places.clear()
    position.clear()
    missingSince.clear()
    sums.take()
    limits.take()
    gaps = []
    begunAt.clear()
    lines = 0
    changed = false
  }

  function placeOf(head: string): Place {
    const known = places.get(head)
    if (known !== undefined) return known
    const place = { endedAt: null, done: false, gapFrom: undefined }
    places.set(head, place)
    return place
  }

  function take(text: string, place: Place, name: string): void {
    lines += 1
    changed = true
    const line = readLine(text, unusableUsage)
    if (line === undefined ? !isRetold(text, name) : isAfterTorn(text)) noteLost(place)
    if (line === undefined) return
    const endedAt = Math.min(line.usage.response.endedAt, clock() + aheadMs)
    if (place.gapFrom !== undefined) noteGap(place.gapFrom, endedAt)
    place.gapFrom = undefined
    if (place.endedAt === null) begunAt.set(name, Math.min(begunAt.get(name) ?? endedAt, endedAt))
    place.endedAt = endedAt
    if (line.charge !== undefined) sums.add(line.usage, line.charge, endedAt)
    limits.add(line, endedAt)
  }

  /** Whether the gateway's script could not write the whole line: then Envoy's own log has it. */
  function isRetold(text: string, name: string): boolean {
    return name === names.script && text.startsWith('{"v"') && !text.endsWith('}')
  }

  /** A part of a file can't be read, or is gone. */
  function noteLost(place: Place): void {
    place.gapFrom ??= place.endedAt ?? clock()
    changed = true
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

  /** Steps for `inSlices`: reads all complete lines. */
  function* readAll(): Generator<Promise<void> | undefined, void> {
    for (const _ of follower?.readAll() ?? []) {
      const isFull = sums.size + limits.size >= maxRows || lines >= maxLines
      yield isFull ? feed(false) : undefined
    }
  }

  /** Finds files that are gone although more may have been written than was read. */
  function findLost(): void {
    const now = monotonic()
    const there = follower?.files() ?? []
    for (const { head, isCurrent, isRead } of there) {
      missingSince.delete(head)
      const place = places.get(head)
      const done = isRead && !isCurrent
      if (place === undefined || place.done === done) continue
      place.done = done
      changed = true
    }
    const heads = new Set(there.map(({ head }) => head))
    for (const [head, { done, endedAt }] of places) {
      if (heads.has(head)) continue
      const since = missingSince.get(head) ?? now
      missingSince.set(head, since)
      if (now - since <= movedForMs) continue
      missingSince.delete(head)
      places.delete(head)
      position.delete(head)
      changed = true
      if (!done) noteGap(endedAt ?? clock(), nextAfter(endedAt ?? clock()))
    }
  }

  /** When the successor began of a file that ended then, as far as it was read. */
  function nextAfter(endedAt: number): number {
    const begun = Math.max(...begunAt.values())
    return begun >= endedAt ? begun : clock()
  }

  async function feed(closes: boolean): Promise<void> {
    for (const place of places.values()) {
      if (place.gapFrom !== undefined) noteGap(place.gapFrom, clock())
      place.gapFrom = undefined
    }
    const offsets = follower?.files().map(({ file: { inode }, head, isRead, isCurrent, size }) => {
      // A torn line at the end of a file that is no longer written is never completed.
      return [inode, isRead && !isCurrent ? size : (position.get(head) ?? 0)] as const
    })
    const step = {
      journal,
      revision: revision ?? 0,
      gaps,
      closes,
      places: [...places].map(([head, { endedAt, done }]) => {
        return { head, offset: position.get(head) ?? 0, endedAt, done }
      }),
    }
    const isOurs = await ledger.feed({ ...step, rows: sums.take(), limits: limits.take() })
    if (!isOurs) throw new OtherReader()
    revision = step.revision + 1
    gaps = []
    lines = 0
    changed = false
    fedAt = monotonic()
    stored = new Map(offsets)
  }

  async function run(closes: boolean): Promise<void> {
    await open()
    await inSlices(readAll())
    findLost()
    if (changed || closes || monotonic() - fedAt >= seenEveryMs) await feed(closes)
  }

  return {
    /**
     * Adds what was written since the last step. `closes`: it is the last step of this process. Rejects if the ledger
     * is unavailable; the next step begins at the ledger's position.
     */
    async step(closes = false): Promise<void> {
      try {
        await run(closes)
      } catch (error) {
        reset()
        // It has added the same lines; the next step continues after them.
        if (!(error instanceof OtherReader)) throw error
      }
    },
    /** Whether the ledger has everything in this file. */
    isDone: ({ inode, size }: Pick<Listed, 'inode' | 'size'>): boolean =>
      (stored.get(inode) ?? 0) >= size,
    /** Closes its files; the next step reads the position again. */
    reset,
  }
}

/** Another reader has moved the position. */
class OtherReader extends Error {}
