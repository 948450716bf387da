/**
 * The sums of a gateway from its journal, also after the gateway is renamed: they are opened again when it continues
 * under another name.
 */

import type { JournalProblem } from '../../journal/health.ts'
import { inventName } from '../../journal/name.ts'
import { type JournalOptions, openJournal } from '../../journal/open-journal.ts'
import { repeat } from '../../runtime/loop.ts'
import type { Counter } from '../rules/counter.ts'
import type { CounterReset, Resets, WindowedCounter } from '../rules/windows.ts'
import { type GatewaySums, type GatewaySumsOptions, openGatewaySums } from './gateway-sums.ts'
import { type RunningSums, type RunningSumsOptions, runSums } from './running-sums.ts'

export interface SumsOptions
  extends JournalOptions,
    Pick<
      GatewaySumsOptions,
      'store' | 'longSums' | 'tagOf' | 'tags' | 'countedOf' | 'onLine' | 'onTold' | 'resets'
    >,
    Pick<GatewaySumsOptions, 'keptFiles'>,
    Pick<RunningSumsOptions, 'flushMs' | 'onLoss' | 'onUnavailable'> {
  /** The store has lost something of what it had acknowledged. */
  readonly onLost: () => void
  /** The gateway continues under another name: its volume is a copy. */
  readonly onRenamed?: (from: string, to: string) => void
}

/** Others look for the name each second. */
const othersLookMs = 3_000
const beatMs = 1_000

export type OpenSums = Awaited<ReturnType<typeof openSums>>

/** Resolves once the files are read to their ends. Throws or rejects if the journal can't be used. */
export async function openSums(options: SumsOptions) {
  const { store, monotonic, onFault } = options
  const journal = await openJournal(options)
  const { name, health } = journal
  let resets: Resets = options.resets ?? new Map()
  const ending = new AbortController()
  let losses = 0
  let isCopied = name.isCopied
  /** The sums of this name have ended, and those of the next are not there yet. */
  let isBetween = false
  let current = await open(0)

  async function open(writesFrom: number): Promise<Opened> {
    for (;;) {
      let handedOverTo: string | undefined
      try {
        const sums = await openGatewaySums({
          ...options,
          gateway: name.name,
          folder: journal.folder,
          kept: journal.kept,
          files: journal.names,
          resets,
          stem: journal.stem,
          begunAt: store === undefined ? undefined : journal.earlierPosition(),
          isDone: journal.isDone,
          onLine(line, counted) {
            journal.noteLine()
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
        const { isFailing, noteRead: onRead } = journal
        return { sums, running: runSums({ ...options, sums, writesFrom, isFailing, onRead }) }
      } catch (error) {
        // Another process is handing over, or was killed before the name said so.
        if (handedOverTo === undefined) throw error
        name.take(handedOverTo)
      }
    }
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

  journal.keep({
    isWriter: () => current.sums.isWriter,
    onRenamed: () => current.sums.readEnds(true),
    save: () => current.sums.save(),
  })
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
    noteAllowed: journal.noteAllowed,
    /** From now on what ended after it counts in a new window. */
    reset(key: string, reset: CounterReset): void {
      current.running.reset(key, reset)
    },
    /** Reads to the ends of the files, and sends what is due for at most this long; returns how many windows are left. */
    async stop(graceMs: number): Promise<number> {
      ending.abort()
      journal.stop()
      const wasWriter = current.sums.isWriter
      const left = await current.running.stop(graceMs)
      if (wasWriter) await journal.copy()
      return left
    },
  }
}

interface Opened {
  readonly sums: GatewaySums
  readonly running: RunningSums
}
