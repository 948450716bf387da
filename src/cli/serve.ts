import { serve } from '../main.ts'
import { onStop } from './stop-signals.ts'

/**
 * `tollgate serve`: the service alone, until SIGTERM, SIGINT or SIGHUP, or until the process that
 * started it is gone; the process then ends with status 0. Rejects with what kept it from serving.
 */
export async function serveCommand(env: NodeJS.ProcessEnv): Promise<never> {
  const asked = onStop(() => {})
  const service = await serve(env)
  await asked
  await service.stop()
  process.exit(0)
}
