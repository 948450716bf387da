/**
 * The sums of one gateway, as one of its processes has them. Each process follows the gateway's files, so each has exact
 * sums, whether the store responds or not. The writer also saves a checkpoint and sends the sums to the store.
 */

import { greatest, minus, plus } from '../../formats/exact.ts'
import { createCheckpoint, type KeptState } from '../../journal/checkpoint.ts'
import type { DurableFiles } from '../../journal/durable-files.ts'
import type { Folder } from '../../journal/folder.ts'
import type { Follower, Position } from '../../journal/follower.ts'
import { createLineConsumer } from '../../journal/line-consumer.ts'
import type { ReadLine } from '../../journal/read-line.ts'
import type { IsDone } from '../../journal/remove-saved.ts'
import { createWriters, silentMs } from '../../journal/writers.ts'
import { inSlices } from '../../runtime/slices.ts'
import { type Counted, createSums } from '../rules/sums.ts'
import { ownOf } from '../rules/tally.ts'
import type { Resets } from '../rules/windows.ts'
import { createAdoption } from './adoption.ts'
import { createKnownResets } from './known-resets.ts'
import { readSince } from './read-since.ts'
import { createSharedSums, type SharedSumsOptions } from './shared-sums.ts'

/** What is done with each line. */
export interface LineHandlers {
  /** Returns what a line adds to counters. Must not throw. */
  readonly countedOf: (line: ReadLine) => readonly Counted[]
  /** Called in every process for each line after it is counted, except for lines from before the process's start. */
  readonly onLine?: (line: ReadLine, counted: readonly Counted[]) => void
  /**
   * Called in the writer alone, for each line after it is counted: once per gateway. When a writer is killed, lines of at
   * most one second are passed twice or not at all.
   */
  readonly onTold?: (line: ReadLine) => void
  /** Parses and charges a line. */
  readonly readText: (text: string) => ReadLine | undefined
}

export interface GatewaySumsOptions
  extends LineHandlers,
    Omit<SharedSumsOptions, 'sums' | 'nonce' | 'isWriter' | 'onBeyond' | 'onRival'> {
  readonly folder: Folder
  readonly kept: DurableFiles
  /** Names of the current files. A Check reads the first of them to its end before it decides. */
  readonly files: readonly string[]
  /** Prefix of the names of all files of the folder; `usage` by default. */
  readonly stem?: string
  /** The resets known at the start. */
  readonly resets?: Resets
  /** The position from which files are read if no checkpoint has one. */
  readonly begunAt?: Position | undefined
  /** How many rotated files of each name are retained; 4 by default. */
  readonly keptFiles?: number
  /** Whether all other readers are done with a rotated file, so that it may be removed once its lines are saved. */
  readonly isDone?: IsDone
  /** Called when another gateway writes under the same name: a copied volume. */
  readonly onDouble: () => void
  /** Called when the files were handed over to this gateway name, under which the caller opens them again. */
  readonly onRenamed?: (gateway: string) => void
  /** Called for errors of background work, which is retried. */
  readonly onFault: (error: unknown) => void
}

/** The most bytes that a Check reads before it decides. */
const checkBytes = 65_536
/** The most bytes read in one turn to find out whether the store has more than the files. */
const catchUpBytes = 1_048_576
/** After this long without a check, a writer checks its place before it passes lines on: another may have taken over. */
const lookAfterMs = silentMs / 2

export type GatewaySums = Awaited<ReturnType<typeof openGatewaySums>>

