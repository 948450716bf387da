/** Reads the lines of a gateway as they are written, and counts each once in the gateway's sums. */

import { addExact, maxExact, subtractExact } from '../../formats/exact.ts'
import type { KeptState } from '../../journal/checkpoint.ts'
import type { JournalFollower, JournalPosition } from '../../journal/follower.ts'
import type { JournalLine } from '../../journal/journal-line.ts'
import { inSlices } from '../../runtime/slices.ts'
import type { LineUse, WindowSums } from '../rules/sums.ts'
import { ownUseOf } from '../rules/tally.ts'
import { type RebuildOptions, rebuildSums } from './rebuild-sums.ts'

export interface LineTailOptions extends Omit<RebuildOptions, 'countText'> {
  readonly sums: WindowSums
  /** Parses and charges a line. */
  readonly readText: (text: string) => JournalLine | undefined
  /** Returns the amounts that a line adds to counters. Must not throw. */
  readonly countedOf: (line: JournalLine) => readonly LineUse[]
  /** Adds to the sums. */
  readonly count: (counted: LineUse) => void
  /** Called for each line after it is counted. Must not throw. */
  readonly onRead: (line: JournalLine, counted: readonly LineUse[]) => void
}

/** The most bytes that a Check reads before it decides. */
const checkBytes = 65_536
/** The most bytes read in one turn to find out whether the store has more than the files. */
const catchUpBytes = 1_048_576

export type LineTail = ReturnType<typeof createLineTail>

/** Reads nothing before the first `rebuild`. */
export function createLineTail(options: LineTailOptions) {
  const { folder, files, sums, now, readText, countedOf } = options
  const read = { lines: 0, skipped: 0, bytes: 0 }
  let position: JournalPosition = new Map()
  /** Assigned by the first `rebuild`. */
  let follower: JournalFollower

  function count(text: string): void {
    read.bytes += text.length
    const line = readText(text)
    if (line === undefined) {
      read.skipped += 1
      return
    }
    read.lines += 1
    const counted = countedOf(line)
    for (const each of counted) options.count(each)
    options.onRead(line, counted)
  }

  function countText(text: string): readonly LineUse[] {
    const line = readText(text)
    return line === undefined ? [] : countedOf(line)
  }

  /**
   * Retains the sums of lines that are only in removed files and in no checkpoint, and their positions, so that each
   * counts once.
   */
  function keepRead(next: JournalPosition, replace: () => void): void {
    const before = sums.own(now()).map((tally) => [tally, ownUseOf(tally)] as const)
    replace()
    for (const [tally, own] of before)
      tally.sum = addExact(tally.sum, maxExact(0, subtractExact(own, ownUseOf(tally))))
    for (const [head, bytes] of position) if (bytes > (next.get(head) ?? 0)) next.set(head, bytes)
  }

  /** A read that has begun ends, too: lines after a saved position count under the next name. */
  function* readUntilPaused(): Generator<undefined, void> {
    const steps = follower.readAll()
    while (!tail.isPaused && steps.next().done === false) yield
  }

  const tail = {
    /** Nothing is read while it is set. */
    isPaused: false,
    /** The position up to which lines are counted. Live. */
    get position(): JournalPosition {
      return position
    },
    /**
     * Numbers of lines read since the process's start and of lines of unknown format, and the length of both in
     * characters. Live.
     */
    read: read as Readonly<typeof read>,
    unreadBytes: (): number => follower.unreadBytes,
    /**
     * Rebuilds the sums from a checkpoint and the lines after it. The current sums stay in force until then. Needed
     * because the last writer may have removed files that this process had not read.
     */
    async rebuild(state: KeptState): Promise<void> {
      const rebuilt = await rebuildSums(state, { ...options, countText })
      // The old and the rebuilt sums read the files to the end in this turn: no line that a Check has counted is
      // missing for a moment, and listeners get each line that was not read before.
      follower?.catchUp(Number.POSITIVE_INFINITY)
      rebuilt.follower.catchUp(Number.POSITIVE_INFINITY)
      follower?.close()
      keepRead(rebuilt.position, () => sums.replaceOwn(rebuilt.own()))
      rebuilt.passTo(count)
      position = rebuilt.position
      follower = rebuilt.follower
    },
    /**
     * Calls `onChange` when a file may have grown or was replaced. Returns a function that stops the watch, or
     * undefined if the folder cannot be watched. `onEnd` is called if the watch fails later.
     */
    watch: (onChange: (isMoved: boolean) => void, onEnd: () => void): (() => void) | undefined =>
      folder.watch((changed, isMoved) => {
        if (changed === undefined || files.some((name) => changed.startsWith(name)))
          onChange(isMoved)
      }, onEnd),
    /** Identity of the folder that `watch` watches. */
    watched: (): string | undefined => folder.identity(),
    /** Reads new lines of Envoy's script, which are not buffered. Bounded, because a Check waits for it. */
    readForCheck(): void {
      if (!tail.isPaused) follower.readEnds(checkBytes, files[0])
    },
    /** Reads new lines of all files; after a rotation (`isMoved`) it also looks for new files. */
    readEnds(isMoved = false): void {
      if (tail.isPaused) return
      if (isMoved) follower.catchUp(checkBytes)
      else follower.readEnds(checkBytes)
    },
    /** Looks for new files, and reads all of them to their ends. */
    readAll: (): Promise<void> => inSlices(readUntilPaused()),
    /** Reads all lines that there are now, at most a megabyte; returns whether none is left. */
    catchUp: (): boolean => follower.catchUp(catchUpBytes),
    /** As in follower.ts. */
    tidy: (...saved: Parameters<JournalFollower['tidy']>): void => follower.tidy(...saved),
    close: (): void => follower.close(),
  }
  return tail
}
