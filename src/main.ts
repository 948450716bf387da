/** The composition root: builds every part, hands it its dependencies, stops them in order. */

import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { pino } from 'pino'
import type postgres from 'postgres'
import { createIsAdmin } from './admin/administrators.ts'
import { createProbeModel } from './admin/model-probe.ts'
import { buildAdmin, buildInternal } from './admin/server.ts'
import { type Address, type Config, loadConfig, type SocketAddress, showAddress } from './config.ts'
import { startController } from './controller/controller.ts'
import { sharedPriorities } from './core/conditions.ts'
import type { Snapshot } from './core/snapshot.ts'
import { createCheck } from './extauthz/service.ts'
import { createClusterFile } from './gateway/cluster-file.ts'
import { createGrpcServer } from './grpc/server.ts'
import { createVerifyKey } from './identity/api-key.ts'
import { createAuthenticate } from './identity/authenticate.ts'
import { noTokens, openTokenFile } from './identity/token-file.ts'
import { readUsages } from './ratelimit/access-log.ts'
import { createShouldRateLimit } from './ratelimit/rate-limit.ts'
import { createSettle } from './ratelimit/settle.ts'
import { createCachedApiKeys } from './store/cached-api-keys.ts'
import { startCleanupSchedule } from './store/cleanup-schedule.ts'
import { startEmbeddedPostgres } from './store/embedded-postgres.ts'
import { createMemoryCounters } from './store/memory-counters.ts'
import { migrate } from './store/migrate.ts'
import { openPool, ping } from './store/postgres.ts'
import { createPostgresApiKeys } from './store/postgres-api-keys.ts'
import { connectRedis } from './store/redis-connection.ts'
import { createRedisCounters, type RedisCounters } from './store/redis-counters.ts'

export interface Service {
  /** Where it listens, with the ports that were found where a setting said 0. */
  readonly addresses: ServiceAddresses
  /** Drains and closes every part, in bounded time. Safe to call twice. */
  stop(): Promise<void>
}

export interface ServiceAddresses {
  readonly api: SocketAddress
  readonly internal: SocketAddress
  readonly grpc: readonly Address[]
}

/** How long a start waits for its database, and how long calls may take to end at a stop. */
const databaseWaitMs = 30_000
const drainMs = 10_000
/** How long a start waits for Redis, and a stop for what was counted to get there. */
const redisWaitMs = 2_000
const counterFlushGraceMs = 5_000
/** A cached key is asked for again after this long (milliseconds). */
const keyCacheTtlMs = 10_000

/**
 * Starts the service with these settings. When any part fails to start, those before it are
 * stopped again and the error says which setting to look at.
 */
export async function serve(env: NodeJS.ProcessEnv): Promise<Service> {
  const config = loadConfig(env)
  const stops: (() => unknown)[] = []
  let stopping: Promise<void> | undefined
  const stop = (): Promise<void> => {
    stopping ??= (async () => {
      for (const part of stops.reverse()) await part()
    })()
    return stopping
  }
  try {
    return { addresses: await start(config, stops), stop }
  } catch (error) {
    await stop()
    throw error
  }
}

/** Builds and starts the parts; each leaves its own end in `stops`, run last to first. */
async function start(config: Config, stops: (() => unknown)[]): Promise<ServiceAddresses> {
  const log = pino({ level: config.logLevel })
  const clock = Date.now
  const onFault = (error: unknown): void => log.error({ err: error }, 'fault')

  let snapshot: Snapshot | undefined
  let problems: () => readonly string[] = () => []
  let ready = false
  const current = (): Snapshot => {
    if (snapshot === undefined) throw new Error('no snapshot has been published')
    return snapshot
  }

  const database = await openDatabase(config, log, stops)
  await waitForDatabase(database, log)
  const keys = createCachedApiKeys(createPostgresApiKeys(database), {
    entries: config.keyCacheEntries,
    ttlMs: keyCacheTtlMs,
  })
  const cleanup = startCleanupSchedule({
    run: () => keys.deleteExpiredEphemeral(clock()),
    onDeleted: (deleted) => log.info({ deleted }, 'expired ephemeral keys deleted'),
    onFault,
  })
  stops.push(() => cleanup.stop())

  const clusterFile = createClusterFile(config.envoyConfigDir, onFault)
  stops.push(() => clusterFile.close())
  const controller = await startController({
    folder: config.resourceFolder,
    async publish(fresh) {
      await clusterFile.announce(fresh)
      snapshot = fresh
    },
    report(fresh, found) {
      for (const problem of found) log.warn({ problem }, 'resource problem')
      for (const message of sharedPriorities(fresh)) log.warn(message)
      const { models, policies, subscriptions } = fresh
      log.info(
        {
          models: models.size,
          policies: policies.length,
          subscriptions: subscriptions.size,
          problems: found.length,
        },
        'resources in force',
      )
    },
    onFailure: (error) => log.error({ err: error }, 'resources could not be put in force'),
  }).catch((error: unknown) => {
    throw new Error(`RESOURCES: ${config.resourceFolder} can not be read`, { cause: error })
  })
  stops.push(() => controller.close())
  problems = controller.problems

  const tokens = openTokens(config, log, stops)
  const markers = { own: config.keyMarker, accepted: config.acceptedMarkers }
  const authenticate = createAuthenticate({
    key: createVerifyKey(keys, markers),
    token: tokens,
  })
  const redis = config.redisUrl === undefined ? undefined : await openRedis(config, log, stops)
  const counters = redis ?? createMemoryCounters()
  const settle = createSettle({
    snapshot: current,
    counters,
    clock,
    onSettled(usage, tokensCounted) {
      if (tokensCounted === undefined && usage.status >= 200 && usage.status < 300) {
        log.warn({ model: usage.model }, 'an answer reported no usable usage')
      }
    },
  })

  const grpc = createGrpcServer({
    unary: {
      '/envoy.service.auth.v3.Authorization/Check': createCheck({
        authenticate,
        snapshot: current,
        counters,
        clock,
        onFault,
      }),
      '/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit': createShouldRateLimit({
        settle,
        onIgnored: (reason) => log.warn({ reason }, 'reported usage is not counted'),
      }),
    },
    sinks: {
      '/envoy.service.accesslog.v3.AccessLogService/StreamAccessLogs': (message) => {
        for (const usage of readUsages(message)) settle(usage)
      },
    },
    onFault,
  })
  const external = buildAdmin({
    keys,
    snapshot: current,
    clock,
    log,
    authenticate,
    isAdmin: createIsAdmin(config.adminGroups),
    keyMarker: config.keyMarker,
    maxExpirationDays: config.maxExpirationDays,
    probeModel: createProbeModel(),
    gatewayUrl: config.gatewayUrl,
    accessCheckTimeoutMs: config.accessCheckTimeoutSeconds * 1_000,
    instanceName: config.instanceName,
  })
  const internal = buildInternal({
    keys,
    markers,
    clock,
    log,
    snapshot: current,
    ready: () => ready,
    degraded: async () => [
      ...((await ping(database)) ? [] : ['database']),
      ...(redis?.away ? ['redis'] : []),
    ],
    resourceProblems: () => problems(),
  })

  const grpcAddresses: Address[] = []
  for (const address of config.grpcAddresses) {
    stops.push(() => grpc.stop(drainMs))
    const shown = showAddress(address)
    const port = await named('GRPC_ADDRESS', shown, () => grpc.listen(shown))
    grpcAddresses.push('path' in address ? address : { ...address, port })
  }
  const listen = async (
    name: string,
    app: typeof external,
    at: SocketAddress,
  ): Promise<SocketAddress> => {
    stops.push(() => app.close())
    await app.ready()
    await named(name, showAddress(at), () => app.listen({ ...at }))
    return { ...at, port: (app.server.address() as AddressInfo).port }
  }
  const addresses = {
    grpc: grpcAddresses,
    api: await listen('API_ADDRESS', external, config.apiAddress),
    internal: await listen('INTERNAL_ADDRESS', internal, config.internalAddress),
  }
  stops.push(() => {
    ready = false
  })
  ready = true
  log.info(
    {
      api: showAddress(addresses.api),
      internal: showAddress(addresses.internal),
      grpc: addresses.grpc.map(showAddress),
    },
    'ready',
  )
  return addresses
}

