import { type Service, serve } from '../main.ts'
import { runUntilStopped } from './run-until-stopped.ts'
import type { CommandIo } from './terminal.ts'

/** `tollgate serve`: runs the service until it is stopped. Rejects if it cannot start. */
export function runServe(_call: unknown, { env }: CommandIo): Promise<number> {
  let service: Service | undefined
  // During the start the signal must not end the process, as it does by default.
  process.on('SIGUSR2', () => service?.toggleDebug())
  return runUntilStopped(async (signal) => {
    service = await serve(env, signal)
    return service
  }, 15_000)
}
