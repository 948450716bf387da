/** The composition root: builds every part, hands it its dependencies, stops them in order. */

import { type Logger, pino } from 'pino'
import { createIsAdmin } from './admin/administrators.ts'
import { drain } from './admin/drain.ts'
import { createProbeModel } from './admin/model-probe.ts'
import { buildAdmin, buildInternal } from './admin/server.ts'
import { type Address, loadConfig, type SocketAddress, showAddress } from './config.ts'
import type { Outcome } from './core/model-failure.ts'
import { createCheck } from './extauthz/service.ts'
import { createGrpcServer } from './grpc/server.ts'
import { createVerifyKey } from './identity/api-key.ts'
import { createAuthenticate } from './identity/authenticate.ts'
import { readUsages } from './ratelimit/access-log.ts'
import type { Journal } from './ratelimit/journal/journal.ts'
import { createShouldRateLimit } from './ratelimit/rate-limit.ts'
import { describePaths } from './settings/describe-paths.ts'
import { ping } from './store/postgres/postgres.ts'
import { createMetricsServer } from './telemetry/metrics-server.ts'
import { noteService, openAudit } from './wiring/audit.ts'
import { checkFiles } from './wiring/check-files.ts'
import type { Context } from './wiring/context.ts'
import { openCounters } from './wiring/counters.ts'
import { openDatabase } from './wiring/database.ts'
import { createDenialLog } from './wiring/denial-log.ts'
import { openEarlyProbes } from './wiring/early-probes.ts'
import { writeEnvoyFiles } from './wiring/envoy-files.ts'
import { createGatewayDrain } from './wiring/gateway-drain.ts'
import { openKeys } from './wiring/keys.ts'
import { listenGrpc, listenHttp, listenServer } from './wiring/listen.ts'
import { openTls } from './wiring/listener-tls.ts'
import { createModelHealth } from './wiring/model-health.ts'
import { openResources } from './wiring/resources.ts'
import { openServedNames } from './wiring/served-names.ts'
import { type Stop, stopInOrder } from './wiring/shutdown.ts'
import { openTelemetry, readVersion } from './wiring/telemetry.ts'
import { openTokens } from './wiring/tokens.ts'
import {
  openTracing,
  startExport,
  traceCheck,
  traceCounters,
  traceDecisions,
  traceKey,
  traceKeys,
} from './wiring/tracing.ts'
import { openJournal, openSettle } from './wiring/usage.ts'

export interface Service {
  /** Where it listens, with the ports that were found where a setting said 0. */
  readonly addresses: ServiceAddresses
  /**
   * Drains and closes every part, within 15 seconds. Answers whether all of them ended in time; what
   * was lost with one that did not is logged. Safe to call twice.
   */
  stop(): Promise<boolean>
  /** Logs at `debug`, and when called again as it did before; answers the level. */
  toggleDebug(): string
}

export interface ServiceAddresses {
  readonly api: Address
  readonly internal: Address
  readonly grpc: readonly Address[]
  /** undefined: metrics are off. */
  readonly metrics: SocketAddress | undefined
}

/**
 * Starts the service with these settings. When any part fails to start, those before it are
 * stopped again and the error says which setting to look at; the same happens when `signal` aborts
 * while it waits for something.
 */
export async function serve(
  env: NodeJS.ProcessEnv,
  signal: AbortSignal = new AbortController().signal,
): Promise<Service> {
  const config = loadConfig(env, checkFiles)
  const log = pino({ level: config.logLevel })
  const stops: Stop[] = []
  let stopping: Promise<boolean> | undefined
  const stop = (): Promise<boolean> => {
    stopping ??= (async () => {
      log.info('draining')
      const complete = await stopInOrder(stops.reverse(), { log })
      log.info({ complete }, 'stopped')
      return complete
    })()
    return stopping
  }
  log.info({ version: readVersion(), replica: config.replicaName }, 'starting')
  const onFault = (error: unknown): void => log.error({ err: error }, 'fault')
  try {
    const parts = { config, log, clock: Date.now, onFault, stops, signal }
    const context = { ...parts, audit: openAudit(parts) }
    const addresses = await start(context)
    await noteService(context)
    return { addresses, stop, toggleDebug: () => toggleDebug(log) }
  } catch (error) {
    await stop()
    throw error
  }
}

/** The level to go back to from `debug`. */
const usualLevels = new WeakMap<Logger, string>()

function toggleDebug(log: Logger): string {
  const usual = usualLevels.get(log)
  if (usual === undefined) usualLevels.set(log, log.level)
  else usualLevels.delete(log)
  log.level = usual ?? 'debug'
  log.info({ level: log.level }, 'the level of the log has changed')
  return log.level
}

