/**
 * A line as whoever follows the files needs it: of a request that has ended, or of one that runs. What
 * reads the text of a line makes this of it, and nothing else depends on the text.
 */

import type { Lane } from '../table/rules/lane.ts'
import type { CountableLine } from '../usage/rules/line-charges.ts'

/** Every admitted request has exactly one line `ended`; while it runs it has one `running` each 10 s. */
export interface Line extends CountableLine {
  /** Who decided it. */
  readonly by: 'check' | 'table'
  /** Milliseconds from there to the first byte of its response; undefined: there was none. */
  readonly firstByteMs: number | undefined
  /** Envoy's response flags and details; empty if there are none. */
  readonly flags: string
  readonly details: string
}

/** A line, and what is known of a request that went wrong. */
export interface ReadLine extends Line {
  /** Undefined: it added nothing. */
  readonly lane: Lane | undefined
  /** Whether the request was sent to its model. */
  readonly isSent: boolean
  /** Why the connection to the model failed, in Envoy's words; empty if it did not. */
  readonly transport: string
  /** The failure that a script of the gateway has seen; undefined: none. */
  readonly failure: string | undefined
}
