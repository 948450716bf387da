/**
 * The sums of one gateway in one of its processes: it follows the gateway's files, and, if it is the
 * writer, keeps a checkpoint and writes the sums to the store. Every process has them exactly, whether the
 * store answers or not.
 */

import { type Counted, createSums } from '../../core/counting/sums.ts'
import { ownOf, type Tally } from '../../core/counting/tally.ts'
import type { CounterReset, Resets } from '../../core/counting/windows.ts'
import { createCheckpoint, type Positions } from '../../journal/checkpoint.ts'
import type { Folder, Listed } from '../../journal/folder.ts'
import { createFollower, type Follower, type Position } from '../../journal/follower.ts'
import type { KeptFiles } from '../../journal/kept-files.ts'
import type { CountedReader } from '../../journal/line.ts'
import { createWriters } from '../../journal/writers.ts'
import { inSlices } from '../../runtime/slices.ts'
import { createSharedSums, type SharedSumsOptions } from './shared-sums.ts'

export interface GatewaySumsOptions
  extends Omit<SharedSumsOptions, 'sums' | 'nonce' | 'isWriter' | 'onBeyond' | 'onRival'> {
  readonly folder: Folder
  readonly kept: KeptFiles
  /** The files that are followed, by their names. */
  readonly files: readonly string[]
  readonly read: CountedReader
  /** Resets that are known at the start. */
  readonly resets?: Resets
  /** How many renamed files of each are kept; 4 by default. */
  readonly keptFiles?: number
  /** Whether a renamed file may be removed once its lines are saved, as far as others are concerned. */
  readonly isDone?: (file: Listed) => boolean
  /** Another gateway writes under the same name: a copied volume. */
  readonly onDouble: () => void
  /** What failed in the background, and is tried again. */
  readonly onFault: (error: unknown) => void
}

/** Where the sums are, and in what they are kept. */
const [writersFile, checkpointFile] = ['usage.writers', 'usage.sums']
/** Of one counter, the latest ones; what ended before them is not looked at any more. */
const maxResets = 4
/** What a Check reads at most before it decides. */
const checkBytes = 65_536
/** What is read at once before the store is believed to have more than the files. */
const catchUpBytes = 1_048_576

export type GatewaySums = Awaited<ReturnType<typeof openGatewaySums>>

