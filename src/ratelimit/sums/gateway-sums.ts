/**
 * The sums of one gateway in one of its processes. Each process follows the gateway's files, so each has exact sums,
 * whether the store responds or not. The writer also saves a checkpoint and sends the sums to the store.
 */

import { createCheckpoint, type KeptState } from '../../journal/checkpoint.ts'
import type { DurableFiles } from '../../journal/durable-files.ts'
import type { JournalPosition } from '../../journal/follower.ts'
import type { JournalFolder } from '../../journal/journal-folder.ts'
import type { JournalLine } from '../../journal/journal-line.ts'
import { createLineDelivery } from '../../journal/line-delivery.ts'
import type { IsDone } from '../../journal/remove-saved.ts'
import { createWriterElection } from '../../journal/writer-election.ts'
import { createWindowSums, isEnded, type LineUse, type OwnSum } from '../rules/sums.ts'
import { ownUseOf } from '../rules/tally.ts'
import type { Resets } from '../rules/windows.ts'
import { createKnownResets } from './known-resets.ts'
import { createLineTail, type LineTailOptions } from './line-tail.ts'
import { createLostUseRecovery } from './lost-use-recovery.ts'
import { createSharedSums, type SharedSumsOptions } from './shared-sums.ts'
import { createWriterRole } from './writer-role.ts'

/** The handlers of each line. */
export interface LineHandlers extends Pick<LineTailOptions, 'readText' | 'countedOf'> {
  /** Called in every process for each line after it is counted, except lines from before the process's start. */
  readonly onLine?: (line: JournalLine, counted: readonly LineUse[]) => void
  /**
   * Called only in the writer, for each line after it is counted: once per gateway. When a writer is killed, lines of
   * at most one second are passed twice or not at all. `isEarlier`: it may be from before the process's start.
   */
  readonly onDelivered?: (line: JournalLine, isEarlier: boolean) => void
}

export interface GatewaySumsOptions
  extends LineHandlers,
    Omit<SharedSumsOptions, 'sums' | 'nonce' | 'isWriter' | 'onBeyond' | 'onRival'> {
  readonly folder: JournalFolder
  readonly kept: DurableFiles
  /** Names of the current files. A Check reads the first of them to its end before it decides. */
  readonly files: readonly string[]
  /** Prefix of the names of all files of the folder; `usage` by default. */
  readonly stem?: string
  /** The resets known at the start. */
  readonly resets?: Resets
  /** The position from which files are read if there is no checkpoint with one. */
  readonly begunAt?: JournalPosition | undefined
  /** How many rotated files of each name are retained; 4 by default. */
  readonly keptFiles?: number
  /** Whether all other readers are done with a rotated file, so that it may be removed once its lines are saved. */
  readonly isDone?: IsDone
  /** Called when another gateway writes under the same name: a copied volume. */
  readonly onDouble: () => void
  /** Called when the files were handed over to this gateway name, under which the caller must open them again. */
  readonly onRenamed?: (gateway: string, position: JournalPosition) => void
  /** Called for errors of background work, which is retried. */
  readonly onFault: (error: unknown) => void
}

export type GatewaySums = Awaited<ReturnType<typeof openGatewaySums>>

