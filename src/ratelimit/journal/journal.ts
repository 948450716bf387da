/**
 * The usage journal: the file in which Envoy records the usage of each metered response. One of the
 * processes that share their counters reads it; the others wait for its claim to expire.
 */

import { atMost } from '../../runtime/at-most.ts'
import { repeat } from '../../runtime/loop.ts'
import type { JournaledCounters } from '../../store/counters.ts'
import type { Settle } from '../settle.ts'
import type { ListedFile } from './folder.ts'
import { createJournalReader, type JournalStats } from './reader.ts'
import { createReopening } from './reopening.ts'
import { createJournalRotation } from './rotation.ts'
import { createJournalWatch, type JournalProblem } from './watch.ts'

export interface JournalOptions {
  /** The file that Envoy writes, at the same path in all processes that share their counters. */
  readonly path: string
  /** Size in bytes at which it is renamed and a new file begun. */
  readonly rotateBytes: number
  readonly settle: Settle
  readonly counters: JournaledCounters
  /** Whether the counters outlive this process. */
  readonly lasting: boolean
  /** Milliseconds since the epoch. */
  readonly clock: () => number
  /** A monotonic clock in milliseconds; `performance.now` by default. */
  readonly monotonic?: () => number
  /** Makes Envoy reopen the file. */
  readonly reopen: () => Promise<void>
  readonly log: JournalLog
  /** Whether whoever else reads the journal is done with a file; by default nobody does. */
  readonly isRead?: (file: ListedFile) => boolean
  /** Whether it is also renamed at the end of a day (UTC). */
  readonly daily?: boolean
}

/** The logger's methods that are used here. */
export type JournalLog = Record<
  'info' | 'warn' | 'error',
  (fields: Record<string, unknown>, message: string) => void
>

export type Journal = ReturnType<typeof createJournal>

const problems: Record<JournalProblem, string> = {
  missing: 'the usage journal is missing: asking Envoy to reopen it',
  stuck: 'the usage journal does not grow although responses end: asking Envoy to reopen it',
}

const readEveryMs = 500
const pollMs = 500
const tidyEveryMs = 1_000
const measureEveryMs = 1_000
const progressEveryMs = 5_000
/** A claim that is not renewed expires after this time. */
const claimMs = 4_000
const renewEveryMs = 1_000
const defaultGraceMs = 1_000
/** Part of it that is reserved for releasing the claim. */
const leaveMs = 200

