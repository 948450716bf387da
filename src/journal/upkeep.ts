/**
 * Keeps a gateway's folder in order while a process runs, and finds out what is wrong with it: each part in
 * a loop of its own, so that none waits for Envoy or a disk that does not answer another one.
 */

import { basename } from 'node:path'
import { type Alarm, createAlarm, repeat } from '../runtime/loop.ts'
import { createBallast } from './ballast.ts'
import type { Copies } from './copies.ts'
import { type AskEnvoy, createEnvoyLog, slowFlushMs } from './envoy-log.ts'
import type { JournalFiles } from './files.ts'
import type { Folder } from './folder.ts'
import { openHeadFile } from './head-file.ts'
import type { JournalHealth } from './health.ts'
import { createLineGuard } from './line-guard.ts'
import { type FileMode, findMismatch, prepareFolder } from './prepare-folder.ts'
import { createRotation, type RotationOptions } from './rotation.ts'

export interface UpkeepOptions
  extends Required<Pick<RotationOptions, 'maxBytes' | 'daily' | 'onRenamed' | 'now'>> {
  readonly files: JournalFiles
  /** Names of the files with lines. */
  readonly names: readonly string[]
  readonly folder: Folder
  readonly mode: FileMode
  /** Undefined where the folder outlives the machine's memory itself. */
  readonly copies: Copies | undefined
  readonly askEnvoy: AskEnvoy
  readonly isWriter: () => boolean
  /** Saves the sums; called when a file was renamed. */
  readonly save: () => Promise<void>
  readonly health: JournalHealth
  /** A monotonic clock in milliseconds. */
  readonly monotonic: () => number
}

export type Upkeep = ReturnType<typeof startUpkeep>

const everyMs = 1_000
const lookEveryMs = 5_000
/** Without a line for this long something is wrong, and twice a slow flush later. */
const silentMs = 15_000
/** A line that the script could not write makes the journal suspicious for so long. */
const scriptFailedMs = 60_000
/** A disk that has not answered for this long hangs. */
const hangingMs = 5_000

export function startUpkeep(options: UpkeepOptions) {
  const { files, names, folder, mode, copies, isWriter, health, now, monotonic } = options
  const ending = new AbortController()
  const keepingAlarm = createAlarm(ending.signal)
  const envoy = createEnvoyLog(options.askEnvoy, monotonic)
  const ballast = createBallast(files.ballast)
  let flushMs = 0
  let failed: number | undefined
  let failedAt = Number.NEGATIVE_INFINITY
  let isFull = false
  let keepingSince: number | undefined
  let isSaveDue = false
  const guard = createLineGuard({
    withinMs: () => silentMs + (flushMs > slowFlushMs ? 2 * flushMs : 0),
    monotonic,
    onChange(isFailing) {
      health.note('silent', isFailing ? `no line within ${silentMs / 1_000} s` : undefined)
      // Envoy may write a file that no process reads.
      if (isFailing) rotation.askAgain()
    },
  })
  const rotation = createRotation({
    folder,
    files: names,
    framed: [basename(files.script)],
    now,
    maxBytes: options.maxBytes,
    daily: options.daily,
    reopen: envoy.reopen,
    onRenamed() {
      noteRenamed()
      options.onRenamed()
      isSaveDue = true
    },
  })

  function withHead<Result>(act: (head: ReturnType<typeof openHeadFile>) => Result): Result {
    const head = openHeadFile(files.head, mode)
    try {
      return act(head)
    } finally {
      head.close()
    }
  }

  function noteRenamed(): void {
    withHead((head) => head.noteRenamed())
  }

  /** Recreates the folder, or files of it, that were removed. Returns whether any was. */
  function restore(): boolean {
    const there = new Set(folder.list().map(({ name }) => name))
    if ([...names, basename(files.head)].every((name) => there.has(name))) return false
    prepareFolder(files, mode)
    noteRenamed()
    rotation.askAgain()
    return true
  }

  /** Looks for lines that the script could not write. */
  function lookAtScript(): void {
    const found = withHead((head) => head.read().failed)
    if (failed !== undefined && found > failed) failedAt = monotonic()
    failed = found
    const isRecent = monotonic() - failedAt < scriptFailedMs
    health.note('script', isRecent ? 'the script could not write a line' : undefined)
  }

  async function look(): Promise<void> {
    let isRestored = false
    try {
      isRestored = restore()
      lookAtScript()
      health.note('unwritable', undefined)
    } catch (error) {
      health.note('unwritable', error)
    }
    health.note('mismatch', findMismatch(files, mode))
    if (isRestored) {
      // Lines that were removed are in the sums alone, which a process that is killed loses.
      isSaveDue = true
      keepingAlarm.ring()
    }
    isFull = await ballast.step(isWriter())
  }

  /** Written in the background: the disk may hang. */
  async function keepLines(): Promise<void> {
    if (!isWriter()) return
    keepingSince = monotonic()
    try {
      await copies?.step()
      if (isSaveDue) await save()
      health.note('kept', undefined)
    } catch (error) {
      health.note('kept', error)
    } finally {
      keepingSince = undefined
    }
  }

  async function save(): Promise<void> {
    isSaveDue = false
    try {
      await options.save()
    } catch (error) {
      isSaveDue = true
      throw error
    }
  }

  async function lookAtEnvoy(): Promise<void> {
    const found = await envoy.look()
    flushMs = found.flushMs
    const isLate = flushMs > slowFlushMs
    health.note('flush', isLate ? `Envoy's log is written every ${flushMs} ms` : undefined)
    // A full disk takes no line, whether somebody tries or not.
    const isFailing = found.isFailing || (isFull && health.has('envoy'))
    health.note('envoy', isFailing ? 'Envoy could not write its log' : undefined)
  }

  function noteHanging(): void {
    if (keepingSince === undefined || monotonic() - keepingSince < hangingMs) return
    health.note('kept', 'the disk does not answer')
  }

  async function rotate(): Promise<void> {
    noteHanging()
    if (!isWriter()) return
    await rotation.step()
  }

  function keep(restMs: number, step: () => Promise<void>, alarm?: Alarm): void {
    // What fails is tried again, and seen by what follows from it.
    const { signal } = ending
    void repeat({ step, restMs, onFault: () => {}, signal, ...(alarm && { alarm }) })
  }

  keep(everyMs, look)
  keep(everyMs, rotate)
  keep(everyMs, keepLines, keepingAlarm)
  keep(lookEveryMs, lookAtEnvoy)
  return {
    guard,
    /** Whether Envoy was made to leave a renamed file. */
    isLeft: rotation.isLeft,
    stop: () => ending.abort(),
  }
}
