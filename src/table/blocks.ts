/**
 * The blocks of a table: the use of the counters of one user or one key, minus the part that lanes have added. A
 * response first adds to a lane, then its line is counted, so used = offset + lanes at any moment, and a line whose
 * charge equals the amount that it added changes nothing here.
 *
 * In doubt an offset is too high: a caller that seems to have nothing left is decided by Check, which knows the exact
 * use.
 */

import type { JournalLine } from '../journal/journal-line.ts'
import type { Counter } from '../ratelimit/rules/counter.ts'
import type { LineUse } from '../ratelimit/rules/sums.ts'
import { boundsAt } from '../ratelimit/rules/windows.ts'
import type { createBlockIndex } from './block-index.ts'
import type { TableClocks } from './clocks.ts'
import type { TableBlock, TableCell } from './rules/format.ts'
import { blockName } from './rules/lane.ts'

/** A window of a counter, with the known use of this gateway and others. */
export interface ReadWindow {
  readonly used: number
  /** When it began or was last reset, and when it ends: milliseconds since the epoch. */
  readonly start: number
  readonly end: number
  /** Age of the shared store's last report, or negative if there is none. 0 without a store. */
  readonly ageMs: number
  /** Whether other gateways count in it. */
  readonly isShared: boolean
}

/** The parts of a counted line that the table needs. */
export type CountedLine = Pick<JournalLine, 'state' | 'startedAt' | 'lane'> & {
  readonly usage: Pick<JournalLine['usage'], 'response'>
}

interface BlocksOptions {
  /** The number of the table's files. */
  readonly file: number
  /** Maximum number of blocks that are ever created: a number is never reused. */
  readonly most: number
  readonly names: ReturnType<typeof createBlockIndex>
  readonly clocks: TableClocks
  readonly readWindow: (counter: Counter, at: number) => ReadWindow
  readonly write: (block: number, written: TableBlock) => void
  readonly clear: (block: number) => void
}

/** How long a report of other gateways' use is fresh, in milliseconds. */
const freshMs = 1_000
/**
 * A response that began before its window and ended this soon after its start may have been added to the previous
 * window: it counts as not added.
 */
const doubtMs = 1_000

interface Cell {
  start: number
  end: number
  /** End of the next window, which begins at `end`. */
  nextEnd: number
  /** The amount that lanes have added in this window, according to the counted lines. */
  added: number
}

interface Block {
  readonly number: number
  readonly counters: readonly Counter[]
  readonly cells: readonly Cell[]
  readonly name: Buffer
  /** The slot of its name, and the time (CLOCK_BOOTTIME) from which responses find it there. */
  readonly slot: number
  readonly namedAt: number
  written: TableBlock | undefined
}

