/** The decision table of this process. Parts may withdraw from it before it exists, and if there is none. */

import { rmSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { setTimeout as delay } from 'node:timers/promises'
import { askAdmin } from '../gateway/admin-page.ts'
import { infoPath, workersIn } from '../journal/envoy-log.ts'
import { filesOf } from '../journal/files.ts'
import { fileModeOf } from '../journal/prepare-folder.ts'
import type { RevocationFollower } from '../keys/revocations/revocation-follower.ts'
import type { Counter } from '../ratelimit/rules/counter.ts'
import type { OpenSums } from '../ratelimit/sums/open-sums.ts'
import { BoundedMap } from '../runtime/bounded-map.ts'
import { createRepeats } from '../table/repeats.ts'
import { type DecisionTable, openDecisionTable, type TableStats } from '../table/table.ts'
import { besidesRemoval } from './besides-removal.ts'
import type { Context } from './context.ts'

export interface Table extends Omit<DecisionTable, 'beat' | 'close' | 'stats'> {
  /** Within milliseconds no script decides by an earlier record; the caller does not wait. */
  beginAnew(): void
  /** The hash of a key whose requests were offered recently, by the key's id: lines have no hashes. */
  hashOf(keyId: string): string | undefined
  /** undefined: this process is not its gateway's writer, or not yet. */
  stats(): TableStats | undefined
  /** Whether requests may be decided by a table at all. */
  readonly isOn: boolean
  /** Publishes while `isServing`. To be called once, when requests are served. */
  start(parts: Omit<TableParts, 'sums'> & { readonly sums: OpenSums | undefined }): void
  /** Publishes nothing from now on. */
  stop(): void
}

export interface TableParts {
  readonly sums: OpenSums
  readonly follower: Pick<RevocationFollower, 'leaseLeftMs'>
  /** Whether requests may be sent here. */
  readonly isServing: () => boolean
}

const beatMs = 200
/**
 * How often Envoy is asked for its number of workers, and after how many failures the CPUs of this machine count
 * instead.
 */
const [askMs, asksAtMost] = [100, 100]
/** As many keys as the table has records, and requests, which must repeat before they have one. */
const [keysRemembered, requestsRemembered] = [20_000, 40_000]
/** Maximum number of lanes that scripts can read (envoy/lua/lanes.lua). */
const mostLanes = 256

export function createTable(context: Context): Table {
  const { config, onFault } = context
  let parts: TableParts | undefined
  let lanes = 0
  let timer: NodeJS.Timeout | undefined
  let isStopped = false
  const hashes = new BoundedMap<string, string>(keysRemembered)
  const isOn = config.decisionTable === 'on' && config.usageJournal !== undefined
  const table = isOn ? openTable(config.usageJournal as string) : undefined

  /** Creates no files before the first beat. */
  function openTable(usageJournal: string): DecisionTable {
    const isShared = config.redisUrl !== undefined
    const mayDeny = config.onCounterLoss === 'deny'
    return openDecisionTable({
      paths: filesOf(usageJournal),
      mode: fileModeOf(config.socketMode),
      lanes: () => lanes,
      isWriter,
      mayServe() {
        if (parts === undefined || !parts.isServing()) return false
        const { sums } = parts
        if (sums.isUnreadable) return false
        return !mayDeny || !(sums.stats.failing || sums.isUnavailable)
      },
      keyLeaseLeftMs: () => parts?.follower.leaseLeftMs() ?? 0,
      readWindow(counter: Counter, at: number) {
        const { sums } = parts as TableParts
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
      isRepeated: createRepeats(requestsRemembered, () => performance.now()),
      onFault: besidesRemoval(usageJournal, onFault),
    })
  }

  function isWriter(): boolean {
    return parts?.sums.isWriter === true
  }

  /** Twice as many lanes as workers, because there are two Envoys while one is replaced. */
  async function begin(beaten: DecisionTable): Promise<void> {
    const workers = await findWorkers(context, () => isStopped)
    if (isStopped) return
    lanes = Math.min(mostLanes, 2 * workers)
    timer = setInterval(beaten.beat, beatMs).unref()
  }

  return {
    isOn,
    get mark() {
      return table?.mark ?? 0
    },
    admit(asked) {
      const rule = table === undefined ? asked.rule : table.admit(asked)
      const { caller } = asked.grant
      if (rule === undefined && caller.by === 'key') hashes.set(caller.keyId, asked.keyHash)
      return rule
    },
    hashOf: (keyId) => hashes.get(keyId),
    withdraw: (keyHashes) => table?.withdraw(keyHashes),
    withdrawAll: () => table?.withdrawAll(),
    suspend: async () => table?.suspend(),
    resume: () => table?.resume(),
    beginAnew() {
      void table?.suspend()
      table?.resume()
    },
    dropCounter: (key) => table?.dropCounter(key),
    onCounted: (line, counted) => table?.onCounted(line, counted),
    stats: () => (isWriter() ? table?.stats() : undefined),
    start({ sums, ...others }) {
      if (table === undefined || sums === undefined) return removeFiles(config.usageJournal)
      parts = { ...others, sums }
      void begin(table).catch(onFault)
    },
    stop() {
      isStopped = true
      parts = undefined
      clearInterval(timer)
      table?.close()
    },
  }
}

/** A script that finds no table asks for each request. */
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
