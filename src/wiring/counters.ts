/** Counters: sums of the gateway's lines, alone or shared with other gateways through Redis. */

import type { MetricData } from '@opentelemetry/sdk-metrics'
import { requestAdmin } from '../gateway/admin-page.ts'
import { parseJournalLine } from '../journal/journal-line.ts'
import { fileModeOf } from '../journal/prepare-folder.ts'
import { createCounters, type ResettableCounters, refusingCounters } from '../ratelimit/counters.ts'
import { createMemoryHolds } from '../ratelimit/holds/memory-holds.ts'
import type { HoldStore } from '../ratelimit/holds.ts'
import { hashTags } from '../ratelimit/redis/keys.ts'
import type { CounterReset } from '../ratelimit/rules/windows.ts'
import { type JournalSums, openJournalSums } from '../ratelimit/sums/journal-sums.ts'
import { createResetStore } from '../ratelimit/sums/postgres-resets.ts'
import { createPostgresSums } from '../ratelimit/sums/postgres-sums.ts'
import { createResetFeed, type ResetFeed } from '../ratelimit/sums/reset-feed.ts'
import { createSumsLog } from '../ratelimit/sums/sums-log.ts'
import { errorMessage } from '../runtime/error-message.ts'
import { timedStop } from '../runtime/stops.ts'
import { untilAvailable } from '../store/postgres/until-available.ts'
import type { ProcessTable } from '../table/process-table.ts'
import { createFlushFigures } from '../telemetry/flush-figures.ts'
import { lineUses } from '../usage/rules/line-charges.ts'
import type { LineSettler } from '../usage/settle.ts'
import type { Context } from './context.ts'
import type { Database } from './database.ts'
import type { OpenLedger } from './ledger.ts'
import type { Resources } from './resources.ts'
import { unreportedFaults } from './unreported-faults.ts'

/**
 * Milliseconds between two flushes to Redis: a gateway makes at most 200 calls a second, however many requests it has.
 */
const flushMs = 5

export interface Counters {
  /** Histograms of the calls to Redis, if there is one. */
  readonly histograms: () => readonly MetricData[]
  readonly counters: ResettableCounters
  readonly holds: HoldStore
  /** Undefined without a journal, because nothing can be counted. */
  readonly sums: JournalSums | undefined
  readonly resets: Pick<ResetFeed, 'ring'> | undefined
  /**
   * Whether this process can read its gateway's lines: if not, it knows less than others, and must not serve requests.
   */
  readonly canRead: {
    now(): boolean
    /** For one listener. */
    whenChanged(listener: (canRead: boolean) => void): void
  }
  /** Whether this process is its gateway's writer. */
  readonly isWriter: () => boolean
}

/** Milliseconds of a shutdown reserved for the checkpoint and the copies, whether Redis responds or not. */
const savingMs = 1_000

/**
 * Resolves once the lines are read to their ends. A Redis that does not respond delays that only briefly; one
 * that refuses us, or whose certificate is not trusted, rejects, as does a journal that can't be used.
 */
