/** What every part of a process is built with. */

import type { Logger } from 'pino'
import type { AuditTrail } from '../audit/trail.ts'
import type { Config } from '../config.ts'
import type { Stop } from './shutdown.ts'

export interface Context {
  readonly config: Config
  readonly log: Logger
  readonly audit: AuditTrail
  /** Milliseconds since the epoch. */
  readonly clock: () => number
  readonly onFault: (error: unknown) => void
  /** Where each part that was started leaves its own end; run last to first. */
  readonly stops: Stop[]
}
