/**
 * When a process looks for new lines, besides the moment of a Check. While few come, the file system tells of
 * each; to be woken for each of many costs more than to read them, so then the ends are read every few
 * milliseconds instead, which finds several at once, unless a Check just has.
 */

import { createAlarm, repeat } from '../../runtime/loop.ts'
import type { GatewaySums } from './gateway-sums.ts'

export interface LineWatchOptions {
  readonly sums: Pick<
    GatewaySums,
    'watch' | 'watched' | 'readEnds' | 'readAll' | 'linesRead' | 'bytesRead'
  >
  /** Whether no other gateway waits for what is read: a process of this one reads the end itself before it decides. */
  readonly isAlone?: boolean
  /** A monotonic clock in milliseconds. */
  readonly monotonic: () => number
  /** What failed in the background, and is tried again. */
  readonly onFault: (error: unknown) => void
  /** The files were read to their ends, or could not be. */
  readonly onRead?: ((error?: unknown) => void) | undefined
  readonly signal: AbortSignal
}

/** What a watch has missed, and where there is none. */
const [pollMs, unwatchedPollMs] = [100, 10]
/** New files that nothing has told of. */
const lookMs = 1_000
/** Two changes within this time are many. */
const manyWithinMs = 10
/** While many lines come: from one look at the ends to the next, and while each finds several lines. */
const [busyMs, denseMs] = [3, 2]
const several = 3
/** The same for a gateway that is alone, unless a look finds more than this: a Check that reads the end must come to it. */
const [aloneMs, mostBytes] = [10, 32_768]
/** Without a line for so long few come again. */
const calmMs = 100

export function startLineWatch(options: LineWatchOptions) {
  const { sums, isAlone = false, monotonic, onFault, onRead, signal } = options
  const alarm = createAlarm(signal)
  let endWatch: (() => void) | undefined
  let watched: string | undefined
  let isChanged = false
  let isMoved = false
  let changedAt = Number.NEGATIVE_INFINITY
  let lookedAt = Number.NEGATIVE_INFINITY
  let isRung = false
  let busy: NodeJS.Timeout | undefined
  /** When a Check has looked last. */
  let checkedAt = Number.NEGATIVE_INFINITY

  watch()
  const restMs = (): number => (endWatch || busy ? pollMs : unwatchedPollMs)
  void repeat({ step: read, restMs, onFault, signal, alarm })

  /** The folder that is at the path: it may have been removed, and made again. */
  function watch(): void {
    const there = sums.watched()
    if (busy !== undefined || (endWatch !== undefined && there === watched)) return
    if (there !== watched) isRung = true
    unwatch()
    watched = there
    endWatch = sums.watch(noteChange, () => {
      endWatch = undefined
    })
  }

  function unwatch(): void {
    endWatch?.()
    endWatch = undefined
  }

  /** Many changes of one turn are read once. */
  function noteChange(moved: boolean): void {
    isMoved ||= moved
    if (isChanged) return
    isChanged = true
    setImmediate(() => {
      const had = isMoved
      isChanged = false
      isMoved = false
      if (signal.aborted) return
      readEnds(had)
      const now = monotonic()
      if (now - changedAt < manyWithinMs && !had) becomeBusy()
      changedAt = now
    })
  }

  function readEnds(moved: boolean): void {
    try {
      sums.readEnds(moved)
    } catch (error) {
      onFault(error)
    }
  }

  function becomeBusy(): void {
    if (busy !== undefined) return
    unwatch()
    let { linesRead: lines, bytesRead: bytes } = sums
    let foundAt = monotonic()
    let restMs = isAlone ? aloneMs : busyMs
    lookIn(restMs)

    function lookIn(ms: number): void {
      busy = setTimeout(look, ms).unref()
    }

    function look(): void {
      if (signal.aborted) return
      const freshMs = Math.ceil(checkedAt + restMs - monotonic())
      if (freshMs <= 0) readEnds(false)
      const found = sums.linesRead - lines
      lines += found
      if (found > 0) foundAt = monotonic()
      if (isAlone) restMs = restFor((sums.bytesRead - bytes) / restMs)
      else restMs = found < several ? busyMs : denseMs
      bytes = sums.bytesRead
      if (monotonic() - foundAt < calmMs) lookIn(freshMs > 0 ? freshMs : restMs)
      else becomeCalm()
    }
  }

  /** So that a look finds no more than a Check can read, at this many bytes in a millisecond. */
  function restFor(bytesPerMs: number): number {
    return Math.min(aloneMs, Math.max(denseMs, mostBytes / bytesPerMs))
  }

  function becomeCalm(): void {
    busy = undefined
    watch()
    // What was written while nothing was watched.
    readEnds(true)
  }

  async function read(): Promise<void> {
    try {
      // Where a watch tells of new files, they are looked for at leisure.
      const isDue = isRung || endWatch === undefined || monotonic() - lookedAt >= lookMs
      isRung = false
      if (isDue) {
        lookedAt = monotonic()
        await sums.readAll()
      } else sums.readEnds()
    } catch (error) {
      isRung = true
      onRead?.(error)
      throw error
    }
    onRead?.()
  }

  return {
    /** To be called each second: the folder may be another one. */
    beat: watch,
    /** A Check has read the end. */
    noteLook(): void {
      if (busy !== undefined) checkedAt = monotonic()
    },
    /** Looks for files that are new, and reads them. */
    lookAgain(): void {
      isRung = true
      alarm.ring()
    },
    end(): void {
      unwatch()
      clearTimeout(busy)
    },
  }
}
