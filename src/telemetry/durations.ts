/** A histogram of durations in fixed buckets, cheap enough for every request. */

import type { Histogram } from '@opentelemetry/sdk-metrics'

/** Upper bounds in seconds, from what memory answers to what waits for a database. */
const boundsS = [
  0.00001, 0.000025, 0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1,
  0.25, 0.5, 1, 2.5,
]
const boundsMs = boundsS.map((bound) => bound * 1_000)

export interface Durations {
  observe(milliseconds: number): void
  /** In seconds. */
  read(): Histogram
}

/** Counts nothing yet. */
export function createDurations(): Durations {
  const counts = new Array<number>(boundsMs.length + 1).fill(0)
  let count = 0
  let sumMs = 0
  return {
    observe(milliseconds) {
      let bucket = 0
      while (bucket < boundsMs.length && milliseconds > (boundsMs[bucket] as number)) bucket += 1
      counts[bucket] = (counts[bucket] as number) + 1
      count += 1
      sumMs += milliseconds
    },
    read: () => ({
      buckets: { boundaries: boundsS, counts: [...counts] },
      sum: sumMs / 1_000,
      count,
    }),
  }
}
