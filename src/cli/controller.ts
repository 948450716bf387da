import { withMissing } from '../../dev/own-addresses.ts'
import { createLog } from '../runtime/log.ts'
import { loadConfig } from '../settings/config.ts'
import { serveController } from '../wiring/controller-process.ts'
import { runUntilStopped } from './run-until-stopped.ts'
import type { CommandIo } from './terminal.ts'

/** `tollgate controller`: runs until it is stopped. Rejects if it cannot start. */
export async function runController(_call: unknown, { env }: CommandIo): Promise<number> {
  const config = loadConfig(withMissing(env, { RESOURCES: 'kubernetes' }))
  if (config.resourceFolder !== undefined) {
    throw new Error('RESOURCES: must be kubernetes; a folder has no statuses')
  }
  const log = createLog(config.logLevel)
  return await runUntilStopped((signal) => serveController(config, log, signal), 5_000)
}