/** Resolves once the files are read to their ends. The process is no writer until `becomeWriter`. */
export async function openGatewaySums(options: GatewaySumsOptions) {
  const { folder, kept, files, read, now, monotonic, keptFiles = 4 } = options
  const writers = createWriters(folder, writersFile, now)
  const checkpoint = createCheckpoint(kept, checkpointFile, writers.nonce)
  const resets = new Map<string, readonly CounterReset[]>()
  const sums = createSums(resets, monotonic)
  let isWriter = false
  let isBecoming = false
  let followers: readonly Follower[] = []
  let positions: Positions = new Map()
  const adopting = new Set<Tally>()
  const shared = createSharedSums({
    ...options,
    ...{ sums, nonce: writers.nonce },
    isWriter: () => isWriter,
    onBeyond: adopt,
    onRival(rival) {
      if (!writers.all().includes(rival)) options.onDouble()
      beat()
    },
  })

  function follow(from: Positions, count: (counted: Counted) => void): readonly Follower[] {
    function take(line: string): void {
      const counted = read(line)
      if (counted !== undefined) count(counted)
    }
    return files.map((name) => {
      return createFollower({ folder, name, position: from.get(name) as Position, take, now })
    })
  }

  /**
   * Takes sums and positions from the checkpoint, and reads on from there. What was known until now stays in
   * force until then: the last writer may have removed files that this process had not read.
   */
  async function rebuild(): Promise<void> {
    const state = await checkpoint.load(writers.all())
    noteResets(state.resets)
    const from = new Map(files.map((name) => [name, new Map(state.positions.get(name))]))
    const rebuilt = createSums(resets, monotonic)
    rebuilt.replaceOwn(state.own)
    let into: (counted: Counted) => void = (counted) => void rebuilt.count(counted, now())
    const next = follow(from, (counted) => into(counted))
    try {
      await readToEnds(next)
    } catch (error) {
      for (const follower of next) follower.close()
      throw error
    }
    // What a Check has read meanwhile must not be missing for a moment.
    for (const follower of next) follower.readEnds(Number.POSITIVE_INFINITY)
    for (const follower of followers) follower.close()
    sums.replaceOwn(rebuilt.own(now()))
    into = shared.count
    positions = from
    followers = next
  }

  /** Whether this process still is the one that writes. */
  function beat(): boolean {
    if (isWriter && !writers.isLast()) isWriter = false
    return isWriter
  }

  async function readToEnds(all: readonly Follower[] = followers): Promise<void> {
    for (const follower of all) await inSlices(follower.readAll())
  }

  /** Counts as this gateway's what the store has of it beyond the lines: the disk has lost them. */
  function adopt(tally: Tally): void {
    if (adopting.has(tally)) return
    // Another process of this gateway may have read further, and whatever it has sent is in the files. Lines that
    // are written after the store's answer are not in it, so they are read before time goes on.
    if (!followers.every((follower) => follower.catchUp(catchUpBytes))) {
      void readToEnds().then(() => shared.enter(tally), options.onFault)
      return
    }
    const base = tally.base + tally.field - ownOf(tally)
    if (base <= tally.base || !beat()) return
    adopting.add(tally)
    void keepBase(tally, base)
      .catch(options.onFault)
      .finally(() => adopting.delete(tally))
  }

  /** Written down before anything is sent that includes it, so that a killed process finds it again. */
  async function keepBase(tally: Tally, base: number): Promise<void> {
    await checkpoint.noteBase(tally, base)
    tally.base = Math.max(tally.base, base)
    shared.enter(tally)
  }

  /** Saves the sums, then removes what nobody needs any more. */
  async function save(): Promise<void> {
    if (!beat()) return
    const saved = await checkpoint.save(() => ({ positions, own: sums.own(now()), resets }))
    // A process that has become the writer meanwhile may have begun before this was saved.
    if (!beat()) return
    for (const [i, name] of files.entries()) {
      followers[i]?.tidy(saved.get(name) as Position, keptFiles, options.isDone)
    }
    await checkpoint.removeEarlier()
  }

  function noteReset(key: string, reset: CounterReset): void {
    const known = resets.get(key) ?? []
    if (known.some(({ at }) => at === reset.at)) return
    const latest = [...known, reset].toSorted((a, b) => a.at - b.at).slice(-maxResets)
    resets.set(key, latest)
  }

  function noteResets(all: Resets): void {
    for (const [key, each] of all) for (const reset of each) noteReset(key, reset)
  }

  noteResets(options.resets ?? new Map())
  await rebuild()
  return {
    shared,
    nonce: writers.nonce,
    get isWriter(): boolean {
      return isWriter
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
      } finally {
        isBecoming = false
      }
      if (!isWriter) return
      shared.begin()
      await save()
    },
    /** Calls back when a file may have grown; returns what ends that, or nothing where it can't be told. */
    watch: (onChange: () => void): (() => void) | undefined => folder.watch(onChange),
    /** Reads what was written since: little at once, because a Check waits for it. */
    readEnds(): void {
      for (const follower of followers) follower.readEnds(checkBytes)
    },
    /** Looks for new files, and reads all to their ends. */
    readAll: (): Promise<void> => readToEnds(),
    /** To be called each second. */
    beat(): void {
      if (beat() || isBecoming) writers.show()
    },
    /** At each rotation, and at the end. */
    save,
    /** Leaves the writer's place to another process, and the files. Nothing else is to be called afterwards. */
    close(): void {
      isWriter = false
      writers.leave()
      for (const follower of followers) follower.close()
    },
    /** From now on what ended after it counts in a new window. */
    reset: noteReset,
  }
}
