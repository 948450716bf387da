/** The limits of one connection. */

import type { BudgetLimits } from './budget.ts'
import type { HeadLimits } from './request-head.ts'

export interface ConnectionLimits {
  /** Concurrent streams (SETTINGS_MAX_CONCURRENT_STREAMS). */
  readonly streams: number
  /** Bytes that a stream, and all of them together, may send before we extend the window. */
  readonly streamWindow: number
  readonly connectionWindow: number
  readonly head: HeadLimits
  /** Bytes of an encoded header block, and the number of its frames. */
  readonly blockBytes: number
  readonly blockFrames: number
  /** Streams that are reset, by the client or because of its errors. */
  readonly resets: BudgetLimits
  /** Frames without content: PING, SETTINGS, PRIORITY, WINDOW_UPDATE, empty DATA, unknown ones. */
  readonly idleFrames: BudgetLimits
  /** The number of these that each request adds to the budget. */
  readonly idleFramesPerRequest: number
  /** Bytes of responses that wait for the client's windows. */
  readonly heldBytes: number
  /** Bytes that wait for its socket before reading stops. */
  readonly unwrittenBytes: number
  /** How long such a socket may accept nothing, and a new one send nothing; milliseconds. */
  readonly stallMs: number
  /**
   * After this time at the earliest, and twice this time at the latest, an unfinished request is overdue; milliseconds.
   */
  readonly requestMs: number
  /** How long a client may take to acknowledge GOAWAY, and then to close; milliseconds. */
  readonly partingMs: number
}

const mebibyte = 2 ** 20

export const defaultLimits: ConnectionLimits = {
  // Envoy multiplexes all requests of a worker on one connection, up to its circuit breaker.
  streams: 65_536,
  // An Envoy with the configuration of an earlier version sends its access log (wiring/earlier-envoy.ts), in messages
  // much longer than HTTP/2's default window of 64 KiB.
  streamWindow: mebibyte,
  connectionWindow: 8 * mebibyte,
  head: { bytes: 32_768, fields: 128 },
  blockBytes: 65_536,
  blockFrames: 128,
  // Envoy resets a Check when its client disconnects, and all pending ones after 2 s. Clients that disconnect must not
  // end the connection that carries the Checks of all clients, so the limit is the number that one process could serve.
  resets: { atOnce: 50_000, perSecond: 10_000 },
  idleFrames: { atOnce: 20_000, perSecond: 5_000 },
  idleFramesPerRequest: 4,
  heldBytes: 64 * mebibyte,
  unwrittenBytes: mebibyte,
  stallMs: 30_000,
  // Envoy sends the message of a Check together with the headers.
  requestMs: 10_000,
  partingMs: 1_000,
}
