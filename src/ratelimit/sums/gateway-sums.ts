/**
 * The sums of one gateway in one of its processes: it follows the gateway's files, and, if it is the
 * writer, keeps a checkpoint and writes the sums to the store. Every process has them exactly, whether the
 * store answers or not.
 */

import { greatest, minus, plus } from '../../formats/exact.ts'
import { createCheckpoint, type KeptState } from '../../journal/checkpoint.ts'
import type { DurableFiles } from '../../journal/durable-files.ts'
import type { Folder } from '../../journal/folder.ts'
import type { Follower, Position } from '../../journal/follower.ts'
import { createLineConsumer } from '../../journal/line-consumer.ts'
import { type ReadLine, readLine } from '../../journal/read-line.ts'
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

export interface GatewaySumsOptions
  extends Omit<SharedSumsOptions, 'sums' | 'nonce' | 'isWriter' | 'onBeyond' | 'onRival'> {
  readonly folder: Folder
  readonly kept: DurableFiles
  /** The files that are followed, by their names; of the first one a Check sees the end before it decides. */
  readonly files: readonly string[]
  /** What `files` and the others begin with: `usage` by default. */
  readonly stem?: string
  /** What a line adds. Must not throw. */
  readonly countedOf: (line: ReadLine) => readonly Counted[]
  /**
   * Called in every process with each line and what it has counted, once that is in the sums; not with those of
   * before its start.
   */
  readonly onLine?: (line: ReadLine, counted: readonly Counted[]) => void
  /**
   * Called in the writer alone, with each line once across the processes of a gateway, and once it is in
   * the sums. Around a process that is killed at most a second is told again, or not.
   */
  readonly onTold?: (line: ReadLine) => void
  /** Reads the text of a line; another one in tests. */
  readonly readText?: (text: string) => ReadLine | undefined
  /** Resets that are known at the start. */
  readonly resets?: Resets
  /** Where files were read to before there was a checkpoint. */
  readonly begunAt?: Position | undefined
  /** How many renamed files of each are kept; 4 by default. */
  readonly keptFiles?: number
  /** Whether a renamed file may be removed once its lines are saved, as far as others are concerned. */
  readonly isDone?: IsDone
  /** Another gateway writes under the same name: a copied volume. */
  readonly onDouble: () => void
  /** The files have been handed over to this name, under which they are to be opened again. */
  readonly onRenamed?: (gateway: string) => void
  /** What failed in the background, and is tried again. */
  readonly onFault: (error: unknown) => void
}

/** What a Check reads at most before it decides. */
const checkBytes = 65_536
/** What is read at once before the store is believed to have more than the files. */
const catchUpBytes = 1_048_576
/** A writer that has not looked for so long looks before it tells anything: another one may have begun. */
const lookAfterMs = silentMs / 2

export type GatewaySums = Awaited<ReturnType<typeof openGatewaySums>>

