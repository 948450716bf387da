/** The decision table of this process, which parts withdraw from before there is one, and without one. */

import { rmSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { setTimeout as delay } from 'node:timers/promises'
import { LRUCache } from 'lru-cache'
import { askAdmin } from '../gateway/admin-page.ts'
import { infoPath, workersIn } from '../journal/envoy-log.ts'
import { filesOf } from '../journal/files.ts'
import { fileModeOf } from '../journal/prepare-folder.ts'
import type { RevocationFollower } from '../keys/revocations/revocation-follower.ts'
import type { Counter } from '../ratelimit/rules/counter.ts'
import type { OpenSums } from '../ratelimit/sums/open-sums.ts'
import { type DecisionTable, openDecisionTable, type TableStats } from '../table/table.ts'
import type { Context } from './context.ts'

export interface Table extends Omit<DecisionTable, 'beat' | 'close' | 'stats'> {
  /** Within milliseconds no script decides by a record of before; nobody waits for it. */
  beginAnew(): void
  /** The hash of a key whose requests were offered of late, by its id: lines have no hashes. */
  hashOf(keyId: string): string | undefined
  /** undefined: this process does not write for its gateway, or not yet. */
  stats(): TableStats | undefined
  /** Whether requests may be decided by a table at all. */
  readonly isOn: boolean
  /** Publishes from now on, while `isServing`. To be called once, when requests are served. */
  start(parts: Omit<TableParts, 'sums'> & { readonly sums: OpenSums | undefined }): void
  /** Publishes nothing any more. */
  stop(): void
}

export interface TableParts {
  readonly sums: OpenSums
  readonly follower: Pick<RevocationFollower, 'leaseLeftMs'>
  /** Whether requests may be sent here. */
  readonly isServing: () => boolean
}

const beatMs = 200
/** How often Envoy is asked for its workers, and after how many times without an answer those of this machine are taken. */
const [askMs, asksAtMost] = [100, 100]
/** As many keys as the table has records at most. */
const keysRemembered = 20_000
/** What scripts can read (envoy/lua/lanes.lua). */
const mostLanes = 256
/** What is decided while there is no table is published in none. */
const noMark = -1

export function createTable(context: Context): Table {
  const { config, onFault } = context
  let table: DecisionTable | undefined
  let timer: NodeJS.Timeout | undefined
  let isWriter = (): boolean => false
  let suspended = 0
  let isStopped = false
  const hashes = new LRUCache<string, string>({ max: keysRemembered })
  const isOn = config.decisionTable === 'on' && config.usageJournal !== undefined

  /** Lanes for twice the workers: while Envoy is replaced there are two. */
  async function open(parts: TableParts): Promise<void> {
    const workers = await findWorkers(context, () => isStopped)
    if (isStopped) return
    const lanes = Math.min(mostLanes, 2 * workers)
    timer = setInterval(() => beat(parts, lanes), beatMs).unref()
  }

  function beat(parts: TableParts, lanes: number): void {
    // What has been suspended without it could be published by it.
    if (table === undefined && suspended === 0) table = openFor(parts, lanes)
    table?.beat()
  }

  function openFor({ sums, follower, isServing }: TableParts, lanes: number) {
    const isShared = config.redisUrl !== undefined
    const mayDeny = config.onCounterLoss === 'deny'
    return openDecisionTable({
      paths: filesOf(config.usageJournal as string),
      mode: fileModeOf(config.socketMode),
      lanes,
      isWriter,
      mayServe() {
        if (!isServing() || sums.isUnreadable) return false
        return !mayDeny || !(sums.stats.failing || sums.isUnavailable)
      },
      keyLeaseLeftMs: follower.leaseLeftMs,
      readWindow(counter: Counter, at: number) {
        const { used, since, resetsAt, isKnown, ageMs } = sums.known(counter, at)
        const heardMs = isKnown ? ageMs : -1
        return { used, start: since, end: resetsAt, ageMs: isShared ? heardMs : 0, isShared }
      },
      onFault,
    })
  }

  return {
    isOn,
    get mark() {
      return table?.mark ?? noMark
    },
    admit(asked) {
      const { caller } = asked.grant
      if (asked.rule === undefined && caller.by === 'key') hashes.set(caller.keyId, asked.keyHash)
      return table?.admit(asked)
    },
    hashOf: (keyId) => hashes.get(keyId),
    withdraw: (keyHashes) => table?.withdraw(keyHashes),
    withdrawAll: () => table?.withdrawAll(),
    async suspend() {
      suspended += 1
      await table?.suspend()
    },
    resume() {
      suspended -= 1
      table?.resume()
    },
    beginAnew() {
      void table?.suspend()
      table?.resume()
    },
    dropCounter: (key) => table?.dropCounter(key),
    onCounted: (line, counted) => table?.onCounted(line, counted),
    stats: () => (isWriter() ? table?.stats() : undefined),
    start({ sums, ...parts }) {
      if (!isOn || sums === undefined) return removeFiles(config.usageJournal)
      isWriter = () => sums.isWriter
      void open({ ...parts, sums }).catch(onFault)
    },
    stop() {
      isStopped = true
      clearInterval(timer)
      table?.close()
      table = undefined
    },
  }
}

/** A script that finds none asks for each request. */
function removeFiles(usageJournal: string | undefined): void {
  if (usageJournal === undefined) return
  const { table, lanes } = filesOf(usageJournal)
  for (const path of [table, lanes]) rmSync(path, { force: true })
}

/** How many threads of Envoy serve requests. */
async function findWorkers({ config }: Context, isStopped: () => boolean): Promise<number> {
  for (let asked = 0; asked < asksAtMost && !isStopped(); asked += 1) {
    const info = await askAdmin(config.envoyAdminAddress, infoPath).catch(() => '')
    const workers = workersIn(info)
    if (workers > 0) return workers
    await delay(askMs, undefined, { ref: false })
  }
  return availableParallelism()
}