/** Builds and starts the parts, the ones that others ask first. */
async function start(context: Context): Promise<ServiceAddresses> {
  const { config, log, audit, clock, onFault, stops } = context
  const tracing = openTracing(config)
  const tls = openTls(context)
  // Who may use a Unix socket is said by its mode.
  const internalTls = 'path' in config.internalAddress ? undefined : tls?.asking
  const probes = await openEarlyProbes(config, internalTls)
  stops.push(probes.close)
  if (config.envoyConfigWrite) await writeEnvoyFiles(config)
  const database = await openDatabase(context)
  const keyParts = await openKeys(context, database)
  const { keys, propagation, noteUse } = keyParts
  const resources = await openResources(context)
  const { problems } = resources
  const learner = openServedNames(context, database, resources)
  const { snapshot } = learner
  const markers = { own: config.keyMarker, accepted: config.acceptedMarkers }
  const tokens = openTokens(context, resources, tracing)
  const authenticate = createAuthenticate({
    key: traceKey(tracing, createVerifyKey(keys, markers, noteUse)),
    token: tokens.verify,
  })
  const counterParts = await openCounters(context)
  const { counters, redis } = counterParts
  const telemetry = openTelemetry(context, {
    ...keyParts,
    ...counterParts,
    ...resources,
    identity: tokens.figures,
    journal: () => journal as Journal,
  })
  await startExport(context, telemetry)
  const settle = openSettle(context, counterParts, resources, telemetry)
  const journal = openJournal(context, counterParts, settle)
  await journal?.start()

  const refusals = createDenialLog({ log, perSecond: config.refusalLinesPerSecond })
  stops.push(refusals.flush)
  const health = createModelHealth({ snapshot, log, clock })
  const onOutcome = (outcome: Outcome): void => {
    health.note(outcome)
    telemetry.onEnded(outcome)
  }
  const check = telemetry.timed(
    createCheck({
      authenticate,
      snapshot,
      counters: traceCounters(tracing, counters),
      paths: config.paths,
      tokensOpen: config.tokensOpenInference,
      clock,
      ...traceDecisions(tracing, { onDecided: telemetry.onDecided, onRefused: refusals.check }),
      onFault,
    }),
  )
  const grpc = createGrpcServer({
    unary: {
      '/envoy.service.auth.v3.Authorization/Check': traceCheck(tracing, check),
      '/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit': createShouldRateLimit({
        settle,
        onIgnored: (reason) => log.warn({ reason }, 'reported usage is not counted'),
      }),
    },
    sinks: {
      '/envoy.service.accesslog.v3.AccessLogService/StreamAccessLogs': (message) => {
        for (const usage of readUsages(message, journal !== undefined, onOutcome)) {
          settle(usage)
          journal?.told()
        }
      },
    },
    onFault,
    tls: tls?.demanding,
  })
  const external = buildAdmin({
    onAnswered: telemetry.onApiAnswered,
    keys: traceKeys(tracing, keys),
    openSpan: tracing.open,
    propagation: propagation.wait,
    snapshot,
    clock,
    log,
    audit,
    onRefused: refusals.request,
    authenticate,
    trustedProxies: config.trustedProxies ?? [],
    rate: config.apiRateLimit,
    addressRate: config.apiAddressRateLimit,
    tls: 'path' in config.apiAddress ? undefined : tls?.plain,
    isAdmin: createIsAdmin(config.adminGroups, tokens.mayAdminister),
    keyMarker: config.keyMarker,
    markers,
    maxExpirationDays: config.maxExpirationDays,
    // So that look-ups and revocations never wait for searches to end.
    searchesAtOnce: Math.max(1, Math.floor(config.databaseConnections / 5)),
    probeModel: createProbeModel(),
    onServed: learner.note,
    gatewayUrl: config.gatewayUrl,
    accessCheckTimeoutMs: config.accessCheckTimeoutSeconds * 1_000,
    instanceName: config.instanceName,
  })
  let ready = false
  const gatewayDrain = createGatewayDrain(context)
  const internal = buildInternal({
    onAnswered: telemetry.onApiAnswered,
    keys,
    markers,
    clock,
    log,
    audit,
    onRefused: refusals.request,
    snapshot,
    ready: () => ready && !gatewayDrain.isAsked,
    gatewayDrain,
    degraded: async () => [
      ...((await ping(database.pool)) ? [] : ['database']),
      ...(redis?.away ? ['redis'] : []),
      ...(keyParts.follower.stats().silent.length > 0 ? ['replicas'] : []),
      ...(keyParts.keeper.stats().failing ? ['revocation-log'] : []),
      // Both may name the cluster.
      ...new Set([...tokens.degraded(), ...resources.degraded()]),
      ...(journal?.stats.failing ? ['journal'] : []),
    ],
    tls: internalTls,
    asksCallers: internalTls !== undefined && tls?.asksCallers === true,
    backendOf: health.stateOf,
    resourceProblems: problems,
    noteUse,
  })

  const metrics = createMetricsServer(telemetry, onFault, tls?.plain)
  stops.push(() => {
    metrics.close()
    metrics.closeAllConnections()
  })
  // The probes are among the last to close: they tell what the others are about to do.
  stops.push({
    name: 'the internal listener',
    shareMs: 100,
    lost: 'calls under way',
    stop: () => drain(internal, 0),
  })
  stops.push({
    name: 'the listeners',
    shareMs: 5_000,
    lost: 'calls under way',
    stop: (graceMs) => Promise.all([grpc.stop(graceMs), drain(external, graceMs)]),
  })
  const metricsAddress =
    config.metricsAddress && (await listenServer('METRICS_ADDRESS', metrics, config.metricsAddress))
  await internal.ready()
  await probes.handOver(internal.server)
  const grpcAddresses: Address[] = []
  for (const address of config.grpcAddresses) {
    grpcAddresses.push(await listenGrpc(grpc, address, config.socketMode))
  }
  const addresses = {
    grpc: grpcAddresses,
    api: await listenHttp('API_ADDRESS', external, config.apiAddress, config.socketMode),
    internal: probes.address,
    metrics: metricsAddress,
  }
  stops.push(() => {
    ready = false
  })
  ready = true
  log.info(describePaths(config.paths))
  log.info(
    {
      api: showAddress(addresses.api),
      internal: showAddress(addresses.internal),
      grpc: addresses.grpc.map(showAddress),
      metrics: metricsAddress && showAddress(metricsAddress),
    },
    'ready',
  )
  return addresses
}
