/** A span of time. */

/** Milliseconds since the epoch; `to` is excluded. */
export interface Span {
  readonly from: number
  readonly to: number
}
