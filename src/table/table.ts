/**
 * The decision table of a gateway: grants of Check, in a file that the gateway's script reads, so that it repeats them
 * without asking. Only the gateway's writer (journal/writer-election.ts) has one open.
 */

import { randomInt } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import type { FileMode } from '../journal/prepare-folder.ts'
import type { LineUse } from '../ratelimit/rules/sums.ts'
import { inSlices } from '../runtime/slices.ts'
import type { CountedLine, ReadWindow } from './blocks.ts'
import { systemClocks, type TableClocks } from './clocks.ts'
import { createTableFiles, type TablePaths } from './files.ts'
import {
  createOpenTable,
  type GrantedRequest,
  headKeptMs,
  type OpenTable,
  type OpenTableOptions,
  type PublishedEstimate,
  tableLeaseMs,
} from './open-table.ts'
import type { UnpublishedReason } from './rules/miss-rules.ts'

export type { CountedLine, GrantedRequest, PublishedEstimate, ReadWindow, TableClocks }

export type DecisionTable = ReturnType<typeof openDecisionTable>

export interface TableOptions
  extends Pick<OpenTableOptions, 'readWindow'>,
    Partial<Pick<OpenTableOptions, 'records' | 'isRepeated' | 'settledMs' | 'clocks'>> {
  /** Beside the files of the journal (journal/journal-files.ts). */
  readonly paths: TablePaths
  readonly mode: FileMode
  /** Twice the workers of one Envoy; called when files are created. */
  readonly lanes: () => number
  /** Whether this process is its gateway's writer. */
  readonly isWriter: () => boolean
  /** False while draining and in an outage of the journal; with `deny` also in one of Redis. */
  readonly mayServe: () => boolean
  /** Milliseconds for which the key cache is still confirmed; 0 or less if it is not. */
  readonly keyLeaseLeftMs: () => number
  /** Called with the error of the system, such as a lack of space, when files cannot be created, and with undefined when they are. */
  readonly onMade?: (error: unknown) => unknown
  /** Called with other failures, after which the table is closed, and reopened when possible. */
  readonly onFault: (error: unknown) => void
}

/** Minimum interval between creations of files: normally, after a fault, and when all numbers are used up. */
const [createEveryMs, afterFaultMs, afterFullMs] = [1_000, 10_000, 60_000]

const nothing = {
  used: { records: 0, blocks: 0, templates: 0 },
  leaseAgeMs: undefined,
  bytes: 0,
}