/** The database of the settings, or the embedded one; migrated by `waitForDatabase`. */
async function openDatabase(
  config: Config,
  log: pino.Logger,
  stops: (() => unknown)[],
): Promise<postgres.Sql> {
  let url = config.databaseUrl
  if (url === undefined) {
    const embedded = await startEmbeddedPostgres({
      directory: join(config.dataDir, 'postgres'),
      log: (line) => log.info(line),
    })
    stops.push(() => embedded.stop())
    url = embedded.url
  }
  const pool = openPool({ url, connections: config.databaseConnections })
  stops.push(() => pool.end({ timeout: 5 }))
  return pool
}

/** Migrates as soon as the database answers: services and their database often start together. */
async function waitForDatabase(pool: postgres.Sql, log: pino.Logger): Promise<void> {
  const giveUpAt = Date.now() + databaseWaitMs
  while (!(await ping(pool))) {
    if (Date.now() > giveUpAt) {
      throw new Error(`DATABASE_URL: no answer within ${databaseWaitMs / 1_000} s`)
    }
    log.warn('waiting for the database')
    await delay(1_000)
  }
  const applied = await migrate(pool)
  if (applied.length > 0) log.info({ migrations: applied }, 'database migrated')
}

/** Counters over Redis. A Redis that does not answer delays the start a little, and no more. */
async function openRedis(
  config: Config,
  log: pino.Logger,
  stops: (() => unknown)[],
): Promise<RedisCounters> {
  const connection = connectRedis(config.redisUrl as string, (error) =>
    log.debug({ cause: String(error) }, 'Redis connection'),
  )
  const counters = createRedisCounters({
    commands: connection.commands,
    cluster: connection.cluster,
    flushMs: config.counterFlushMs,
    onLoss: config.onCounterLoss,
    onAway(away, cause) {
      // The message alone: what the error holds besides may be a password.
      if (away)
        log.error({ cause: String(cause) }, 'Redis is away: counters go on from what is known')
      else log.info('Redis is back')
    },
  })
  stops.push(async () => {
    const lost = await counters.stop(counterFlushGraceMs)
    if (lost > 0) log.error({ counters: lost }, 'Redis is away: what they counted last is lost')
    connection.close()
  })
  await connection.connected(redisWaitMs)
  return counters
}

function openTokens(config: Config, log: pino.Logger, stops: (() => unknown)[]): typeof noTokens {
  if (config.tokenAuthFile === undefined) return noTokens
  try {
    const file = openTokenFile(config.tokenAuthFile, (problem) => log.warn({ problem }, 'tokens'))
    stops.push(() => file.close())
    return file.verify
  } catch (error) {
    throw new Error(`TOKEN_AUTH_FILE: can not read ${config.tokenAuthFile}`, { cause: error })
  }
}

/** Runs a listen; a failure names the setting that asked for it. */
async function named<Result>(
  setting: string,
  address: string,
  listen: () => Promise<Result>,
): Promise<Result> {
  try {
    return await listen()
  } catch (error) {
    const taken = /EADDRINUSE/.test(String(error))
    const why = taken ? 'is already taken' : 'can not be listened on'
    throw new Error(`${setting}: ${address} ${why}`, { cause: error })
  }
}
