/**
 * Opens the sums of a gateway from its journal, and keeps that in order: its folder, its name, files that
 * have grown, their copies, and whether lines come at all.
 */

import { realpathSync } from 'node:fs'
import { basename, join } from 'node:path'
import { createCopies } from '../../journal/copies.ts'
import { readEarlierPosition } from '../../journal/earlier-position.ts'
import type { AskEnvoy } from '../../journal/envoy-log.ts'
import { filesOf, keptJournalOf } from '../../journal/files.ts'
import { type Folder, type Listed, openFolder } from '../../journal/folder.ts'
import type { Position } from '../../journal/follower.ts'
import { createJournalHealth, type JournalProblem } from '../../journal/health.ts'
import { openKeptFiles } from '../../journal/kept-files.ts'
import { inventName, openName } from '../../journal/name.ts'
import { type FileMode, prepareFolder } from '../../journal/prepare-folder.ts'
import { startUpkeep, type Upkeep } from '../../journal/upkeep.ts'
import { repeat } from '../../runtime/loop.ts'
import { withTimeout } from '../../runtime/with-timeout.ts'
import type { Counter } from '../rules/counter.ts'
import type { CounterReset, Resets, WindowedCounter } from '../rules/windows.ts'
import { type GatewaySums, type GatewaySumsOptions, openGatewaySums } from './gateway-sums.ts'
import { type RunningSums, type RunningSumsOptions, runSums } from './running-sums.ts'

export interface SumsOptions
  extends Pick<
      GatewaySumsOptions,
      'store' | 'longSums' | 'tagOf' | 'tags' | 'countedOf' | 'onLine' | 'onTold' | 'resets'
    >,
    Pick<GatewaySumsOptions, 'now' | 'monotonic' | 'keptFiles'>,
    Pick<RunningSumsOptions, 'flushMs' | 'onLoss' | 'onUnavailable' | 'onFault'> {
  /** USAGE_JOURNAL. */
  readonly path: string
  readonly dataDir: string
  readonly mode: FileMode
  /** At this size in bytes a file is renamed; with `daily` at the end of a day (UTC), too. */
  readonly maxBytes: number
  readonly daily?: boolean
  /** Asks Envoy's admin page. */
  readonly askEnvoy: AskEnvoy
  /** Whether whoever else reads files is done with one, so that it may be removed once it is saved. */
  readonly isDone?: (file: Listed) => boolean
  /** Called once when something begins to be wrong with the journal, and once when it ends. */
  readonly onProblem: (problem: JournalProblem, isThere: boolean, cause: unknown) => void
  /** The store has lost something of what it had acknowledged. */
  readonly onLost: () => void
  /** The gateway goes on under another name: its volume is a copy. */
  readonly onRenamed?: (from: string, to: string) => void
}

/** Others look for the name each second. */
const othersLookMs = 3_000
const beatMs = 1_000
/** What the ledger has not read may take so many bytes of memory, or so many files of a disk. */
const [waitingBytes, waitingFiles] = [128 * 1_048_576, 60]
/** How long an end waits for a disk. */
const endMs = 2_000

export type OpenSums = Awaited<ReturnType<typeof openSums>>

