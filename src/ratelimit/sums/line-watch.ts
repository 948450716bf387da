/**
 * When a process looks for new lines, besides the moment of a Check. While few come, the file system tells of
 * each; to be woken for each of many costs more than to read them, so then the ends are read every few
 * milliseconds instead, which finds several at once, and less often while Checks read them anyway.
 */

import { createAlarm, repeat } from '../../runtime/loop.ts'
import type { GatewaySums } from './gateway-sums.ts'

export interface LineWatchOptions {
  readonly sums: Pick<GatewaySums, 'watch' | 'watched' | 'readEnds' | 'readAll' | 'linesRead'>
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
const denseMs = 10
/** Between two looks at the ends while many lines come, and while Checks look more often than that. */
const [busyMs, relievedMs] = [3, 20]
/** Without a line for so long few come again. */
const calmMs = 100

export function startLineWatch(options: LineWatchOptions) {
  const { sums, monotonic, onFault, onRead, signal } = options
  const alarm = createAlarm(signal)
  let endWatch: (() => void) | undefined
  let watched: string | undefined
  let isChanged = false
  let isMoved = false
  let changedAt = Number.NEGATIVE_INFINITY
  let lookedAt = Number.NEGATIVE_INFINITY
  let isRung = false
  let busy: NodeJS.Timeout | undefined
  /** Looks of Checks since the last one here. */
  let looks = 0

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
      if (now - changedAt < denseMs && !had) becomeBusy()
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
    let lines = sums.linesRead
    let quietMs = 0
    lookIn(busyMs)

    function lookIn(ms: number): void {
      looks = 0
      busy = setTimeout(look, ms, ms).unref()
    }

    function look(restMs: number): void {
      if (signal.aborted) return
      readEnds(false)
      const found = sums.linesRead
      quietMs = found > lines ? 0 : quietMs + restMs
      lines = found
      if (quietMs < calmMs) lookIn(looks * busyMs > restMs ? relievedMs : busyMs)
      else becomeCalm()
    }
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
      looks += 1
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
