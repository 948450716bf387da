/**
 * The decision table of this process. Records may be withdrawn before it exists, and if there is none: that does
 * nothing.
 */

import { rmSync } from 'node:fs'
import { journalFilesOf } from '../journal/journal-files.ts'
import type { JournalSums } from '../ratelimit/sums/journal-sums.ts'
import { BoundedMap } from '../runtime/bounded-map.ts'
import { createRepeatDetector } from './repeat-detector.ts'
import { type GrantedRequest, openDecisionTable, type TableOptions } from './table.ts'

export type ProcessTable = ReturnType<typeof createProcessTable>

interface ProcessTableOptions extends Required<Pick<TableOptions, 'mode' | 'onMade' | 'onFault'>> {
  readonly isOn: boolean
  /** The table's files are beside the journal; without one there is no table. */
  readonly usageJournal: string | undefined
  /** Whether gateways share their counters, and what Check does while it cannot read them. */
  readonly isShared: boolean
  readonly onCounterLoss: 'allow' | 'deny'
  /** Resolves with the number of Envoy's workers, once Envoy reports it. */
  readonly countWorkers: (isStopped: () => boolean) => Promise<number>
}

/** The parts that exist once a process serves requests. */
export interface ServingParts {
  readonly sums: Pick<
    JournalSums,
    'isWriter' | 'isUnreadable' | 'isUnavailable' | 'stats' | 'known'
  >
  /** Tells how long the key cache is still confirmed. */
  readonly follower: { leaseLeftMs(): number }
  /** Whether requests may be sent here. */
  readonly isServing: () => boolean
}

const beatMs = 200
/** Maximum number of keys, as many as the table has records, and of requests, which must repeat to get one. */
const [keysRemembered, requestsRemembered] = [20_000, 40_000]
/** Maximum number of lanes that scripts can read (envoy/lua/lanes.lua). */
const mostLanes = 256

export function createProcessTable(options: ProcessTableOptions) {
  const { usageJournal, isShared, onCounterLoss, mode, onMade, onFault } = options
  let serving: ServingParts | undefined
  let lanes = 0
  let timer: NodeJS.Timeout | undefined
  let isStopped = false
  const hashes = new BoundedMap<string, string>(keysRemembered)
  const isOn = options.isOn && usageJournal !== undefined
  /** Without `isOn` it has no beat, so no files. */
  const table = openDecisionTable({
    paths: journalFilesOf(usageJournal ?? ''),
    mode,
    lanes: () => lanes,
    isWriter,
    mayServe: () => serving?.isServing() === true && isCounting(serving, onCounterLoss),
    keyLeaseLeftMs: () => serving?.follower.leaseLeftMs() ?? 0,
    readWindow(counter, at) {
      const { sums } = serving as ServingParts
      const { used, since, resetsAt, isKnown, ageMs } = sums.known(counter, at)
      const heardMs = isKnown ? ageMs : -1
      return {
        used: Number(used),
        start: since,
        end: resetsAt,
        ageMs: isShared ? heardMs : 0,
        isShared,
      }
    },
    isRepeated: createRepeatDetector(requestsRemembered, () => performance.now()),
    onMade,
    onFault,
  })

  function isWriter(): boolean {
    return serving?.sums.isWriter === true
  }

  /** Twice as many lanes as workers, because there are two Envoys while one is replaced. */
  async function begin(): Promise<void> {
    const workers = await options.countWorkers(() => isStopped)
    if (isStopped) return
    lanes = Math.min(mostLanes, 2 * workers)
    timer = setInterval(table.beat, beatMs).unref()
  }

  return {
    withdraw: table.withdraw,
    withdrawAll: table.withdrawAll,
    resume: table.resume,
    dropCounter: table.dropCounter,
    onCounted: table.onCounted,
    /** Whether requests may be decided by a table at all. */
    isOn,
    get mark(): number {
      return table.mark
    },
    admit(asked: GrantedRequest) {
      const rule = table.admit(asked)
      const { caller } = asked.grant
      if (rule === undefined && caller.by === 'key') hashes.set(caller.keyId, asked.keyHash)
      return rule
    },
    /** The hash of a key by its id, because lines have no hashes; only for keys whose requests were recently offered. */
    hashOf: (keyId: string): string | undefined => hashes.get(keyId),
    suspend: async (): Promise<void> => (isOn ? table.suspend() : undefined),
    /** Within milliseconds no script decides by an earlier record; the caller does not wait. */
    beginAnew(): void {
      void table.suspend()
      table.resume()
    },
    /** Returns undefined before this process is its gateway's writer. */
    stats: () => (isWriter() ? table.stats() : undefined),
    /** Publishes while `isServing`. Call it once, when requests are served. */
    start({
      sums,
      ...others
    }: Omit<ServingParts, 'sums'> & { readonly sums: ServingParts['sums'] | undefined }) {
      if (!isOn || sums === undefined) return removeFiles(usageJournal)
      serving = { ...others, sums }
      void begin().catch(onFault)
    },
    /** Stops publishing. */
    stop(): void {
      isStopped = true
      serving = undefined
      clearInterval(timer)
      table.close()
    },
  }
}

/** Whether this process knows its counters as well as Check needs them to allow requests. */
function isCounting(
  { sums }: ServingParts,
  onCounterLoss: ProcessTableOptions['onCounterLoss'],
): boolean {
  if (sums.isUnreadable) return false
  return onCounterLoss === 'allow' || !(sums.stats.failing || sums.isUnavailable)
}

/** Removes the files: without a table, scripts ask for each request. */
function removeFiles(usageJournal: string | undefined): void {
  if (usageJournal === undefined) return
  const { table, lanes } = journalFilesOf(usageJournal)
  for (const path of [table, lanes]) rmSync(path, { force: true })
}