export async function openCounters(
  context: Context,
  { pool }: Database,
  { snapshot }: Pick<Resources, 'snapshot'>,
  settle: LineSettler,
  ledger: OpenLedger,
  table: Pick<ProcessTable, 'dropCounter' | 'onCounted'>,
): Promise<Counters> {
  const { config, log, clock, onFault, stops } = context
  const { usageJournal: path, unusableUsage } = config
  if (path === undefined) return uncounted(snapshot().subscriptions.size)
  const redis = await connect(context)
  const kept = createResetStore(pool)
  const logged = createSumsLog(log, path, () => redis?.connection.problem?.message)
  let noteCanRead = (_canRead: boolean): void => {}
  let isUnreadable = false
  const resets = createResetFeed(kept, (error) =>
    log.debug({ cause: errorMessage(error) }, 'cannot read counter resets'),
  )
  stops.push(resets.stop)
  // First, because a line that ended before a reset must not count after it.
  const early = await untilAvailable(resets.read, context)
  const opened = await openJournalSums({
    path,
    dataDir: config.dataDir,
    mode: fileModeOf(config.socketMode),
    now: clock,
    monotonic: () => performance.now(),
    ...hashTags(redis?.connection.cluster === true),
    store: redis?.store,
    ...(redis && { longSums: createPostgresSums(pool) }),
    resets: Map.groupBy(early, ({ key }) => key),
    readText: (text) => parseJournalLine(text, unusableUsage),
    countedOf: (line) => lineUses(line, snapshot()),
    onLine(line, counted) {
      table.onCounted(line, counted)
      settle.onLine(line)
    },
    onDelivered: settle.onDelivered,
    maxBytes: config.usageJournalBytes,
    daily: config.usageArchiveDir !== undefined,
    ...(ledger && { isDone: ledger.isDone }),
    askEnvoy: (page, method) => requestAdmin(config.envoyAdminAddress, page, method),
    flushMs,
    onLoss: config.onCounterLoss,
    ...logged,
    onProblem(problem, isThere, cause) {
      logged.onProblem(problem, isThere, cause)
      if (problem !== 'unreadable') return
      isUnreadable = isThere
      noteCanRead(!isThere)
    },
    // On a full disk the gateway's scripts and Envoy cannot write lines either, which is reported. Without free descriptors
    // the journal is unreadable.
    onFault: unreportedFaults(
      path,
      onFault,
      ['ENOENT', 'ENOSPC', 'EDQUOT', 'EMFILE', 'ENFILE'],
      () => isUnreadable,
    ),
  }).catch((cause: unknown) => {
    throw new Error(`USAGE_JOURNAL: ${path} cannot be used: ${errorMessage(cause)}`, { cause })
  })
  /** Before the counter is reset, so that the table does not decide by its old value. */
  function reset(key: string, to: CounterReset): void {
    table.dropCounter(key)
    opened.reset(key, to)
  }

  resets.start(reset)
  const { windows, read, readFresh, partitionOf } = opened
  const isWriter = (): boolean => opened.isWriter
  const holds =
    redis?.createHolds({ windows, read, partitionOf, isWriter, onFault }) ??
    createMemoryHolds(windows)
  stops.push(
    timedStop('the counters', async (graceMs) => {
      const giveUpAt = performance.now() + graceMs
      const left = await opened.stop(Math.max(0, graceMs - savingMs))
      if (left > 0)
        log.error(
          { code: 'counts_lost', counters: left },
          'cannot reach Redis at shutdown: the counters are saved, and the last counts are sent at the next start',
        )
      if ('stop' in holds) await holds.stop(Math.max(0, giveUpAt - performance.now()))
      redis?.connection.close()
    }),
  )
  return {
    sums: opened,
    holds,
    resets,
    isWriter,
    canRead: {
      now: () => !opened.isUnreadable,
      whenChanged(listener) {
        noteCanRead = listener
      },
    },
    counters: createCounters({ running: { read, readFresh, reset }, holds, resets: kept }),
    histograms: redis?.histograms ?? (() => []),
  }
}

/** Without lines nothing is counted, so nothing that is limited may be allowed. */
function uncounted(subscriptions: number): Counters {
  if (subscriptions > 0) {
    throw new Error(
      `USAGE_JOURNAL: is off, and ${subscriptions} Subscriptions are in force, whose usage only the journal reports`,
    )
  }
  return {
    ...refusingCounters,
    sums: undefined,
    resets: undefined,
    isWriter: () => false,
    histograms: () => [],
    canRead: { now: () => true, whenChanged() {} },
  }
}

/** Returns undefined without REDIS_URL. */
async function connect({ config, log, signal, stops }: Context) {
  if (config.redisUrl === undefined) return undefined
  // The client is loaded on demand, because it takes memory and start-up time.
  const { openRedis } = await import('../ratelimit/redis/open-redis.ts')
  const { note: onFlushed, histograms } = createFlushFigures()
  const redis = await openRedis({ url: config.redisUrlNow, onFlushed, log, signal })
  stops.push(redis.connection.close)
  return { ...redis, histograms }
}
