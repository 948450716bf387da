/** How long calls with counters took, and how many counters each had. */

import type { MetricData } from '@opentelemetry/sdk-metrics'
import { callBounds, createDistribution, createDurations, sizeBounds } from './durations.ts'
import { soleHistogram } from './metric-data.ts'

export function createFlushFigures() {
  const tookMs = createDurations(callBounds)
  const sizes = createDistribution(sizeBounds)
  return {
    note(ms: number, counters: number): void {
      tookMs.observe(ms)
      sizes.observe(counters)
    },
    histograms: (): readonly MetricData[] => [
      soleHistogram('tollgate_redis_flush_seconds', tookMs),
      soleHistogram('tollgate_redis_flush_counters', sizes),
    ],
  }
}
