/**
 * The end of a process. `process.exit` waits for each file operation in progress, and on a disk that hangs it would do so for
 * ever, with no timer left that could end it.
 */

import { setTimeout as delay } from 'node:timers/promises'

const pollMs = 10

/** Ends the process with this status as soon as no file operation is in progress. */
export async function endProcessWhenIdle(status: number): Promise<never> {
  while (usesFiles()) await delay(pollMs)
  process.exit(status)
}

/** Ends it now: with this status, or by SIGKILL if an operation is in progress. */
export function endProcessNow(status: number): never {
  if (usesFiles()) process.kill(process.pid, 'SIGKILL')
  process.exit(status)
}

function usesFiles(): boolean {
  return process.getActiveResourcesInfo().some((name) => name.startsWith('FSReq'))
}
