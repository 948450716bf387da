/** What the process that makes the load is told, and what it answers. */

import type { Asking, Case } from '../cases.ts'

/** One run: one kind of request to one place, for so long. */
export interface Plan {
  readonly url: string
  readonly case: Case
  readonly asking: Asking
  /** Open at once; with `perSecond` undefined each sends as soon as it was answered. */
  readonly connections: number
  /** Requests begun each second, whether those before are answered or not. */
  readonly perSecond?: number | undefined
  readonly ms: number
}

/** Milliseconds at the shares of `shares`, in their order. */
export type Distribution = readonly number[]

/** Of what a distribution is told: from the median to the slowest. */
export const shares = [0.5, 0.75, 0.9, 0.95, 0.99, 0.995, 0.999, 1] as const

/** What came of a run. */
export interface LoadResult {
  /** Answers with status 200, and by other status, and why there was none. */
  readonly answered: number
  readonly refused: Readonly<Record<string, number>>
  readonly failed: Readonly<Record<string, number>>
  /** From the first request until the last answer. */
  readonly tookMs: number
  /** Of answers with 200, from when the request was due. */
  readonly latencyMs: Distribution
  /** Of that, how long requests waited to be sent. Without a rate nothing waits. */
  readonly waitedMs: Distribution
  /** CPU of the process that made the load. */
  readonly cpuMicros: number
}

export function distribute(values: number[]): Distribution {
  values.sort((a, b) => a - b)
  return shares.map((share) => values[Math.ceil(values.length * share) - 1] ?? Number.NaN)
}
