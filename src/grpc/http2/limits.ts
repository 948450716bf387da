/** What one connection may ask of us. */

import type { BudgetLimits } from './budget.ts'
import type { HeadLimits } from './request-head.ts'

export interface ConnectionLimits {
  /** Streams open at once (SETTINGS_MAX_CONCURRENT_STREAMS). */
  readonly streams: number
  /** Bytes that a stream, and all of them together, may send before they hear from us. */
  readonly streamWindow: number
  readonly connectionWindow: number
  readonly head: HeadLimits
  /** Bytes of a header block, as it is coded, and frames that it may come in. */
  readonly blockBytes: number
  readonly blockFrames: number
  /** Streams that are reset, by the client or for an error of its. */
  readonly resets: BudgetLimits
  /** Frames that bring nothing: PING, SETTINGS, PRIORITY, WINDOW_UPDATE, empty DATA, unknown ones. */
  readonly idleFrames: BudgetLimits
  /** How many more of those each request allows. */
  readonly idleFramesPerRequest: number
  /** Bytes of answers that wait for the client's windows. */
  readonly heldBytes: number
  /** Bytes that wait for its socket before nothing more is read. */
  readonly unwrittenBytes: number
  /** Milliseconds for which such a socket may take nothing, and a new one say nothing. */
  readonly stallMs: number
  /** Milliseconds in which a client acknowledges that it is to go, and then goes. */
  readonly partingMs: number
}

const mebibyte = 2 ** 20

export const usualLimits: ConnectionLimits = {
  // Envoy multiplexes all of a worker's requests on one connection, up to its circuit breaker.
  streams: 65_536,
  // The log stream's messages are far longer than HTTP/2's own 64 KiB of window would like.
  streamWindow: mebibyte,
  connectionWindow: 8 * mebibyte,
  head: { bytes: 32_768, fields: 128 },
  blockBytes: 65_536,
  blockFrames: 128,
  // Envoy resets a Check when its client hangs up, which the client decides, and all that wait
  // after 2 s. Hung-up clients must not end the connection that carries everybody's Checks: what
  // is allowed is what one process could answer.
  resets: { atOnce: 50_000, perSecond: 10_000 },
  idleFrames: { atOnce: 20_000, perSecond: 5_000 },
  idleFramesPerRequest: 4,
  heldBytes: 64 * mebibyte,
  unwrittenBytes: mebibyte,
  stallMs: 30_000,
  partingMs: 1_000,
}