/** Resolves once the files are read to their ends. The process is not a writer until `becomeWriter`. */
export async function openGatewaySums(options: GatewaySumsOptions) {
  const { folder, kept, files, gateway, now, monotonic, keptFiles = 4, stem = 'usage' } = options
  const { readText, onFault } = options
  const writers = createWriterElection(folder, `${stem}.writers`, now)
  const checkpoint = createCheckpoint(kept, `${stem}.sums`, files, writers.nonce)
  const resets = createKnownResets(options.resets)
  const sums = createWindowSums(resets.all, monotonic)
  const delivery = createLineDelivery({
    ...{ folder, names: files, file: `${stem}.told`, now, readText, onFault, deliver },
  })
  /** Whether the disk lacks the checkpoint of this writer, or use that it has recovered. */
  let isUnsaved = false
  const role = createWriterRole(writers, monotonic, {
    onBegin() {
      isUnsaved = true
      delivery.begin(tail.position)
    },
    onEnd: delivery.end,
  })
  const shared = createSharedSums({
    ...options,
    sums,
    nonce: writers.nonce,
    isWriter: () => role.isWriter,
    onBeyond(tally) {
      if (!tail.isPaused) lostUse.recover(tally)
    },
    onRival(rival) {
      if (!writers.all().includes(rival)) options.onDouble()
      role.confirm()
    },
  })
  const tail = createLineTail({
    ...options,
    resets: resets.all,
    sums,
    count: shared.count,
    onRead(line, counted) {
      report(() => options.onLine?.(line, counted))
      if (delivery.isOn) deliver(line, false)
    },
  })
  const lostUse = createLostUseRecovery({
    catchUp: tail.catchUp,
    readToEnds: tail.readAll,
    isWriter: role.confirm,
    noteBase: checkpoint.noteBase,
    enqueue: shared.enqueue,
    onUnsaved() {
      isUnsaved = true
    },
    onFault,
  })

  /** Passes a line to the listener of the writer. */
  function deliver(line: JournalLine, isEarlier: boolean): void {
    report(role.renewIfDue)
    if (role.isWriter) report(() => options.onDelivered?.(line, isEarlier))
  }

  /** Errors of `act` are reported, and do not affect counting. */
  function report(act: () => void): void {
    try {
      act()
    } catch (error) {
      onFault(error)
    }
  }

  /** Rebuilds the sums from the latest checkpoint and the lines after it. */
  async function rebuild(): Promise<void> {
    const state = await checkpoint.load(writers.all())
    const { gateway: owner = gateway } = state
    // Without a store the name is not visible to other gateways.
    if (owner !== gateway && options.store !== undefined) {
      options.onRenamed?.(owner, state.position)
      throw new Error(`the sums belong to gateway ${owner}, not to ${gateway}`)
    }
    resets.noteAll(state.resets)
    await tail.rebuild(state)
  }

  /** Call it when the state is saved: sums and position belong together. */
  function stateOf(owner: string, own: readonly OwnSum[]): KeptState {
    return { gateway: owner, position: tail.position, own, resets: resets.all }
  }

  /** Saves a checkpoint, then removes files and checkpoints that are no longer needed. */
  async function save(): Promise<void> {
    if (!role.confirm() || tail.isPaused) return
    const saved = await checkpoint.save(() => stateOf(gateway, sums.own(now())))
    isUnsaved = false
    // Another process that became the writer meanwhile may have read the checkpoint before this one.
    if (!role.confirm()) return
    tail.tidy(saved, keptFiles, options.isDone)
    await checkpoint.removeEarlier()
  }

  /**
   * Hands the files over to the gateway name `next`, if the store has acknowledged all sums under the present name;
   * returns whether it has. Afterwards nothing more is read or sent here. `rename` writes the new name, under which lines
   * from this position on count.
   */
  async function handOver(next: string, rename: (from: JournalPosition) => void): Promise<boolean> {
    if (!role.confirm() || lostUse.isPending) return false
    const unsent = sums.own(now()).filter((tally) => tally.field < ownUseOf(tally))
    if (unsent.some((tally) => !isEnded(tally, now()))) return false
    tail.isPaused = true
    try {
      delivery.savePosition(tail.position)
      await checkpoint.save(() => stateOf(next, []))
      rename(tail.position)
    } catch {
      // After a crash, lines from here on would count under both names.
      const saving = checkpoint.save(() => stateOf(gateway, sums.own(now())))
      // The upkeep saves again, and reports the disk.
      isUnsaved = await saving.then(
        () => false,
        () => true,
      )
      tail.isPaused = false
      return false
    }
    return true
  }

  await rebuild()
  delivery.noteStart(tail.position)
  return {
    shared,
    tail,
    get isWriter(): boolean {
      return role.isWriter
    },
    /** Number of windows in memory. */
    get size(): number {
      return sums.all.size
    },
    /** Whether this gateway has a writer. */
    hasWriter: role.isTaken,
    /**
     * Becomes the writer. Resolves once the sums are queued for the store and the checkpoint is saved, or the disk has
     * failed.
     */
    async becomeWriter(): Promise<void> {
      if (!(await role.claim(rebuild))) return
      shared.begin()
      await save().catch(() => {})
    },
    /** Whether the writer must save again, because the disk has failed. */
    isSaveDue: (): boolean => isUnsaved,
    /** Call it once a second. Errors are reported. */
    renewRole(): void {
      report(() => {
        role.renew()
        if (role.isWriter) delivery.savePosition(tail.position)
      })
    },
    /** Call at each rotation and at shutdown. */
    save,
    handOver,
    /** Releases the writer's place and closes the files; errors are reported. Call nothing else afterwards. */
    close(): void {
      report(() => {
        if (role.confirm()) delivery.savePosition(tail.position)
        role.leave()
      })
      tail.close()
    },
    /** Notes a reset: responses that end after it count in a new window. */
    reset: resets.note,
    /** All known resets, by counter key. */
    resets: resets.all,
  }
}
