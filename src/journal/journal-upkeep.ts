/**
 * Maintains a gateway's folder while a process runs, and detects its problems. Each task has its own loop, so that an
 * unresponsive Envoy or disk delays no other task.
 */

import { basename } from 'node:path'
import { createRestTimer, type RestTimer, repeat } from '../runtime/loop.ts'
import { createBallast } from './ballast.ts'
import type { Copies } from './copies.ts'
import { createEnvoyLogCheck, type RequestEnvoyAdmin, slowFlushMs } from './envoy-log.ts'
import { openHeadFile } from './head-file.ts'
import type { JournalHealth } from './health.ts'
import type { JournalFiles } from './journal-files.ts'
import type { JournalFolder } from './journal-folder.ts'
import { createMissingLineDetector } from './line-guard.ts'
import { type FileMode, findMismatch, prepareFolder } from './prepare-folder.ts'
import { createRotation, type RotationOptions } from './rotation.ts'

export interface UpkeepOptions
  extends Required<Pick<RotationOptions, 'maxBytes' | 'daily' | 'onRenamed' | 'now'>> {
  readonly files: JournalFiles
  /** Names of the current files. */
  readonly names: readonly string[]
  readonly folder: JournalFolder
  readonly mode: FileMode
  /** Is undefined if the folder itself survives a reboot. */
  readonly copies: Copies | undefined
  readonly askEnvoy: RequestEnvoyAdmin
  readonly isWriter: () => boolean
  /** Called when the folder, or all of its files, were removed and are restored. */
  readonly onRestored?: (() => void) | undefined
  /** Saves a checkpoint; called after a rotation. */
  readonly save: () => Promise<void>
  /** Whether a checkpoint could not be saved otherwise. */
  readonly isSaveDue: () => boolean
  readonly health: JournalHealth
  /** A monotonic clock in milliseconds. */
  readonly monotonic: () => number
}

export type JournalUpkeep = ReturnType<typeof startJournalUpkeep>

const everyMs = 1_000
const checkEnvoyEveryMs = 5_000
/**
 * Time after an allowed request within which a line must arrive, in milliseconds; a slow flush adds twice its interval.
 */
const silentMs = 15_000
/** How long a line that the script could not write remains a problem, in milliseconds. */
const scriptFailedMs = 60_000
/** A disk that has not responded for this long is considered hanging. */
const hangingMs = 5_000

export function startJournalUpkeep(options: UpkeepOptions) {
  const { files, names, folder, mode, copies, isWriter, health, now, monotonic } = options
  const ending = new AbortController()
  const keepingAlarm = createRestTimer(ending.signal)
  const envoy = createEnvoyLogCheck(options.askEnvoy, monotonic)
  const ballast = createBallast(files.ballast)
  let flushMs = 0
  let failed: number | undefined
  let failedAt = Number.NEGATIVE_INFINITY
  let isFull = false
  let keepingSince: number | undefined
  let isSaveDue = false
  const guard = createMissingLineDetector({
    withinMs: () => silentMs + (flushMs > slowFlushMs ? 2 * flushMs : 0),
    monotonic,
    onChange(isFailing) {
      health.note('silent', isFailing ? `no line within ${silentMs / 1_000} s` : undefined)
      // Envoy may be writing a file that is no longer in the folder.
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
    onTried: (error) => health.note('rotation', error),
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

  /** Recreates the folder or files that were removed. Returns whether any was. */
  function restore(): boolean {
    const there = new Set(folder.list().map(({ name }) => name))
    if ([...names, basename(files.head)].every((name) => there.has(name))) return false
    prepareFolder(files, mode)
    noteRenamed()
    rotation.askAgain()
    // The head file is never renamed: it disappears only with the folder.
    if (!there.has(basename(files.head))) options.onRestored?.()
    return true
  }

  /** Checks whether the script failed to write lines. */
  function checkScript(): void {
    const found = withHead((head) => head.read().failed)
    if (failed !== undefined && found > failed) failedAt = monotonic()
    failed = found
    const isRecent = monotonic() - failedAt < scriptFailedMs
    health.note('script', isRecent ? 'the script could not write a line' : undefined)
  }

  async function checkFolder(): Promise<void> {
    let isRestored = false
    try {
      isRestored = restore()
      checkScript()
      health.note('unwritable', undefined)
    } catch (error) {
      health.note('unwritable', error)
    }
    health.note('mismatch', findMismatch(files, mode))
    if (isRestored) {
      // Removed lines exist only in the sums, which are lost if the process is killed.
      isSaveDue = true
      keepingAlarm.ring()
    }
    isFull = await ballast.step(isWriter())
  }

  /** Runs in a loop of its own, because the disk may hang. */
  async function keepLines(): Promise<void> {
    if (!isWriter()) return health.note('kept', undefined)
    keepingSince = monotonic()
    try {
      await copyAndSave()
      health.note('kept', undefined)
    } catch (error) {
      health.note('kept', error)
    } finally {
      keepingSince = undefined
    }
  }

  async function copyAndSave(): Promise<void> {
    try {
      await copies?.step()
    } finally {
      // Also if the copies fail: a checkpoint does not need them.
      if (isSaveDue || options.isSaveDue()) await save()
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

  async function checkEnvoy(): Promise<void> {
    const found = await envoy.check()
    flushMs = found.flushMs
    const isLate = flushMs > slowFlushMs
    health.note('flush', isLate ? `Envoy's log is written every ${flushMs} ms` : undefined)
    // On a full disk the problem persists, even if nothing is written.
    const isFailing = found.isFailing || (isFull && health.has('envoy'))
    health.note('envoy', isFailing ? 'Envoy could not write its log' : undefined)
  }

  function noteHanging(): void {
    if (keepingSince === undefined || monotonic() - keepingSince < hangingMs) return
    health.note('kept', 'the disk does not respond')
  }

  async function rotate(): Promise<void> {
    noteHanging()
    if (!isWriter()) return health.note('rotation', undefined)
    await rotation.step()
  }

  function every(restMs: number, step: () => Promise<void>, alarm?: RestTimer): void {
    // Errors are dropped: each step is repeated, and a lasting failure shows in its effects.
    const { signal } = ending
    void repeat({ step, restMs, onFault: () => {}, signal, ...(alarm && { alarm }) })
  }

  every(everyMs, checkFolder)
  every(everyMs, rotate)
  every(everyMs, keepLines, keepingAlarm)
  every(checkEnvoyEveryMs, checkEnvoy)
  return {
    guard,
    /** Whether Envoy has stopped writing a rotated file. */
    isLeft: rotation.isLeft,
    stop: () => ending.abort(),
  }
}
