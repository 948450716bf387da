/**
 * The whole gateway on this machine, with each part a supervised process, until a signal or the end
 * of its parent.
 */
import { randomBytes } from 'node:crypto'
import { mkdirSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { setImmediate } from 'node:timers/promises'
import { fileModeOf, folderModeOf } from '../src/journal/prepare-folder.ts'
import { StartError } from '../src/runtime/start-error.ts'
import { awaitStopSignal } from '../src/runtime/stop-signals.ts'
import type { Config } from '../src/settings/config.ts'
import { chooseModels } from './choose-models.ts'
import { claim } from './claim.ts'
import { findEnvoy } from './envoy-binary.ts'
import { takePlace } from './journal-place.ts'
import { isSet, listenersOf, recordAddresses } from './own-addresses.ts'
import { createParts } from './parts.ts'
import { checkPorts, type Listen } from './ports.ts'
import { reap } from './run-records.ts'
import { createSupervisor, type Supervisor } from './supervisor.ts'
import { makeTryLines } from './try-lines.ts'
import { localUrl, readUpSettings, type UpSettings, withFreePorts } from './up-settings.ts'
import { welcome } from './welcome.ts'

/**
 * Starts everything with these settings, which `check` tests, prints how to try it (`isVerbose`: and every address), and
 * ends the process with status 0 after a requested stop. `show` makes a message printable. Rejects if it cannot start; no
 * process is then left running.
 */
export async function runGateway(
  env: NodeJS.ProcessEnv,
  check: (config: Config) => readonly string[],
  { isVerbose, show }: { readonly isVerbose: boolean; readonly show: (line: string) => string },
): Promise<never> {
  const log: Log = (line) => console.log(show(line))
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
  const stopped = awaitStopSignal(supervisor.kill).then((reason) => {
    log(`Stopping (${reason})`)
    return supervisor.stop()
  })
  try {
    await start(settings, supervisor, log, isVerbose)
  } catch (error) {
    // Ctrl-C also reaches programs that this process waits for, so it may learn of their end before its own signal.
    await setImmediate()
    if (!supervisor.ending.aborted) {
      await supervisor.stop()
      throw error
    }
  }
  await stopped
  log('Everything has stopped')
  process.exit(0)
}

type Log = (line: string) => void

async function start(
  read: UpSettings,
  supervisor: Supervisor,
  log: Log,
  isVerbose: boolean,
): Promise<void> {
  const signal = supervisor.ending
  const { dataDir } = read.config
  claimDataDir(dataDir)
  const { usageJournal = '', socketMode } = read.config
  takePlace(dataDir, dirname(usageJournal), folderModeOf(fileModeOf(socketMode)))
  await reap(join(dataDir, 'run'), log)
  await checkPorts(portsOf(read))
  const settings = await withFreePorts(read)
  const { config } = settings
  const { resourceFolder, modelServerAddress } = await chooseModels(settings, log)
  recordAddresses(config, modelServerAddress)
  const envoy = await findEnvoy({ path: config.envoyPath, env: settings.env, log, signal })
  // Only the sample's identities and resources return the three responses, and allow a sign-in by a link.
  const sample = settings.sampleResources && settings.sampleTokens
  const code = sample ? randomBytes(16).toString('base64url') : undefined
  const parts = createParts({
    env: settings.env,
    settings,
    resourceFolder,
    modelServerAddress,
    envoy,
    log,
    program: process.argv[1],
    ...(code !== undefined && { serviceEnv: { SAMPLE_SIGN_IN_CODE: code } }),
  })
  for (const part of parts) {
    signal.throwIfAborted()
    log(`Starting ${part.name}`)
    await supervisor.start(part)
  }
  const gateway = localUrl(config.gatewayAddress)
  const tries = sample ? await makeTryLines({ gateway, signal, log }) : []
  console.log(welcome({ settings, resourceFolder, modelServerAddress, tries, code, isVerbose }))
}

/** The ports that must be free, with their settings. */
function portsOf({ env, config, sampleResources }: UpSettings): Listen[] {
  const isNeeded = sampleResources && isSet(env, 'MODEL_SERVER_ADDRESS')
  return [
    ...listenersOf(config),
    ...(isNeeded ? [['MODEL_SERVER_ADDRESS', config.modelServerAddress] as const] : []),
  ].flatMap(([setting, address]) => ('path' in address ? [] : { setting, ...address }))
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
