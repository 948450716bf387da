/** Counters: what the gateway's lines add up to, alone or shared with other gateways through Redis. */

import type { MetricData } from '@opentelemetry/sdk-metrics'
import { ServiceError } from '../formats/errors.ts'
import { askAdmin } from '../gateway/admin-page.ts'
import type { JournalProblem } from '../journal/health.ts'
import { fileModeOf } from '../journal/prepare-folder.ts'
import { readLine } from '../journal/read-line.ts'
import { createCounters, type ResettableCounters } from '../ratelimit/counters.ts'
import { createMemoryHolds } from '../ratelimit/holds/memory.ts'
import type { HoldStore } from '../ratelimit/holds.ts'
import type { RedisConnection } from '../ratelimit/redis/connection.ts'
import { tagsOf } from '../ratelimit/redis/keys.ts'
import type { CounterReset } from '../ratelimit/rules/windows.ts'
import { type OpenSums, openSums } from '../ratelimit/sums/open-sums.ts'
import { createResetStore } from '../ratelimit/sums/postgres-resets.ts'
import { createPostgresSums } from '../ratelimit/sums/postgres-sums.ts'
import { createResetFeed, type ResetFeed } from '../ratelimit/sums/reset-feed.ts'
import type { SumStore } from '../ratelimit/sums/sum-store.ts'
import { causeMessage, errorMessage } from '../runtime/error-message.ts'
import { part } from '../runtime/stops.ts'
import { withAbort } from '../runtime/with-abort.ts'
import { untilAnswered } from '../store/postgres/until-answered.ts'
import {
  callBounds,
  createDistribution,
  createDurations,
  sizeBounds,
} from '../telemetry/durations.ts'
import { soleHistogram } from '../telemetry/metric-data.ts'
import { countedOf } from '../usage/rules/line-charges.ts'
import type { Settle } from '../usage/settle.ts'
import { besidesRemoval } from './besides-removal.ts'
import type { Context } from './context.ts'
import type { Database } from './database.ts'
import type { OpenLedger } from './ledger.ts'
import type { Resources } from './resources.ts'
import type { Table } from './table.ts'

/**
 * Milliseconds between two flushes to Redis: a gateway makes at most 200 calls a second, however many requests it has.
 */
const flushMs = 5