/** Resolves once the files are read to their ends. The process is no writer until `becomeWriter`. */
export async function openGatewaySums(options: GatewaySumsOptions) {
  const { folder, kept, files, gateway, now, monotonic, keptFiles = 4, stem = 'usage' } = options
  const { countedOf, onFault, readText = readLine } = options
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
  /** Set by the first `rebuild`. */
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

  /** Takes a line whose sums are in force. */
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

  /** An error of a listener does not prevent that a line is counted once. */
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
    // What is alone has a name for nobody.
    if (!isOther || options.store === undefined) return state
    options.onRenamed?.(state.gateway as string)
    throw new Error(`the sums are those of ${state.gateway}, not of ${gateway}`)
  }

  /**
   * Takes sums and position from the checkpoint, and reads on from there. What was known until now stays in
   * force until then: the last writer may have removed files that this process had not read.
   */
  async function rebuild(): Promise<void> {
    const state = await load()
    resets.noteAll(state.resets)
    const rebuilt = await readSince(state, { ...options, resets: resets.all, countText })
    // What a Check has read meanwhile must not be missing for a moment, and listeners get what it has not read.
    follower?.catchUp(Number.POSITIVE_INFINITY)
    rebuilt.follower.catchUp(Number.POSITIVE_INFINITY)
    follower?.close()
    keepRead(rebuilt.position, () => sums.replaceOwn(rebuilt.own()))
    rebuilt.takeWith(take)
    position = rebuilt.position
    follower = rebuilt.follower
  }

  /** What this process has read of files that are gone, and no checkpoint has, stays counted, and is not read again. */
  function keepRead(next: Position, replace: () => void): void {
    const before = sums.own(now()).map((tally) => [tally, ownOf(tally)] as const)
    replace()
    for (const [tally, own] of before)
      tally.sum = plus(tally.sum, greatest(0, minus(own, ownOf(tally))))
    for (const [head, bytes] of position) if (bytes > (next.get(head) ?? 0)) next.set(head, bytes)
  }

  /** Whether this process still is the one that writes. */
  function isStillWriter(): boolean {
    lookedAt = monotonic()
    if (isWriter && !writers.isLast()) stopWriting()
    return isWriter
  }

  /** The same, and shows the others that one writes. */
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

  /** Saves the sums, then removes what nobody needs any more. */
  async function save(): Promise<void> {
    if (!isStillWriter() || isHandedOver) return
    const saved = await checkpoint.save(() => {
      return { gateway, position, own: sums.own(now()), resets: resets.all }
    })
    // A process that has become the writer meanwhile may have begun before this was saved.
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
    /** Lines that this process has read since its start, and how many of no known form; bytes that are not read yet. */
    get stats() {
      return { ...read, unreadBytes: follower.unreadBytes }
    },
    /** The first of these figures, for those who ask often. */
    get linesRead(): number {
      return read.lines
    },
    /** How long these lines were together. */
    get bytesRead(): number {
      return bytesRead
    },
    /** How many windows are known. */
    get size(): number {
      return sums.all.size
    },
    /** Whether this gateway has a process that writes. */
    hasWriter: (): boolean => isWriter || isBecoming || !writers.isFree(),
    /** Takes the place of the writer. Resolves once its sums are sent to the store, but not yet answered. */
    async becomeWriter(): Promise<void> {
      isBecoming = true
      try {
        writers.enter()
        await rebuild()
        isWriter = writers.isLast()
        lookedAt = monotonic()
        // In the turn in which the sums are in force: listeners get each line here from now on, or got it before.
        if (isWriter) consumer.begin(position)
      } finally {
        isBecoming = false
      }
      if (!isWriter) return
      shared.begin()
      await save()
    },
    /**
     * Calls back when a file may have grown, or there is another one; returns what ends that, or nothing where it
     * can't be told. `onEnd`: it can't be told any more.
     */
    watch: (onChange: (isMoved: boolean) => void, onEnd: () => void): (() => void) | undefined =>
      folder.watch((changed, isMoved) => {
        if (changed === undefined || files.some((name) => changed.startsWith(name)))
          onChange(isMoved)
      }, onEnd),
    /** Which folder it is that `watch` watches. */
    watched: (): string | undefined => folder.identity(),
    /** Reads what Envoy's script has written since, which does not buffer: little, because a Check waits for it. */
    readEnd(): void {
      if (!isHandedOver) follower.readEnds(checkBytes, files[0])
    },
    /** Reads what was written since; of all files, also new ones, if they have moved. */
    readEnds(isMoved = false): void {
      if (isHandedOver) return
      if (isMoved) follower.catchUp(checkBytes)
      else follower.readEnds(checkBytes)
    },
    /** Looks for new files, and reads all to their ends. */
    readAll: (): Promise<void> => readToEnds(),
    /** To be called each second. */
    beat(): void {
      look()
      if (isWriter) consumer.keep(position)
    },
    /** At each rotation, and at the end. */
    save,
    /**
     * Ends what this gateway has counted under its name, and has the files go on under the next one, if the store
     * has acknowledged all of it; returns whether it has. Nothing is read or sent here afterwards.
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
    /** Leaves the writer's place to another process, and the files. Nothing else is to be called afterwards. */
    close(): void {
      if (isStillWriter()) consumer.keep(position)
      stopWriting()
      writers.leave()
      follower.close()
    },
    /** From now on what ended after it counts in a new window. */
    reset: resets.note,
    /** All that are known. */
    resets: resets.all,
  }
}