/** Never throws: what fails is retried at a later beat. */
export function openDecisionTable(options: TableOptions) {
  const { paths, records = 20_000, lanes, mode, isWriter, readWindow, onFault } = options
  const { isRepeated = () => true, settledMs = 2 } = options
  const onMade = options.onMade ?? ((error) => error !== undefined && onFault(error))
  const clocks = options.clocks ?? systemClocks()
  // Three of the eight slots of a bucket are used then: one record in 600 finds its bucket full.
  const sizes = { buckets: Math.ceil(records / 3), blocks: records, templates: 1_024 }
  const counts = { published: 0, withdrawn: 0, unplaced: 0 }
  let open: OpenTable | undefined
  let isCreating = false
  let isClosed = false
  let mayCreateAt = Number.NEGATIVE_INFINITY
  let suspended = 0
  let mark = 0
  /** From this time (monotonic) no script decides by records that were withdrawn by the head. */
  let quietAt = Number.NEGATIVE_INFINITY

  /** Withdraws all records by writing the head. */
  function withdrawByHead(write: () => void): void {
    mark += 1
    write()
    quietAt = performance.now() + headKeptMs
  }

  /** Closes the table for good: scripts that have its files open must find no records in them. */
  function endTable(table: OpenTable): void {
    open = undefined
    mark += 1
    try {
      table.end()
    } catch (error) {
      onFault(error)
      // A caller that waits for a withdrawal must not continue before it.
      sleep(Math.min(table.leaseLeftMs, tableLeaseMs))
    }
  }

  /** Also true while another table is created, whose files may be in place already. */
  function isInPlace(table: OpenTable): boolean {
    return isCreating || table.isInPlace()
  }

  /** Withdraws from the files that scripts read; closes the table if they may be reading a copy. */
  function withdrawFrom(work: (table: OpenTable) => void): void {
    act((table) => (isInPlace(table) ? work(table) : endTable(table)))
  }

  /** Runs an operation on the open table, if there is one; closes the table if it fails. */
  function act<Result>(work: (table: OpenTable) => Result): Result | undefined {
    const table = open
    if (table === undefined) return undefined
    try {
      return work(table)
    } catch (error) {
      // Records can't be withdrawn from a table that can't be written.
      mayCreateAt = clocks.boot() + afterFaultMs
      onFault(error)
      endTable(table)
      return undefined
    }
  }

  function create(): void {
    if (isCreating || clocks.boot() < mayCreateAt) return
    isCreating = true
    mayCreateAt = clocks.boot() + createEveryMs
    const file = randomInt(1, 2 ** 48 - 1)
    const head = { ...sizes, lanes: lanes(), generation: 1, file, lease: 0, clock: 0 }
    // A process that was replaced meanwhile must not put its files in place of those of the new writer.
    void inSlices(createTableFiles(paths, mode, head, () => !isClosed && isWriter()))
      .then((files) => {
        if (files === undefined) return
        if (open !== undefined) endTable(open)
        const count = (what: keyof typeof counts, of: number) => {
          counts[what] += of
        }
        open = createOpenTable({
          ...{ files, file, records, clocks, readWindow, isRepeated, settledMs, count },
        })
        onMade(undefined)
        return beat()
      })
      .catch((error: NodeJS.ErrnoException) => {
        mayCreateAt = clocks.boot() + afterFaultMs
        if (error.code === undefined) onFault(error)
        else onMade(error)
      })
      .finally(() => {
        isCreating = false
      })
  }

  function beat(): void {
    if (isClosed) return
    act((table) => {
      const isOurs = isWriter() && isInPlace(table)
      if (isOurs && !table.noteClocks()) renewLease(table)
      else endTable(table)
    })
    if (open === undefined && isWriter()) create()
  }

  function renewLease(table: OpenTable): void {
    const leftMs = options.mayServe() ? options.keyLeaseLeftMs() : 0
    if (leftMs > 0) table.renew(leftMs)
    else if (!table.isResting) withdrawByHead(table.rest)
    if (table.isUsedUp && clocks.boot() - mayCreateAt >= afterFullMs) create()
  }

  return {
    /** Changes with each withdrawal, so that no earlier decision is published after it. Read it before authenticating. */
    get mark(): number {
      return mark
    },
    /**
     * Publishes a grant if that is allowed and worthwhile. Call it for every grant to a key, in the turn of the
     * decision. Returns why the next such request will be a miss, or undefined if it may be a hit. Never throws.
     */
    admit(asked: GrantedRequest): UnpublishedReason | undefined {
      const mayPublish = asked.rule === undefined && suspended === 0 && asked.mark === mark
      return mayPublish ? act((table) => table.admit(asked)) : asked.rule
    },
    /** When this returns, no record of these keys (hashes as in the key cache) is in force. */
    withdraw(keyHashes: readonly string[]): void {
      if (keyHashes.length === 0) return
      mark += 1
      withdrawFrom((table) => table.withdraw(keyHashes))
    },
    /** When this returns, no record is in force. */
    withdrawAll(): void {
      mark += 1
      withdrawFrom((table) => table.withdrawAll())
    },
    /**
     * Resolves once no script can still decide by an earlier record. Nothing is published until `resume` was called as
     * often.
     */
    async suspend(): Promise<void> {
      suspended += 1
      mark += 1
      withdrawFrom((table) => withdrawByHead(table.beginGeneration))
      for (let left = 1; left > 0; left = quietAt - performance.now()) await delay(left)
    },
    resume(): void {
      suspended = Math.max(0, suspended - 1)
      mark += 1
    },
    /** Call it when the counter was reset: withdraws its block; the next one has another number. */
    dropCounter: (key: string): void => act((table) => table.dropCounter(key)),
    /** Call it for each line that this process has counted, once it is in the sums. */
    onCounted: (line: CountedLine, counted: readonly LineUse[]): void =>
      act((table) => table.onCounted(line, counted)),
    /**
     * Call it every 200 ms. Renews the lease, recreates files that were deleted, replaced or truncated, opens the table
     * when this process becomes the writer, and closes it when it is the writer no longer. Never throws.
     */
    beat,
    /** When this returns, no record is in force, and none will be published again. */
    close(): void {
      isClosed = true
      if (open !== undefined) endTable(open)
    },
    stats() {
      const { used, leaseAgeMs, bytes } = open?.figures ?? nothing
      return {
        /** Whether scripts may decide by it. */
        isOpen: (open?.leaseLeftMs ?? 0) > 0,
        records: { used: used.records, of: records },
        blocks: { used: used.blocks, of: sizes.blocks },
        templates: { used: used.templates, of: sizes.templates },
        /** Size of both files; 0 if there are none. */
        bytes,
        /** Time since the lease was renewed, or undefined if there is none. */
        leaseAgeMs,
        /** Records since the start: written, withdrawn, and not written for lack of room. */
        ...counts,
      }
    },
  }
}

/** Blocks the whole process, because nothing else keeps the promise. */
function sleep(ms: number): void {
  if (ms > 0) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms)
}
