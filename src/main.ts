/**
 * The composition root: builds every part, passes it its dependencies, and stops the parts in
 * order.
 */

import { drainAnnounceMs, drainServer, followGateways } from './admin/operation/drain.ts'
import { openEarlyProbes } from './admin/operation/early-probes.ts'
import { writeEnvoyFiles } from './gateway/envoy-files.ts'
import { createGatewayDrain } from './gateway/service-drain.ts'
import { listenGrpc, listenHttp, listenServer } from './runtime/listen.ts'
import { createLog, type Logger } from './runtime/log.ts'
import { readVersion } from './runtime/package-root.ts'
import { type Stop, stopInOrder } from './runtime/shutdown.ts'
import { timedStop } from './runtime/stops.ts'
import { type Address, formatAddress, loadConfig, type SocketAddress } from './settings/config.ts'
import { describePaths } from './settings/describe-paths.ts'
import { misspeltSettings } from './settings/misspelt.ts'
import { createMetricsServer } from './telemetry/metrics-server.ts'
import { createExternalApi, createInternalApi, internalTls } from './wiring/apis.ts'
import { auditServiceLifetime, openAudit } from './wiring/audit.ts'
import { createCheckServer } from './wiring/check-server.ts'
import { checkSettings } from './wiring/check-settings.ts'
import type { Context } from './wiring/context.ts'
import { openConfiguredTls } from './wiring/listener-tls.ts'
import { openParts } from './wiring/parts.ts'
import { openState } from './wiring/state.ts'

export interface Service {
  /** The addresses it listens on, with actual ports where a setting was 0. */
  readonly addresses: ServiceAddresses
  /**
   * Drains and closes every part within 15 seconds. Returns whether all of them ended in time;
   * losses of those that did not are logged. May be called twice.
   */
  stop(): Promise<boolean>
  /** Switches the log level to `debug` or back; returns the new level. */
  toggleDebug(): string
}

export interface ServiceAddresses {
  readonly api: Address
  readonly internal: Address
  readonly grpc: readonly Address[]
  /** Undefined if metrics are off. */
  readonly metrics: SocketAddress | undefined
}

/**
 * Starts the service with these settings. If a part fails to start, or `signal` aborts during a
 * wait, those before it are stopped again. The error names the setting to check.
 */
export async function serve(
  env: NodeJS.ProcessEnv,
  signal: AbortSignal = new AbortController().signal,
): Promise<Service> {
  const config = loadConfig(env, checkSettings)
  const log = createLog(config.logLevel)
  const stops: Stop[] = []
  let stopping: Promise<boolean> | undefined
  const stop = (): Promise<boolean> => {
    stopping ??= (async () => {
      log.info({ code: 'draining' }, 'draining')
      const complete = await stopInOrder(stops.reverse(), { log })
      log.info({ code: 'stopped', complete }, 'stopped')
      return complete
    })()
    return stopping
  }
  log.info({ code: 'starting', version: readVersion(), replica: config.replicaName }, 'starting')
  for (const { name, meant } of misspeltSettings(env)) {
    log.warn(
      { code: 'setting_unknown', variable: name, meant },
      'ignored an unknown environment variable whose name resembles a setting',
    )
  }
  const onFault = (error: unknown): void =>
    log.error({ code: 'internal_fault', err: error }, 'unexpected error')
  try {
    const parts = { config, log, clock: Date.now, onFault, stops, signal }
    const context = { ...parts, audit: openAudit(parts) }
    const addresses = await start(context)
    await auditServiceLifetime(context)
    return { addresses, stop, toggleDebug: () => toggleDebug(log) }
  } catch (error) {
    await stop()
    throw error
  }
}

/** The level to return to from `debug`. */
const usualLevels = new WeakMap<Logger, string>()

function toggleDebug(log: Logger): string {
  const usual = usualLevels.get(log)
  if (usual === undefined) usualLevels.set(log, log.level)
  else usualLevels.delete(log)
  log.level = usual ?? 'debug'
  log.info({ code: 'log_level_changed', level: log.level }, 'log level changed')
  return log.level
}

/** Starts the parts in order of their dependencies. */
async function start(context: Context): Promise<ServiceAddresses> {
  const { config, log, onFault, stops } = context
  const tls = openConfiguredTls(context)
  const probes = await openEarlyProbes(config, internalTls(config, tls))
  stops.push(probes.close)
  if (config.envoyConfigWrite) await writeEnvoyFiles(config)
  const parts = await openParts(context)
  const grpc = createCheckServer(context, parts, tls)
  let ready = false
  const gatewayDrain = createGatewayDrain(context)
  const { counterParts } = parts
  const { canRead } = counterParts
  canRead.whenChanged(grpc.noteServing)
  const state = openState(context, parts, () => ready && canRead.now() && !gatewayDrain.isAsked)
  const condition = { state, gatewayDrain }
  const external = createExternalApi(context, parts, tls, condition)
  const metrics = createMetricsServer(parts.telemetry, onFault, tls?.plain, config.hopMark)
  stops.push(() => {
    metrics.close()
    metrics.closeAllConnections()
  })
  const metricsAddress =
    config.metricsAddress && (await listenServer('METRICS_ADDRESS', metrics, config.metricsAddress))
  const internal = createInternalApi(context, parts, tls, { ...condition, metricsAddress })
  // The probes close late, because they report that the others are closing.
  stops.push(timedStop('the internal listener', () => drainServer(internal, 0)))
  const gateways = followGateways(external.server)
  stops.push({
    name: 'the listeners',
    shareMs: 5_000,
    lost: 'running calls',
    stop: (graceMs) =>
      Promise.all([
        grpc.stop(graceMs, drainAnnounceMs),
        drainServer(external, Math.min(graceMs, 5_000), gateways),
      ]),
  })
  await internal.ready()
  await probes.handOver(internal.server)
  await parts.discovery.untilAsked()
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
    parts.table.stop()
  })
  ready = true
  parts.table.start({ ...parts.keyParts, sums: counterParts.sums, isServing: state.isReady })
  log.info({ code: 'paths' }, describePaths(config.paths))
  log.info(
    {
      code: 'ready',
      api: formatAddress(addresses.api),
      internal: formatAddress(addresses.internal),
      grpc: addresses.grpc.map(formatAddress),
      metrics: metricsAddress && formatAddress(metricsAddress),
    },
    'ready',
  )
  return addresses
}
