/** The process of `tollgate controller`: its writes, probes and metrics. */

import { join } from 'node:path'
import type { Logger } from 'pino'
import { findEmbeddedPostgres } from '../../dev/postgres/embedded-postgres.ts'
import { openEarlyProbes } from '../admin/operation/early-probes.ts'
import {
  type ClusterController,
  type ControllerDatabase,
  startClusterController,
} from '../cluster/controller/cluster-controller.ts'
import { watchReports } from '../cluster/in-force/reports.ts'
import { listenServer } from '../runtime/listen.ts'
import { readVersion } from '../runtime/package-root.ts'
import { type Stop, stopInOrder } from '../runtime/shutdown.ts'
import { timedStop } from '../runtime/stops.ts'
import type { Config } from '../settings/config.ts'
import { openPool } from '../store/postgres/postgres.ts'
import { createExposition } from '../telemetry/exposition.ts'
import { createMetricsServer } from '../telemetry/metrics-server.ts'
import { watchProcess } from '../telemetry/process.ts'
import type { Sources } from '../telemetry/readings.ts'
import type { Context } from './context.ts'
import { openConfiguredTls } from './listener-tls.ts'

type Opening = Pick<Context, 'config' | 'log' | 'stops'>

/**
 * Alive at once, and ready once the cluster has been read, whether or not it is the leader. `stop` releases the Lease,
 * and resolves to whether everything ended in time. `signal` ends a start that waits for the cluster.
 */
export async function serveController(config: Config, log: Logger, signal?: AbortSignal) {
  const stops: Stop[] = []
  let isReady = false
  const stop = (): Promise<boolean> => {
    isReady = false
    return stopInOrder(stops.reverse(), { log })
  }
  try {
    const addresses = await start({ config, log, stops }, () => isReady, signal)
    isReady = true
    return { ...addresses, stop }
  } catch (error) {
    await stop()
    throw error
  }
}

/** Opens the listeners, then the controller. */
async function start(context: Opening, isReady: () => boolean, starting?: AbortSignal) {
  const { config, log, stops } = context
  const tls = openConfiguredTls(context)
  const internalTls = 'path' in config.internalAddress ? undefined : tls?.asking
  const probes = await openEarlyProbes(config, internalTls, isReady)
  stops.push(probes.close)
  let controller: ClusterController | undefined
  const watched = watchProcess(readVersion())
  const exposition = createExposition({ ...sourcesOf(() => controller), ...watched.sources })
  stops.push(watched.stop)
  const onFault = (error: unknown): void =>
    log.error({ code: 'internal_fault', err: error }, 'unexpected error')
  const server = createMetricsServer(exposition, onFault, tls?.plain, config.hopMark)
  const { metricsAddress } = config
  const metrics = metricsAddress && (await listenServer('METRICS_ADDRESS', server, metricsAddress))
  stops.push(() => {
    server.close()
    server.closeAllConnections()
  })
  controller = await startClusterController({
    config,
    log,
    clock: Date.now,
    database: openDatabase(context),
    ...(starting && { starting }),
  })
  stops.push(timedStop('the controller', controller.stop))
  return { internal: probes.address, metrics }
}

/** The shared state of the processes, if there is a database: the configured one, or a service's in DATA_DIR. */
function openDatabase({ config, stops }: Opening): ControllerDatabase | undefined {
  const embedded = () => findEmbeddedPostgres(join(config.dataDir, 'postgres'))
  const first = config.databaseUrl ?? embedded()
  if (first === undefined) return undefined
  const url = config.databaseUrl === undefined ? () => embedded() ?? first : config.databaseUrlNow
  const { database, end } = openControllerDatabase(url)
  stops.push(timedStop('the database connections', end))
  return database
}

/** Nothing is known before the cluster has been read. */
function sourcesOf(controller: () => ClusterController | undefined): Sources {
  return {
    tollgate_controller_leader: () => controller()?.isLeader ?? false,
    tollgate_controller_writes: () => controller()?.written ?? 0,
    tollgate_controller_waiting: () => controller()?.waiting ?? 0,
    tollgate_controller_held_back: () => controller()?.isHeldBack,
    tollgate_resource_problems: () => controller()?.problems().length,
    tollgate_resources_failing: () => controller()?.isFailing,
  }
}

/** Opens its connections; `url` is called for each, as its password may change. */
export function openControllerDatabase(url: () => string) {
  const sql = openPool({ url, connections: 1, applicationName: 'tollgate controller' })
  const database: ControllerDatabase = {
    watchReports: (listener, signal) => watchReports({ ...listener, sql, url, signal }),
  }
  return { database, end: (graceMs?: number) => sql.end(graceMs) }
}
