/** The sums of a gateway from its journal, across renames of the gateway: they are reopened under each new name. */

import type { JournalPosition } from '../../journal/followed-files.ts'
import { randomGatewayName } from '../../journal/gateway-name.ts'
import type { JournalProblem } from '../../journal/health.ts'
import { type JournalOptions, openJournal } from '../../journal/open-journal.ts'
import { repeat } from '../../runtime/loop.ts'
import type { Counter } from '../rules/counter.ts'
import type { CounterReset, Resets, WindowedCounter } from '../rules/windows.ts'
import { type GatewaySumsOptions, type LineHandlers, openGatewaySums } from './gateway-sums.ts'
import { type ProcessSumsOptions, startSums } from './process-sums.ts'

export interface SumsOptions
  extends JournalOptions,
    LineHandlers,
    Pick<GatewaySumsOptions, 'store' | 'longSums' | 'tagOf' | 'tags' | 'resets' | 'keptFiles'>,
    Pick<ProcessSumsOptions, 'flushMs' | 'onLoss' | 'onUnavailable'> {
  /** Called when the store has lost something that it had acknowledged. */
  readonly onLost: () => void
  /** Called when the gateway continues under another name, because its volume is a copy. */
  readonly onRenamed?: (from: string, to: string) => void
}

/** Other processes read the name every second; this one does not write until they have. */
const othersLookMs = 3_000
const everyMs = 1_000

export type JournalSums = Awaited<ReturnType<typeof openJournalSums>>

/** Resolves once the files are read to their ends. Throws or rejects if the journal can't be used. */
export async function openJournalSums(options: SumsOptions) {
  const { store, monotonic, onFault } = options
  const journal = await openJournal(options)
  const { name, health } = journal
  let resets: Resets = options.resets ?? new Map()
  const ending = new AbortController()
  let losses = 0
  let isCopied = name.isCopied
  /** Whether the sums of the old name have ended and the sums of the new one are not open yet. */
  let isReopening = false
  let current = await open(0)

  async function open(writesFrom: number) {
    for (;;) {
      let handedOver: Parameters<typeof name.rename> | undefined
      try {
        const sums = await openGatewaySums({
          ...options,
          gateway: name.name,
          folder: journal.folder,
          kept: journal.kept,
          files: journal.names,
          resets,
          stem: journal.stem,
          begunAt: store && (name.begunAt ?? journal.earlierPosition()),
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
          onRenamed(...to) {
            handedOver = to
          },
        })
        const { isFailing, noteRead: onRead } = journal
        return { sums, running: startSums({ ...options, sums, writesFrom, isFailing, onRead }) }
      } catch (error) {
        // Another process is handing over, or was killed before it changed the name.
        if (handedOver === undefined) throw error
        name.rename(...handedOver)
      }
    }
  }

  /** Call it every second. Renames a copied volume, once the store has all sums under the old name. */
  async function renameIfCopied(): Promise<void> {
    if (isReopening || name.refresh()) {
      // The process that has changed the name did it for all.
      isCopied = false
      return await reopen(0)
    }
    if (!isCopied || !current.sums.isWriter) return
    if (store === undefined) name.rename(name.name)
    else {
      if (current.running.isUnavailable) return
      const [from, to] = [name.name, randomGatewayName()]
      const rename = (at: JournalPosition): void => {
        try {
          name.rename(to, at)
        } catch (error) {
          onFault(error)
          throw error
        }
      }
      if (!(await current.running.handOver(to, rename))) return
      options.onRenamed?.(from, to)
      await reopen(monotonic() + othersLookMs)
    }
    isCopied = false
  }

  /** Continues under the current name. */
  async function reopen(writesFrom: number): Promise<void> {
    isReopening = true
    await current.running.end()
    resets = current.sums.resets
    current = await open(writesFrom)
    isReopening = false
  }

  journal.keep({
    isWriter: () => current.sums.isWriter,
    onRenamed: () => current.sums.tail.readEnds(true),
    save: () => current.sums.save(),
    isSaveDue: () => current.sums.isSaveDue(),
  })
  void repeat({ step: renameIfCopied, restMs: everyMs, onFault, signal: ending.signal })

  return {
    /** Whether this process is its gateway's writer. */
    get isWriter(): boolean {
      return current.sums.isWriter
    },
    /** The gateway's name among those that share the store. */
    get name(): string {
      return name.name
    },
    /** The current problems of the journal. */
    get problems(): readonly JournalProblem[] {
      return health.problems
    },
    /**
     * Whether the process can't read its gateway's lines: it then lacks use that others know, and must not serve
     * requests.
     */
    get isUnreadable(): boolean {
      return health.has('unreadable')
    },
    /** Numbers of lines that this process has read, and of lines of unknown format; whether lines are being lost. */
    get stats() {
      const { read, unreadBytes } = current.sums.tail
      return { ...read, unreadBytes: unreadBytes(), failing: health.isFailing }
    },
    /** Windows whose sums the store does not have yet. */
    get unflushed(): number {
      return current.running.unflushed
    },
    /** How often the store has lost something. */
    get losses(): number {
      return losses
    },
    /** Number of known windows. */
    get size(): number {
      return current.sums.size
    },
    /** Whether the store does not respond, or can't write. */
    get isUnavailable(): boolean {
      return current.running.isUnavailable
    },
    /** As in process-sums.ts. */
    windows: (counters: readonly WindowedCounter[], at: number) =>
      current.running.windows(counters, at),
    read: (counters: readonly Counter[], at: number) => current.running.read(counters, at),
    readFresh: (counters: readonly Counter[], at: number) =>
      current.running.readFresh(counters, at),
    /**
     * As in shared-sums.ts, also after a change of the gateway's name: the known use of a window, and the partition that
     * ends holds.
     */
    known: (counter: WindowedCounter, at: number) => current.sums.shared.read(counter, at),
    partitionOf: (counter: WindowedCounter) => current.sums.shared.partitionOf(counter),
    /** Reports an allowed request that will have a line. */
    noteAllowed: journal.noteAllowed,
    /** As in open-journal.ts. */
    noteLeft: journal.noteLeft,
    /** Responses that end after the reset count in a new window. */
    reset(key: string, reset: CounterReset): void {
      current.running.reset(key, reset)
    },
    /**
     * Reads the files to their ends, and sends due sums for at most this long (ms); returns how many windows are left.
     */
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
