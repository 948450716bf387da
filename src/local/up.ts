/**
 * The whole gateway on this machine, with each part a supervised process, until a signal or the end
 * of its parent.
 */
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import type { JudgeAddress } from '../core/resources/refuse-addresses.ts'
import { judgeOf } from '../gateway/address-rules.ts'
import { StartError } from '../runtime/start-error.ts'
import { onStop } from '../runtime/stop-signals.ts'
import type { Config } from '../settings/config.ts'
import { loadSnapshot } from '../sources/pipeline.ts'
import { claim } from './claim.ts'
import { findEnvoy } from './envoy-binary.ts'
import { createParts } from './parts.ts'
import { checkPorts } from './ports.ts'
import { reap } from './run-records.ts'
import { writeSampleResources } from './sample-resources.ts'
import { createSupervisor, type Supervisor } from './supervisor.ts'
import { makeTryLines } from './try-lines.ts'
import { localUrl, readUpSettings, sampleModelServer, type UpSettings } from './up-settings.ts'
import { welcome } from './welcome.ts'

/**
 * Starts everything with these settings, which `check` tests, prints how to try it, and ends the process with status 0 after a requested
 * stop. Rejects if it cannot start; no process is then left running.
 */
export async function runGateway(
  env: NodeJS.ProcessEnv,
  check: (config: Config) => readonly string[],
): Promise<never> {
  const settings = readUpSettings(env, check)
  const supervisor = createSupervisor(log)
  for (const fault of ['uncaughtException', 'unhandledRejection']) {
    process.once(fault, async (error: unknown) => {
      console.error(error)
      await supervisor.stop()
      process.exit(1)
    })
  }
  process.on('SIGUSR2', () => supervisor.signal('the service', 'SIGUSR2'))
  const stopped = onStop(supervisor.kill).then((reason) => {
    log(`Stopping (${reason})`)
    return supervisor.stop()
  })
  try {
    await start(env, settings, supervisor)
  } catch (error) {
    if (!supervisor.ending.aborted) {
      await supervisor.stop()
      throw error
    }
  }
  await stopped
  log('Everything has stopped')
  process.exit(0)
}

async function start(
  env: NodeJS.ProcessEnv,
  settings: UpSettings,
  supervisor: Supervisor,
): Promise<void> {
  const { config } = settings
  const signal = supervisor.ending
  claimDataDir(config.dataDir)
  const resourceFolder = chooseResources(settings)
  if (resourceFolder !== undefined) await checkResources(resourceFolder, judgeOf(config))
  await reap(join(config.dataDir, 'run'), log)
  await checkPorts([
    { setting: 'GATEWAY_ADDRESS', ...config.gatewayAddress },
    ...('host' in config.apiAddress ? [{ setting: 'API_ADDRESS', ...config.apiAddress }] : []),
    { setting: 'INTERNAL_ADDRESS', ...config.internalAddress },
    ...config.grpcAddresses.flatMap((address) =>
      'path' in address ? [] : [{ setting: 'GRPC_ADDRESS', ...address }],
    ),
    ...(config.metricsAddress ? [{ setting: 'METRICS_ADDRESS', ...config.metricsAddress }] : []),
    ...('host' in config.envoyAdminAddress
      ? [{ setting: 'ENVOY_ADMIN_ADDRESS', ...config.envoyAdminAddress }]
      : []),
    { setting: 'MODEL_SERVER_ADDRESS', ...config.modelServerAddress },
  ])
  const envoy = await findEnvoy({ path: config.envoyPath, env, log, signal })
  for (const part of createParts({ env, settings, resourceFolder, envoy, log })) {
    signal.throwIfAborted()
    log(`Starting ${part.name}`)
    await supervisor.start(part)
  }
  // Only the sample's own identities and resources give these three responses.
  const sample = settings.sampleResources && settings.sampleTokens
  const gateway = localUrl(config.gatewayAddress)
  const lines = sample ? await makeTryLines({ gateway, signal }) : []
  console.log(welcome({ settings, resourceFolder, lines }))
}

/** One `up` per data folder: two would stop each other's processes. */
function claimDataDir(dataDir: string): void {
  mkdirSync(dataDir, { recursive: true })
  const claimed = claim(join(dataDir, 'in-use'))
  if ('heldBy' in claimed) {
    throw new StartError(
      `${dataDir} is in use by another Tollgate (process ${claimed.heldBy}): stop that one, or set DATA_DIR to another folder.`,
    )
  }
  process.on('exit', claimed.release)
}

/**
 * The folder of resources: the user's own, the sample's, or the sample's with another address.
 * undefined: they come from the cluster.
 */
function chooseResources({ config, sampleResources }: UpSettings): string | undefined {
  const url = localUrl(config.modelServerAddress)
  if (!sampleResources || url === `http://${sampleModelServer}`) return config.resourceFolder
  const folder = join(config.dataDir, 'sample-resources')
  writeSampleResources(folder, url)
  return folder
}

/**
 * Throws a StartError that names every invalid document. A running service would continue with the
 * others, but at a start the user should know first.
 */
async function checkResources(folder: string, judge: JudgeAddress): Promise<void> {
  const { problems } = await loadSnapshot(folder, { judgeAddress: judge }).catch((cause) => {
    throw new StartError(`RESOURCES: ${folder} cannot be read.`, { cause })
  })
  const shown = { error: [] as string[], warning: [] as string[] }
  for (const { file, line, severity, message } of problems) {
    shown[severity].push(`${join(folder, file)}:${line}: ${message}`)
  }
  for (const warning of shown.warning) log(`Warning: ${warning}`)
  if (shown.error.length > 0) throw new StartError(shown.error.join('\n'))
}

function log(line: string): void {
  console.log(line)
}