/** Resolves once the files are read to their ends. The process is not a writer until `becomeWriter`. */
export async function openGatewaySums(options: GatewaySumsOptions) {
  const { folder, kept, files, gateway, now, monotonic, keptFiles = 4, stem = 'usage' } = options
  const { countedOf, onFault, readText } = options
  const writers = createWriters(folder, `${stem}.writers`, now)
  const checkpoint = createCheckpoint(kept, `${stem}.sums`, files, writers.nonce)
  const consumer = createLineConsumer({
    folder,
    names: files,
    file: `${stem}.told`,
    now,
    readText,
    onFault,
    tell: (line) => tell(line),
  })
  const resets = createKnownResets(options.resets)
  const sums = createSums(resets.all, monotonic)
  const read = { lines: 0, skipped: 0 }
  let bytesRead = 0
  let isWriter = false
  let isBecoming = false
  let isHandedOver = false
  let lookedAt = monotonic()
  let position: Position = new Map()
  /** Assigned by the first `rebuild`. */
  let follower: Follower
  const shared = createSharedSums({
    ...options,
    sums,
    nonce: writers.nonce,
    isWriter: () => isWriter,
    onBeyond(tally) {
      if (!isHandedOver) adoption.adopt(tally)
    },
    onRival(rival) {
      if (!writers.all().includes(rival)) options.onDouble()
      isStillWriter()
    },
  })

  const adoption = createAdoption({
    catchUp: () => follower.catchUp(catchUpBytes),
    readToEnds,
    isWriter: isStillWriter,
    noteBase: checkpoint.noteBase,
    send: shared.enter,
    onFault,
  })

  /** Counts a line in the sums in force. */
  function take(text: string): void {
    bytesRead += text.length
    const line = readText(text)
    if (line === undefined) {
      read.skipped += 1
      return
    }
    read.lines += 1
    const counted = countedOf(line)
    for (const each of counted) shared.count(each)
    call(() => options.onLine?.(line, counted))
    if (consumer.isOn) tell(line)
  }

  function countText(text: string): readonly Counted[] {
    const line = readText(text)
    return line === undefined ? [] : countedOf(line)
  }

  function tell(line: ReadLine): void {
    if (monotonic() - lookedAt >= lookAfterMs) call(look)
    if (isWriter) call(() => options.onTold?.(line))
  }

  /** Calls a listener; its errors are reported and do not affect counting. */
  function call(listener: () => void): void {
    try {
      listener()
    } catch (error) {
      onFault(error)
    }
  }

  async function load(): Promise<KeptState> {
    const state = await checkpoint.load(writers.all())
    const isOther = state.gateway !== undefined && state.gateway !== gateway
    // Without a store nobody else sees the name.
    if (!isOther || options.store === undefined) return state
    options.onRenamed?.(state.gateway as string)
    throw new Error(`the sums belong to gateway ${state.gateway}, not to ${gateway}`)
  }

  /**
   * Rebuilds the sums from the latest checkpoint and the lines after it. The current sums stay in force until then. Needed
   * because the last writer may have removed files that this process had not read.
   */
  async function rebuild(): Promise<void> {
    const state = await load()
    resets.noteAll(state.resets)
    const rebuilt = await readSince(state, { ...options, resets: resets.all, countText })
    // Both are read to the end in this turn: no line that a Check has counted is missing for a moment, and listeners get
    // each line that was not read before.
    follower?.catchUp(Number.POSITIVE_INFINITY)
    rebuilt.follower.catchUp(Number.POSITIVE_INFINITY)
    follower?.close()
    keepRead(rebuilt.position, () => sums.replaceOwn(rebuilt.own()))
    rebuilt.takeWith(take)
    position = rebuilt.position
    follower = rebuilt.follower
  }

  /** Retains the sums of lines that are only in removed files and in no checkpoint, and their positions, so that they count once. */
  function keepRead(next: Position, replace: () => void): void {
    const before = sums.own(now()).map((tally) => [tally, ownOf(tally)] as const)
    replace()
    for (const [tally, own] of before)
      tally.sum = plus(tally.sum, greatest(0, minus(own, ownOf(tally))))
    for (const [head, bytes] of position) if (bytes > (next.get(head) ?? 0)) next.set(head, bytes)
  }

  /** Returns whether this process still is the writer, and ends its role if it is not. */
  function isStillWriter(): boolean {
    lookedAt = monotonic()
    if (isWriter && !writers.isLast()) stopWriting()
    return isWriter
  }

  /** Checks its place, and shows other processes that the gateway has a writer. */
  function look(): void {
    if (isStillWriter() || isBecoming) writers.show()
  }

  function stopWriting(): void {
    isWriter = false
    consumer.end()
  }

  async function readToEnds(): Promise<void> {
    if (!isHandedOver) await inSlices(follower.readAll())
  }

  /** Saves a checkpoint, then removes files and checkpoints that are no longer needed. */
  async function save(): Promise<void> {
    if (!isStillWriter() || isHandedOver) return
    const saved = await checkpoint.save(() => {
      return { gateway, position, own: sums.own(now()), resets: resets.all }
    })
    // Another process that became the writer meanwhile may have read the checkpoint before this one.
    if (!isStillWriter()) return
    follower.tidy(saved, keptFiles, options.isDone)
    await checkpoint.removeEarlier()
  }

  await rebuild()
  consumer.noteStart(position)
  return {
    shared,
    nonce: writers.nonce,
    get isWriter(): boolean {
      return isWriter
    },
    /** Lines read since the process's start, lines of unknown format, and bytes not read yet. */
    get stats() {
      return { ...read, unreadBytes: follower.unreadBytes }
    },
    /** `stats.lines` without the other figures, which cost more. */
    get linesRead(): number {
      return read.lines
    },
    /** Total length of these lines in characters. */
    get bytesRead(): number {
      return bytesRead
    },
    /** Number of windows in memory. */
    get size(): number {
      return sums.all.size
    },
    /** Whether this gateway has a process that writes. */
    hasWriter: (): boolean => isWriter || isBecoming || !writers.isFree(),
    /** Becomes the writer. Resolves once the sums are queued for the store and the checkpoint is saved. */
    async becomeWriter(): Promise<void> {
      isBecoming = true
      try {
        writers.enter()
        await rebuild()
        isWriter = writers.isLast()
        lookedAt = monotonic()
        // In the same turn in which the sums come into force, so that listeners get each line exactly once.
        if (isWriter) consumer.begin(position)
      } finally {
        isBecoming = false
      }
      if (!isWriter) return
      shared.begin()
      await save()
    },
    /**
     * Calls `onChange` when a file may have grown or was replaced. Returns a function that stops the watch, or undefined if
     * the folder cannot be watched. `onEnd` is called if the watch fails later.
     */
    watch: (onChange: (isMoved: boolean) => void, onEnd: () => void): (() => void) | undefined =>
      folder.watch((changed, isMoved) => {
        if (changed === undefined || files.some((name) => changed.startsWith(name)))
          onChange(isMoved)
      }, onEnd),
    /** Identity of the folder that `watch` watches. */
    watched: (): string | undefined => folder.identity(),
    /** Reads new lines of Envoy's script, which are not buffered. Bounded, because a Check waits for it. */
    readEnd(): void {
      if (!isHandedOver) follower.readEnds(checkBytes, files[0])
    },
    /** Reads new lines of all files; after a rotation (`isMoved`) it also looks for new files. */
    readEnds(isMoved = false): void {
      if (isHandedOver) return
      if (isMoved) follower.catchUp(checkBytes)
      else follower.readEnds(checkBytes)
    },
    /** Looks for new files, and reads all of them to their ends. */
    readAll: (): Promise<void> => readToEnds(),
    /** Call once a second. */
    beat(): void {
      look()
      if (isWriter) consumer.keep(position)
    },
    /** Call at each rotation and at shutdown. */
    save,
    /**
     * Hands the files over to the gateway name `next`, if the store has acknowledged all sums under the present name; returns
     * whether it has. Afterwards nothing is read or sent here.
     */
    async handOver(next: string): Promise<boolean> {
      if (!isStillWriter() || adoption.isPending) return false
      if (sums.own(now()).some((tally) => tally.field < ownOf(tally))) return false
      isHandedOver = true
      try {
        consumer.keep(position)
        await checkpoint.save(() => ({ gateway: next, position, own: [], resets: resets.all }))
      } catch (error) {
        isHandedOver = false
        throw error
      }
      return true
    },
    /** Releases the writer's place and closes the files. Call nothing else afterwards. */
    close(): void {
      if (isStillWriter()) consumer.keep(position)
      stopWriting()
      writers.leave()
      follower.close()
    },
    /** Notes a reset: responses that end after it count in a new window. */
    reset: resets.note,
    /** All known resets, by counter key. */
    resets: resets.all,
  }
}
