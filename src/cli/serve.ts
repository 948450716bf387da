import { type Service, serve } from '../main.ts'
import { endAtRest, endNow } from '../runtime/end-process.ts'
import { onStop } from '../runtime/stop-signals.ts'
import type { CommandIo } from './terminal.ts'

/** How long the process may continue after a stop was requested (milliseconds). */
const endWithinMs = 15_000

/**
 * `tollgate serve`: runs the service until SIGTERM, SIGINT or SIGHUP, or until its parent process has ended. Then the
 * process ends with status 0, or 1 if a part had to be abandoned. Rejects if it cannot start.
 */
export async function runServe(_call: unknown, { env }: CommandIo): Promise<number> {
  const asked = onStop(() => {})
  const starting = new AbortController()
  void asked.then(() => {
    starting.abort()
    // A start that hangs has nothing to lose yet.
    setTimeout(() => endNow(1), endWithinMs).unref()
  })
  let service: Service | undefined
  // During the start the signal must not end the process, as it does by default.
  process.on('SIGUSR2', () => service?.toggleDebug())
  try {
    service = await serve(env, starting.signal)
  } catch (error) {
    if (starting.signal.aborted) return await endAtRest(0)
    throw error
  }
  await asked
  return await endAtRest((await service.stop()) ? 0 : 1)
}
