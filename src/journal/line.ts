/** A parsed line. Only the parser (read-line.ts) knows its text. */

import type { Lane } from '../table/rules/lane.ts'
import type { CountableLine } from '../usage/rules/line-charges.ts'

/** Every admitted request has exactly one line `ended`, and before it one `running` every 10 s. */
export interface ReadLine extends CountableLine {
  /** Whether a Check or the decision table admitted the request. */
  readonly by: 'check' | 'table'
  /** Milliseconds from the request's first byte to the response's, or undefined if there was no response. */
  readonly firstByteMs: number | undefined
  /** Envoy's response flags and details; empty if there are none. */
  readonly flags: string
  readonly details: string
  /** What the script added to a lane of the table, or undefined if nothing. */
  readonly lane: Lane | undefined
  /** Whether the request was sent to its model. */
  readonly isSent: boolean
  /** Why the connection to the model failed, in Envoy's words; empty if it did not. */
  readonly transport: string
  /** The failure that a script of the gateway detected, or undefined if there was none. */
  readonly failure: string | undefined
}
