/** The inputs of every part of a process. */

import type { Logger } from 'pino'
import type { AuditTrail } from '../audit/trail.ts'
import type { Stop } from '../runtime/shutdown.ts'
import type { Config } from '../settings/config.ts'

export interface Context {
  readonly config: Config
  /** The environment that it was read from, for child processes with the same settings. */
  readonly env: NodeJS.ProcessEnv
  readonly log: Logger
  readonly audit: AuditTrail
  /** Milliseconds since the epoch. */
  readonly clock: () => number
  readonly onFault: (error: unknown) => void
  /** Each started part adds a function that stops it; they run last to first. */
  readonly stops: Stop[]
  /** Aborted when the start must end early. */
  readonly signal: AbortSignal
}

/** The result of `work`; rejects at once when the signal aborts. */
export async function orAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  signal.throwIfAborted()
  const { promise, reject } = Promise.withResolvers<never>()
  const abort = (): void => reject(signal.reason)
  signal.addEventListener('abort', abort, { once: true })
  try {
    return await Promise.race([work, promise])
  } finally {
    signal.removeEventListener('abort', abort)
  }
}
