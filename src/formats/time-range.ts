/** A span of time. */

/** Milliseconds since the epoch; `to` is excluded. */
export interface TimeRange {
  readonly from: number
  readonly to: number
}
