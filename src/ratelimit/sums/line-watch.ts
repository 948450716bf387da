/**
 * Decides when a process reads new lines, besides the reads of Checks. While few arrive, the file system notifies the
 * process of each. While many arrive, a wake-up for each costs more than reading them, so the ends of the files are
 * polled every few milliseconds, unless a Check has just read them.
 */

import { createRestTimer, repeat } from '../../runtime/loop.ts'
import type { LineTail } from './line-tail.ts'

export interface LineWatchOptions {
  readonly tail: Pick<LineTail, 'watch' | 'watched' | 'readEnds' | 'readAll'> & {
    readonly read: Pick<LineTail['read'], 'lines' | 'bytes'>
  }
  /**
   * Whether no other gateway waits for the sums: the processes of this one read the end themselves before they decide.
   */
  readonly isAlone?: boolean
  /** A monotonic clock in milliseconds. */
  readonly monotonic: () => number
  /** Called with failures in the background, which are retried. */
  readonly onFault: (error: unknown) => void
  /** Called after the files were read to their ends, or with the error if they could not be. */
  readonly onRead?: ((error?: unknown) => void) | undefined
  readonly signal: AbortSignal
}

/** Milliseconds between polls: beside a watch, which may miss changes, and without one. */
const [pollMs, unwatchedPollMs] = [100, 10]
/** Interval at which the folder is searched for new files that no event reported. */
const searchMs = 1_000
/** Two changes within this time count as many. */
const manyWithinMs = 10
/** While many lines arrive: the interval between reads, and the shorter one while each read finds several lines. */
const [busyMs, denseMs] = [3, 2]
const several = 3
/**
 * The interval for a gateway that is alone, and the number of bytes above which it is shortened, because a Check that
 * reads the end must read all of them.
 */
const [aloneMs, mostBytes] = [10, 32_768]
/** After this time without a line, few lines arrive. */
const calmMs = 100

export type LineWatch = ReturnType<typeof startLineWatch>

export function startLineWatch(options: LineWatchOptions) {
  const { tail, isAlone = false, monotonic, onFault, onRead, signal } = options
  const alarm = createRestTimer(signal)
  let endWatch: (() => void) | undefined
  let watched: string | undefined
  let isChanged = false
  let isMoved = false
  let changedAt = Number.NEGATIVE_INFINITY
  let searchedAt = Number.NEGATIVE_INFINITY
  let isRung = false
  let busy: NodeJS.Timeout | undefined
  /** When a Check last read the end. */
  let checkedAt = Number.NEGATIVE_INFINITY

  watch()
  const restMs = (): number => (endWatch || busy ? pollMs : unwatchedPollMs)
  void repeat({ step: readOrSearch, restMs, onFault, signal, alarm })

  /** Watches the folder that is at the path now: it may have been removed and recreated. */
  function watch(): void {
    const there = tail.watched()
    if (busy !== undefined || (endWatch !== undefined && there === watched)) return
    if (there !== watched) isRung = true
    unwatch()
    watched = there
    endWatch = tail.watch(noteChange, () => {
      endWatch = undefined
    })
  }

  function unwatch(): void {
    endWatch?.()
    endWatch = undefined
  }

  /** Reads once for all changes of one turn. */
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
      tail.readEnds(moved)
    } catch (error) {
      onFault(error)
    }
  }

  function becomeBusy(): void {
    if (busy !== undefined) return
    unwatch()
    let { lines, bytes } = tail.read
    let foundAt = monotonic()
    let restMs = isAlone ? aloneMs : busyMs
    pollIn(restMs)

    function pollIn(ms: number): void {
      busy = setTimeout(poll, ms).unref()
    }

    function poll(): void {
      if (signal.aborted) return
      const freshMs = Math.ceil(checkedAt + restMs - monotonic())
      if (freshMs <= 0) readEnds(false)
      const found = tail.read.lines - lines
      lines += found
      if (found > 0) foundAt = monotonic()
      if (isAlone) restMs = restFor((tail.read.bytes - bytes) / restMs)
      else restMs = found < several ? busyMs : denseMs
      bytes = tail.read.bytes
      if (monotonic() - foundAt < calmMs) pollIn(freshMs > 0 ? freshMs : restMs)
      else becomeCalm()
    }
  }

  /** The longest interval after which a read, at this rate, finds no more than `mostBytes`. */
  function restFor(bytesPerMs: number): number {
    return Math.min(aloneMs, Math.max(denseMs, mostBytes / bytesPerMs))
  }

  function becomeCalm(): void {
    busy = undefined
    watch()
    // Reads lines that were written while nothing was watched.
    readEnds(true)
  }

  async function readOrSearch(): Promise<void> {
    try {
      // A watch reports new files, so they are rarely searched for.
      const isDue = isRung || endWatch === undefined || monotonic() - searchedAt >= searchMs
      isRung = false
      if (isDue) {
        searchedAt = monotonic()
        await tail.readAll()
      } else tail.readEnds()
    } catch (error) {
      isRung = true
      onRead?.(error)
      throw error
    }
    onRead?.()
  }

  return {
    /** Call it every second: the folder may have been replaced. */
    renew: watch,
    /** Call it when a Check has read the end. */
    noteCheck(): void {
      if (busy !== undefined) checkedAt = monotonic()
    },
    /** Searches for new files, and reads them. */
    searchAgain(): void {
      isRung = true
      alarm.ring()
    },
    end(): void {
      unwatch()
      clearTimeout(busy)
    },
  }
}
