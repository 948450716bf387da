/** The input and output of the load generator's process. */

import type { Asking, Case } from '../cases.ts'

/** One run: one kind of request to one server, for this long. */
export interface Plan {
  readonly url: string
  readonly case: Case
  readonly asking: Asking
  /** Open at once; without `perSecond` each sends again after a response. */
  readonly connections: number
  /** Requests started per second, whether or not earlier ones have a response. */
  readonly perSecond?: number | undefined
  readonly ms: number
}

/** Milliseconds at the quantiles of `shares`, in their order. */
export type Distribution = readonly number[]

/** The quantiles of a distribution: from the median to the maximum. */
export const shares = [0.5, 0.75, 0.9, 0.95, 0.99, 0.995, 0.999, 1] as const

/** The result of a run. */
export interface LoadResult {
  /** Responses with status 200, by other status, and failures by cause. */
  readonly answered: number
  readonly refused: Readonly<Record<string, number>>
  readonly failed: Readonly<Record<string, number>>
  /** From the first request to the last response. */
  readonly tookMs: number
  /** Of responses with 200, measured from when the request was due. */
  readonly latencyMs: Distribution
  /** The part of it before the request was sent. Without a rate nothing waits. */
  readonly waitedMs: Distribution
  /** CPU of the load generator's process. */
  readonly cpuMicros: number
}

export function distribute(values: number[]): Distribution {
  values.sort((a, b) => a - b)
  return shares.map((share) => values[Math.ceil(values.length * share) - 1] ?? Number.NaN)
}
