import { awaitStopSignal } from '../runtime/stop-signals.ts'
import { endProcessNow, endProcessWhenIdle } from './end-process.ts'

interface Running {
  /** Whether every part ended in time. */
  stop(): Promise<boolean>
}

/**
 * Runs until SIGTERM, SIGINT or SIGHUP, or until the parent process has ended, which also aborts a start. Then the process
 * ends with status 0, or 1 if a part had to be abandoned or takes longer than this. Rejects if it cannot start.
 */
export async function runUntilStopped(
  start: (signal: AbortSignal) => Promise<Running>,
  endWithinMs: number,
): Promise<number> {
  const starting = new AbortController()
  const asked = awaitStopSignal(() => {}).then(() => {
    starting.abort()
    setTimeout(() => endProcessNow(1), endWithinMs).unref()
  })
  let running: Running
  try {
    running = await start(starting.signal)
  } catch (error) {
    if (starting.signal.aborted) return await endProcessWhenIdle(0)
    throw error
  }
  await asked
  return await endProcessWhenIdle((await running.stop()) ? 0 : 1)
}