/** A journal that is read after `start`. */
export function createJournal(options: JournalOptions) {
  const { path, counters, lasting, clock, log } = options
  const monotonic = options.monotonic ?? (() => performance.now())
  const ending = new AbortController()
  let stopped = false
  /** In monotonic time. */
  let claimedUntil = Number.NEGATIVE_INFINITY
  /** Changes each time the claim is acquired again, because others may have read in between. */
  let claimEpoch = 0
  let unreadBytes = 0
  let readIn = 0
  let reading: Promise<void> = Promise.resolve()
  let over: Promise<unknown> = Promise.resolve()

  // Counters in memory belong to this process alone.
  const isReader = (): boolean => !lasting || monotonic() < claimedUntil
  const reader = createJournalReader({
    path,
    settle: options.settle,
    counters,
    lasting,
    clock,
    mayRead: () => !stopped && isReader() && readIn === claimEpoch,
    onProblem: (problem) => log.warn({ journal: path, problem }, 'usage journal'),
  })
  const reopen = createReopening({
    reopen: options.reopen,
    clock,
    onReopen(failure) {
      if (failure === undefined) log.info({ journal: path }, 'Envoy reopens its journal')
      else
        log.warn(
          { journal: path, cause: String(failure) },
          'Envoy cannot be made to reopen its journal',
        )
    },
  })
  const watch = createJournalWatch({
    path,
    reopen,
    monotonic,
    onChange(problem) {
      if (problem === undefined) log.info({ journal: path }, 'the usage journal is written again')
      else log.error({ journal: path }, problems[problem])
    },
    onRemoved: () => log.error({ journal: path }, 'the usage journal was removed'),
  })
  const tidy = createJournalRotation({
    path,
    rotateBytes: options.rotateBytes,
    daily: options.daily ?? false,
    reopen,
    isReader,
    isDone: (file) => reader.isDone(file) && (options.isRead?.(file) ?? true),
    clock,
    onLoss: (file) =>
      log.error({ file }, 'the usage journal is not read; its oldest part was removed'),
  })
  const faults = new Set<string>()

  /** Logs a persistent error once. */
  async function attempt(what: string, action: () => Promise<void>): Promise<void> {
    try {
      await action()
      faults.delete(what)
    } catch (error) {
      if (!stopped && !faults.has(what)) log.error({ journal: path, err: error }, what)
      faults.add(what)
    }
  }

  async function claim(): Promise<void> {
    const askedAt = monotonic()
    const wasReader = isReader()
    if (!(await counters.claimJournal(claimMs))) return
    if (!wasReader) claimEpoch += 1
    claimedUntil = askedAt + claimMs
  }

  async function read(): Promise<void> {
    if (!isReader()) return
    if (readIn !== claimEpoch) await reader.reset()
    readIn = claimEpoch
    await reader.readAll()
  }

  function keep(restMs: number, what: string, action: () => Promise<void>): Promise<void> {
    const step = () => attempt(what, action)
    return repeat({ step, restMs, onFault: () => {}, signal: ending.signal })
  }

  /**
   * Reads the lines written since the last read. Not needed for counters that end with this
   * process.
   */
  async function readLast(): Promise<void> {
    await reading
    if (!lasting) return
    await attempt('the usage journal cannot be claimed', claim)
    await attempt('the usage journal cannot be read', read)
  }

  /** Releases the claim to another process at once. */
  async function leave(): Promise<void> {
    await attempt('the usage journal cannot be left', async () => {
      await counters.claimJournal(1)
    })
  }

  /** Reads the whole journal, for counters that start empty. */
  async function replay(): Promise<void> {
    const begin = performance.now()
    const progress = setInterval(() => {
      log.info({ journal: path, ...reader.stats }, 'reading the usage journal')
    }, progressEveryMs)
    try {
      await attempt('the usage journal cannot be read', read)
    } finally {
      clearInterval(progress)
    }
    const ms = Math.round(performance.now() - begin)
    const { lines } = reader.stats
    if (lines > 0) log.info({ journal: path, lines, ms }, 'usage journal read')
  }

  return {
    /** Counts are those of this process; `unreadBytes` is the same at every process. */
    get stats(): JournalStats & {
      /** Whether the file is missing, or does not grow although the stream reports responses. */
      readonly failing: boolean
    } {
      return { ...reader.stats, unreadBytes, failing: watch.problem !== undefined }
    },
    /** Whether this process reads the journal for all that share their counters. */
    isReader,
    /** The stream has reported a response for which Envoy writes a line. */
    noteReported: watch.noteReported,
    /**
     * Reads until stopped. Resolves at once, or for counters that start empty, once they have the
     * whole journal.
     */
    async start(): Promise<void> {
      if (!lasting) await replay()
      reading = keep(readEveryMs, 'the usage journal cannot be read', read)
      over = Promise.all([
        lasting && keep(renewEveryMs, 'the usage journal cannot be claimed', claim),
        keep(pollMs, 'the usage journal cannot be looked at', watch.poll),
        keep(tidyEveryMs, 'the usage journal cannot be rotated', tidy),
        keep(measureEveryMs, 'the usage journal cannot be measured', async () => {
          unreadBytes = await reader.countUnread()
        }),
      ])
    },
    /**
     * Reads the rest if this process holds the claim, because the file may be removed with it, like
     * a pod's volume. Then stops reading. Ends after `graceMs` (1 second by default), even if the
     * counters are unavailable.
     */
    async stop(graceMs = defaultGraceMs): Promise<void> {
      if (ending.signal.aborted) return
      ending.abort()
      await atMost(graceMs - leaveMs, readLast())
      stopped = true
      await atMost(leaveMs, Promise.all([over, lasting && isReader() && leave()]))
      await reader.reset()
    },
  }
}
