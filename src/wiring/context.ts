/** What every part of a process is built with. */

import type { Logger } from 'pino'
import type { AuditTrail } from '../audit/trail.ts'
import type { Config } from '../config.ts'
import type { Stop } from './shutdown.ts'
import type { Link } from './workers/link.ts'

export interface Context {
  readonly config: Config
  /** What it was read from, for processes that are started with the same. */
  readonly env: NodeJS.ProcessEnv
  readonly log: Logger
  readonly audit: AuditTrail
  /** Milliseconds since the epoch. */
  readonly clock: () => number
  readonly onFault: (error: unknown) => void
  /** Where each part that was started leaves its own end; run last to first. */
  readonly stops: Stop[]
  /** Aborted when the start is to end before it is done. */
  readonly signal: AbortSignal
  /** Of a worker: the process that has started it. */
  readonly parent?: Link
}

/** What `work` comes to; rejects at once when the signal aborts. */
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