export function createTableBlocks(options: BlocksOptions) {
  const { file, most, names, clocks, readWindow } = options
  const byNumber = new Map<number, Block>()
  const byCounter = new Map<string, Block>()
  let given = 0

  function find(counters: readonly Counter[]): Block | undefined {
    const block = counters[0] && byCounter.get(counters[0].key)
    const isSame =
      block?.counters.length === counters.length &&
      counters.every(({ key }, i) => key === block.counters[i]?.key)
    return isSame ? block : undefined
  }

  function create(counters: readonly Counter[]): Block | undefined {
    for (const { key } of counters) drop(byCounter.get(key))
    if (given >= most) return undefined
    // Not from Buffer's pool, of which eight bytes would retain 64 KiB. The text is two numbers in hexadecimal.
    const name = Buffer.alloc(8)
    name.write(blockName(counters), 'hex')
    name.swap32()
    const slot = names.place(name, given)
    if (slot === undefined) return undefined
    const cells = counters.map(() => ({ start: -Infinity, end: -Infinity, nextEnd: 0, added: 0 }))
    const namedAt = clocks.boot()
    const block = { number: given, counters, cells, name, slot, namedAt, written: undefined }
    given += 1
    byNumber.set(block.number, block)
    for (const { key } of counters) byCounter.set(key, block)
    return block
  }

  function drop(block: Block | undefined): void {
    if (block === undefined) return
    byNumber.delete(block.number)
    for (const { key } of block.counters) byCounter.delete(key)
    names.remove(block.slot)
    options.clear(block.number)
  }

  /** Writes the current values if they have changed; returns whether the block stays valid. */
  function update(block: Block): boolean {
    const now = clocks.real()
    const cells: TableCell[] = []
    let [isShared, ageMs] = [false, 0]
    for (const [i, counter] of block.counters.entries()) {
      const cell = block.cells[i] as Cell
      const window = readWindow(counter, now)
      const { start, end, used } = window
      if (start !== cell.start) {
        // A clock was set back, or the counter reset: lanes have use of this window under another start.
        if (start < cell.end) {
          drop(block)
          return false
        }
        const nextEnd = boundsAt(counter.window, counter.owner, end).end
        Object.assign(cell, { start, end, nextEnd, added: 0 })
      }
      if (window.isShared) {
        isShared = true
        ageMs = window.ageMs < 0 ? Infinity : Math.max(ageMs, window.ageMs)
      }
      cells.push({ start, end, offset: used - cell.added, nextEnd: cell.nextEnd, nextOffset: 0 })
    }
    const freshUntil = isShared ? Math.max(0, clocks.boot() + freshMs - ageMs) : Infinity
    const next = { name: block.name, cells, isShared, freshUntil }
    if (!isEqual(block.written, next)) options.write(block.number, next)
    block.written = next
    return true
  }

  /** Adds to the windows in which the response ended; returns whether lanes surely added it to all of these windows. */
  function noteAdded(block: Block, added: number, startedAt: number, endedAt: number): boolean {
    let isSure = true
    for (const cell of block.cells) {
      // The response may belong to a window that is over, or to one that this clock has not reached.
      if (endedAt < cell.start) continue
      if (endedAt >= cell.end) isSure = false
      else if (startedAt < cell.start && endedAt - cell.start < doubtMs) isSure = false
      else cell.added += added
    }
    return isSure
  }

  return {
    /** Number of blocks created so far. */
    get size(): number {
      return given
    },
    /**
     * Creates their block in advance, if there is plenty of room, so that responses find it before a decision needs it.
     */
    prepare(counters: readonly Counter[]): void {
      const block = given < most / 2 && find(counters) === undefined ? create(counters) : undefined
      if (block !== undefined) update(block)
    },
    /** Their block with current values, or undefined if there is no room for it. */
    place(counters: readonly Counter[]): Pick<Block, 'number' | 'namedAt'> | undefined {
      const known = find(counters)
      if (known !== undefined && update(known)) return known
      const block = create(counters)
      return block !== undefined && update(block) ? block : undefined
    },
    drop: (key: string): void => drop(byCounter.get(key)),
    /** Call it with each line, once it is in the sums. */
    onCounted(line: CountedLine, counted: readonly LineUse[]): void {
      if (line.state === 'running') return
      const { startedAt, usage } = line
      const { endedAt } = usage.response
      const lane = line.lane?.file === file ? line.lane : undefined
      const changed = new Set<Block>()
      const now = clocks.real()
      /** For each block that the line added to: how many of its counters the line charges the added amount. */
      const paid = new Map<Block, number>()
      for (const number of new Set(lane?.blocks)) {
        const block = byNumber.get(number)
        if (block !== undefined) paid.set(block, 0)
      }
      for (const { at, amount, counters } of counted) {
        const isPaid = amount === lane?.added && at === endedAt
        for (const { key } of counters) {
          const block = byCounter.get(key)
          if (block === undefined) continue
          const before = isPaid ? paid.get(block) : undefined
          if (before === undefined) changed.add(block)
          else paid.set(block, before + 1)
        }
      }
      for (const [block, charged] of paid) {
        // A window has begun that is not written yet: the line's amount is noted there.
        const isOver = block.cells.some(({ end }) => now >= end)
        if (isOver && !update(block)) continue
        const isSure = noteAdded(block, lane?.added ?? 0, startedAt, endedAt)
        if (isOver || !isSure || charged !== block.counters.length) changed.add(block)
      }
      for (const block of changed) if (byNumber.has(block.number)) update(block)
    },
  }
}

function isEqual(one: TableBlock | undefined, other: TableBlock): boolean {
  if (one?.isShared !== other.isShared || one.freshUntil !== other.freshUntil) return false
  return other.cells.every((cell, i) => {
    const { start, end, offset } = one.cells[i] as TableCell
    return start === cell.start && end === cell.end && offset === cell.offset
  })
}