export interface Counters {
  /** Histograms of the calls to Redis, if there is one. */
  readonly histograms: () => readonly MetricData[]
  readonly counters: ResettableCounters
  readonly holds: HoldStore
  /** Undefined without a journal: nothing can be counted. */
  readonly sums: OpenSums | undefined
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

/** How long a start waits for Redis. */
const connectWaitMs = 1_800
/** Milliseconds of a shutdown reserved for the checkpoint and the copies, whether Redis answers or not. */
const savingMs = 1_000

/**
 * Resolves once the lines are read to their ends. A Redis that does not respond delays that only briefly; one
 * that refuses us, or whose certificate is not trusted, rejects, as does a journal that can't be used.
 */
export async function openCounters(
  context: Context,
  { pool }: Database,
  { snapshot }: Pick<Resources, 'snapshot'>,
  settle: Settle,
  ledger: OpenLedger,
  table: Pick<Table, 'dropCounter' | 'onCounted'>,
): Promise<Counters> {
  const { config, log, clock, onFault, stops } = context
  const { usageJournal: path, unusableUsage } = config
  if (path === undefined) return uncounted(snapshot().subscriptions.size)
  const redis = await connect(context)
  const kept = createResetStore(pool)
  let noteCanRead = (_canRead: boolean): void => {}
  const resets = createResetFeed(kept, (error) =>
    log.debug({ cause: errorMessage(error) }, 'cannot read counter resets'),
  )
  stops.push(resets.stop)
  // First, because a line that ended before a reset must not count after it.
  const early = await untilAnswered(resets.read, context)
  const opened = await openSums({
    path,
    dataDir: config.dataDir,
    mode: fileModeOf(config.socketMode),
    now: clock,
    monotonic: () => performance.now(),
    ...tagsOf(redis?.connection.cluster === true),
    store: redis?.store,
    ...(redis && { longSums: createPostgresSums(pool) }),
    resets: Map.groupBy(early, ({ key }) => key),
    readText: (text) => readLine(text, unusableUsage),
    countedOf: (line) => countedOf(line, snapshot()),
    onLine(line, counted) {
      table.onCounted(line, counted)
      settle.onLine(line)
    },
    onTold: settle.onTold,
    maxBytes: config.usageJournalBytes,
    daily: config.usageArchiveDir !== undefined,
    ...(ledger && { isDone: ledger.isDone }),
    askEnvoy: (page, method) => askAdmin(config.envoyAdminAddress, page, method),
    flushMs,
    onLoss: config.onCounterLoss,
    onUnavailable(isUnavailable, cause) {
      // Only the message: other fields of the error may contain a password.
      if (isUnavailable)
        log.error(
          {
            code: 'redis_unavailable',
            cause: redis?.connection.problem?.message ?? causeMessage(cause),
          },
          'cannot reach Redis: each process counts only the requests of its own gateway',
        )
      else log.info({ code: 'redis_available' }, 'Redis is back')
    },
    onLost: () =>
      log.error({ code: 'redis_data_lost' }, 'Redis lost counters: each gateway restores its sums'),
    onProblem(problem, isThere, cause) {
      logProblem(context, problem, isThere, cause)
      if (problem === 'unreadable') noteCanRead(!isThere)
    },
    onRestored: () =>
      log.warn(
        { code: 'journal_folder_restored', journal: path },
        'the folder of the usage journal was removed and has been recreated from the copies in DATA_DIR, without the lines of the last second: find out what removes it',
      ),
    onRenamed: (from, to) =>
      log.warn(
        { code: 'gateway_renamed', from, to },
        "this gateway's volume is a copy of another gateway's: continuing under a new gateway name",
      ),
    onFault: besidesRemoval(path, onFault),
  }).catch((cause: unknown) => {
    throw new Error(`USAGE_JOURNAL: ${path} cannot be used: ${errorMessage(cause)}`, { cause })
  })
  /** Before the counter is reset, so that the table does not decide by its old value. */
  function reset(key: string, to: CounterReset): void {
    table.dropCounter(key)
    opened.reset(key, to)
  }

  resets.start(reset)
  const { windows, read, readFresh, partOf } = opened
  const isWriter = (): boolean => opened.isWriter
  const holds =
    redis?.createHolds({ windows, read, partOf, isWriter }) ?? createMemoryHolds(windows)
  stops.push(
    part('the counters', async (graceMs) => {
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
  const refuse = (): never => {
    throw new ServiceError('counters_unavailable')
  }
  const refuseLate = async (): Promise<never> => refuse()
  return {
    counters: { read: refuse, readFresh: refuseLate, reset: refuseLate },
    holds: { hold: refuse, release() {}, undo() {}, renew() {} },
    sums: undefined,
    resets: undefined,
    isWriter: () => false,
    histograms: () => [],
    canRead: { now: () => true, whenChanged() {} },
  }
}

const problems: Record<JournalProblem, string> = {
  unreadable: 'cannot read the usage journal: this process is not ready',
  unwritable: 'cannot write to the folder of the usage journal',
  silent:
    'cannot count allowed requests: the gateway writes no lines; check that Envoy writes to this folder',
  envoy:
    'Envoy cannot write its access log in the usage journal; check that the file system has room',
  script:
    'the gateway’s script cannot write to the usage journal: Envoy’s access log writes the lines instead',
  flush: 'Envoy flushes its access log too rarely: start it with --file-flush-interval-msec 20',
  kept: 'cannot save the checkpoint and the copy of the usage journal in DATA_DIR',
  mismatch: 'the files of the usage journal have wrong owners or modes',
}

function logProblem(
  { config, log }: Context,
  problem: JournalProblem,
  isThere: boolean,
  cause: unknown,
): void {
  const journal = config.usageJournal
  if (isThere) {
    log.error(
      { code: 'journal_failing', journal, problem, cause: errorMessage(cause) },
      problems[problem],
    )
  } else log.info({ code: 'journal_restored', journal, problem }, 'usage journal problem resolved')
}

/** Undefined: there is no REDIS_URL. */
async function connect({ config, log, signal, stops }: Context) {
  if (config.redisUrl === undefined) return undefined
  // The client is loaded on demand, because it takes memory and start-up time.
  const { connectRedis } = await import('../ratelimit/redis/connection.ts')
  const { createRedisHolds } = await import('../ratelimit/holds/redis.ts')
  const { createRedisSums } = await import('../ratelimit/sums/redis-sums.ts')
  const connection: RedisConnection = connectRedis(config.redisUrlNow, (error) =>
    log.debug({ cause: String(error) }, 'connection to Redis failed'),
  )
  stops.push(connection.close)
  const isUp = await withAbort(connection.connected(connectWaitMs), signal)
  const { problem, commands } = connection
  if (problem?.isFinal) throw new Error(`REDIS_URL: ${problem.message}`)
  if (!isUp) {
    const cause = problem?.message ?? `no response within ${connectWaitMs / 1_000} s`
    log.warn(
      { code: 'redis_absent', setting: 'REDIS_URL', cause },
      'cannot reach Redis: starting without it',
    )
  }
  const { store, histograms } = measured(createRedisSums(commands))
  return {
    connection,
    store,
    histograms,
    createHolds: (options: Omit<Parameters<typeof createRedisHolds>[0], 'commands'>) =>
      createRedisHolds({ ...options, commands }),
  }
}

/** The same store, with its calls measured. */
function measured(store: SumStore) {
  const tookMs = createDurations(callBounds)
  const sizes = createDistribution(sizeBounds)
  const timed: SumStore = {
    ...store,
    async write(mark, entries, ended) {
      const begin = performance.now()
      const written = await store.write(mark, entries, ended)
      // Calls without sums only look for losses.
      if (entries.length > 0) {
        tookMs.observe(performance.now() - begin)
        sizes.observe(entries.length)
      }
      return written
    },
  }
  const histograms = (): readonly MetricData[] => [
    soleHistogram(
      'tollgate_redis_flush_seconds',
      'How long Redis took to answer a batch of counters.',
      tookMs,
    ),
    soleHistogram('tollgate_redis_flush_counters', 'Counters in a batch sent to Redis.', sizes, ''),
  ]
  return { store: timed, histograms }
}