/** Resolves once the files are read to their ends. Throws or rejects if the journal can't be used. */
export async function openSums(options: SumsOptions) {
  const { path, dataDir, mode, store, now, monotonic, onFault } = options
  const files = filesOf(path)
  const kept = keptJournalOf(path, dataDir)
  const names = [files.script, files.envoy].map((each) => basename(each))
  const folder = openFolder(files.folder, mode)
  prepareFolder(files, mode)
  const name = openName({ kept: kept.name, shared: files.name, journal: path })
  const isApart = realpathSync(files.folder) !== realpathSync(kept.folder)
  const copies = isApart
    ? createCopies({ folder, path: files.folder, keptPath: kept.folder, files: names })
    : undefined
  await copies?.fill()
  const mostFiles = isApart
    ? Math.max(8, Math.floor(waitingBytes / options.maxBytes))
    : waitingFiles
  const keptFiles = openKeptFiles(kept.folder)
  /** With a file its copy goes. */
  const ownFolder: Folder = {
    ...folder,
    remove(file) {
      folder.remove(file)
      void copies?.remove(file).catch(onFault)
    },
  }
  const health = createJournalHealth(options.onProblem)
  let resets: Resets = options.resets ?? new Map()
  const ending = new AbortController()
  let losses = 0
  let isCopied = name.isCopied
  let upkeep: Upkeep | undefined
  /** The sums of this name have ended, and those of the next are not there yet. */
  let isBetween = false
  let current = await open(0)

  /** Of the version before, whose journal may have been where the copies are now. */
  function earlierPosition(): Position {
    const found = readEarlierPosition(path, folder)
    if (found.size > 0 || !isApart) return found
    return readEarlierPosition(join(kept.folder, basename(path)), openFolder(kept.folder))
  }

  async function open(writesFrom: number): Promise<Opened> {
    for (;;) {
      let handedOverTo: string | undefined
      try {
        const sums = await openGatewaySums({
          ...options,
          gateway: name.name,
          folder: ownFolder,
          kept: keptFiles,
          files: names,
          resets,
          stem: basename(files.head, '.head'),
          begunAt: store === undefined ? undefined : earlierPosition(),
          isDone: (file, newer) => isLeft(file) && (newer >= mostFiles || isRead(file)),
          onLine(line, counted) {
            upkeep?.guard.noteLine()
            options.onLine?.(line, counted)
          },
          onLoss() {
            losses += 1
            options.onLost()
          },
          onDouble() {
            isCopied = true
          },
          onRenamed(next) {
            handedOverTo = next
          },
        })
        return { sums, running: run(sums, writesFrom) }
      } catch (error) {
        // Another process is handing over, or was killed before the name said so.
        if (handedOverTo === undefined) throw error
        name.take(handedOverTo)
      }
    }
  }

  function run(sums: GatewaySums, writesFrom: number): RunningSums {
    return runSums({
      ...options,
      sums,
      writesFrom,
      isFailing,
      onRead(error) {
        health.note('unreadable', error)
        if (error === undefined) upkeep?.guard.poll()
      },
    })
  }

  /** Whether nothing is to be allowed. */
  function isFailing(): boolean {
    if (!health.isFailing) return false
    return health.isFailingBeside('silent') || upkeep?.guard.mayTry() !== true
  }

  /** Others, too. */
  function isRead(file: Listed): boolean {
    return options.isDone?.(file) ?? true
  }

  function isLeft(file: Listed): boolean {
    return upkeep?.isLeft(file) === true
  }

  /** To be called each second: a copied volume gets a name of its own, once the store has what was counted there. */
  async function tend(): Promise<void> {
    if (isBetween || name.refresh()) return await goOn(0)
    if (!isCopied || !current.sums.isWriter) return
    if (store === undefined) name.take(name.name)
    else {
      if (current.running.isUnavailable) return
      const [from, to] = [name.name, inventName()]
      if (!(await current.running.handOver(to))) return
      name.take(to)
      options.onRenamed?.(from, to)
      await goOn(monotonic() + othersLookMs)
    }
    isCopied = false
  }

  /** Goes on under the name that is in force now. */
  async function goOn(writesFrom: number): Promise<void> {
    isBetween = true
    await current.running.end()
    resets = current.sums.resets
    current = await open(writesFrom)
    isBetween = false
  }

  upkeep = startUpkeep({
    files,
    names,
    folder,
    mode,
    copies,
    health,
    now,
    monotonic,
    maxBytes: options.maxBytes,
    daily: options.daily ?? false,
    askEnvoy: options.askEnvoy,
    isWriter: () => current.sums.isWriter,
    onRenamed: () => current.sums.readEnds(true),
    save: () => current.sums.save(),
  })
  const { guard } = upkeep
  void repeat({ step: tend, restMs: beatMs, onFault, signal: ending.signal })

  return {
    /** Whether this process writes for its gateway. */
    get isWriter(): boolean {
      return current.sums.isWriter
    },
    /** The gateway's, among those that share the store. */
    get name(): string {
      return name.name
    },
    /** What is wrong with the journal now. */
    get problems(): readonly JournalProblem[] {
      return health.problems
    },
    /** Whether the process can't read its gateway's lines: it knows less than others then, and is to serve nothing. */
    get isUnreadable(): boolean {
      return health.has('unreadable')
    },
    /** Lines that this process has read, and how many of no known form; whether lines are lost. */
    get stats() {
      return { ...current.sums.stats, failing: health.isFailing }
    },
    /** Windows of which the store is not told yet. */
    get unflushed(): number {
      return current.running.unflushed
    },
    /** How often the store has lost something. */
    get losses(): number {
      return losses
    },
    /** How many windows are known. */
    get size(): number {
      return current.sums.size
    },
    /** Whether the store does not answer, or can't write. */
    get isUnavailable(): boolean {
      return current.running.isUnavailable
    },
    /** As in running-sums.ts. */
    windows: (counters: readonly WindowedCounter[], at: number) =>
      current.running.windows(counters, at),
    read: (counters: readonly Counter[], at: number) => current.running.read(counters, at),
    readFresh: (counters: readonly Counter[], at: number) =>
      current.running.readFresh(counters, at),
    /** As in shared-sums.ts, whatever the gateway's name becomes: what is known of a window, and where holds end. */
    known: (counter: WindowedCounter, at: number) => current.sums.shared.read(counter, at),
    partOf: (counter: WindowedCounter) => current.sums.shared.partOf(counter),
    /** A request was allowed that has a line. */
    noteAllowed: (): void => guard.noteAllowed(),
    /** From now on what ended after it counts in a new window. */
    reset(key: string, reset: CounterReset): void {
      current.running.reset(key, reset)
    },
    /** Reads to the ends of the files, and sends what is due for at most this long; returns how many windows are left. */
    async stop(graceMs: number): Promise<number> {
      ending.abort()
      upkeep?.stop()
      const wasWriter = current.sums.isWriter
      const left = await current.running.stop(graceMs)
      if (wasWriter && copies !== undefined) await withTimeout(endMs, copies.step()).catch(onFault)
      return left
    },
  }
}

interface Opened {
  readonly sums: GatewaySums
  readonly running: RunningSums
}
