/** The context that all components of a process share. */

import type { Logger } from 'pino'
import type { Stop } from '../runtime/shutdown.ts'
import type { Config } from './config.ts'

export interface ProcessContext {
  readonly config: Config
  readonly log: Logger
  /** Milliseconds since the epoch. */
  readonly clock: () => number
  readonly onFault: (error: unknown) => void
  /** Each started part adds a function that stops it; they run last to first. */
  readonly stops: Stop[]
  /** Aborted when the start must end early. */
  readonly signal: AbortSignal
}
