import { endAtRest, endNow } from '../runtime/end-process.ts'
import { createLog } from '../runtime/log.ts'
import { onStop } from '../runtime/stop-signals.ts'
import { loadConfig } from '../settings/config.ts'
import { serveController } from '../wiring/controller-process.ts'
import type { CommandIo } from './terminal.ts'

/** `tollgate controller`: runs until it is stopped. Rejects if it cannot start. */
export async function runController(_call: unknown, { env }: CommandIo): Promise<number> {
  const config = loadConfig({ ...env, RESOURCES: env.RESOURCES || 'kubernetes' })
  if (config.resourceFolder !== undefined) {
    throw new Error('RESOURCES: must be kubernetes; a folder has no statuses')
  }
  const log = createLog(config.logLevel)
  const asked = onStop(() => {})
  // Until the cluster has been read, it holds no Lease to release.
  const started = serveController(config, log)
  await Promise.race([started, asked])
  await asked
  setTimeout(() => endNow(1), 5_000).unref()
  return await endAtRest((await (await started).stop()) ? 0 : 1)
}
