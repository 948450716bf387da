/** A histogram with fixed buckets, cheap enough for every request. */

import type { Histogram } from '@opentelemetry/sdk-metrics'

/** Upper bounds in seconds, for work in memory up to waits for a database. */
const shortBounds: readonly number[] = [
  0.00001, 0.000025, 0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1,
  0.25, 0.5, 1, 2.5,
]

/** Upper bounds in seconds, for network round trips. */
export const callBounds: readonly number[] = [
  0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10,
]

/** Upper bounds in seconds, for responses of models. */
export const responseBounds: readonly number[] = [
  0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600,
]

/** Upper bounds for counts. */
export const sizeBounds: readonly number[] = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000]

/** Starts without counts. `bounds` in the unit of the observations, ascending. */
export function createDistribution(bounds: readonly number[]) {
  const counts = new Array<number>(bounds.length + 1).fill(0)
  let count = 0
  let sum = 0
  return {
    observe(value: number): void {
      let bucket = 0
      while (bucket < bounds.length && value > (bounds[bucket] as number)) bucket += 1
      counts[bucket] = (counts[bucket] as number) + 1
      count += 1
      sum += value
    },
    read: () => ({ buckets: { boundaries: [...bounds], counts: [...counts] }, sum, count }),
  }
}

/** A distribution of durations, with bounds in seconds; starts without counts. */
export function createDurations(bounds = shortBounds) {
  const inMs = createDistribution(bounds.map((bound) => bound * 1_000))
  return {
    observe: inMs.observe,
    /** In seconds. */
    read(): Histogram {
      const { buckets, sum = 0, count } = inMs.read()
      return { buckets: { ...buckets, boundaries: [...bounds] }, sum: sum / 1_000, count }
    },
  }
}
