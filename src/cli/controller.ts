import { pino } from 'pino'
import { onStop } from '../runtime/stop-signals.ts'
import { loadConfig } from '../settings/config.ts'
import { serveController } from '../wiring/controller-process.ts'
import { refuseArguments } from './usage.ts'

const usage = `Usage: tollgate controller

Writes the statuses of the resources in the cluster (RESOURCES=kubernetes). Of several controllers
only the holder of the Lease tollgate-controller writes; the others wait to take over. The service does
not need a controller. INTERNAL_ADDRESS serves /livez and /readyz, METRICS_ADDRESS its metrics. It runs
until SIGTERM, SIGINT or SIGHUP. See docs/kubernetes.md.`

/** `tollgate controller`: runs until it is stopped. Rejects if it cannot start. */
export async function controllerCommand(
  args: readonly string[],
  env: NodeJS.ProcessEnv,
): Promise<number> {
  const status = refuseArguments(args, usage)
  if (status !== undefined) return status
  const config = loadConfig({ ...env, RESOURCES: env.RESOURCES || 'kubernetes' })
  if (config.resourceFolder !== undefined) {
    throw new Error('RESOURCES: must be kubernetes; a folder has no statuses')
  }
  const log = pino({ level: config.logLevel })
  const asked = onStop(() => {})
  // Before the cluster has been read there is nothing to release.
  const started = serveController(config, log)
  await Promise.race([started, asked])
  await asked
  setTimeout(() => process.exit(1), 5_000).unref()
  process.exit((await (await started).stop()) ? 0 : 1)
}
