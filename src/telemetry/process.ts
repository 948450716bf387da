/** Readings about this process, under the names that common dashboards use. */

import { monitorEventLoopDelay } from 'node:perf_hooks'
import type { Sources } from './readings.ts'

/** Milliseconds between two samples of the event loop's delay. */
const resolutionMs = 20

/** Begins to measure the event loop; `version` is the program's own. */
export function watchProcess(version: string): { readonly sources: Sources; stop(): void } {
  const startedAt = Date.now() / 1_000 - process.uptime()
  const lag = monitorEventLoopDelay({ resolution: resolutionMs })
  lag.enable()

  let last: { readonly p99: number; readonly max: number } | undefined

  /** Covers the time since the last reading, so that one slow minute is not reported forever. */
  function readLag(): typeof last {
    // The measurement includes the sampling interval.
    const toSeconds = (nanoseconds: number) => Math.max(0, nanoseconds / 1e6 - resolutionMs) / 1_000
    last =
      lag.count > 0 ? { p99: toSeconds(lag.percentile(99)), max: toSeconds(lag.max) } : undefined
    lag.reset()
    return last
  }

  return {
    sources: {
      process_cpu_seconds() {
        const { user, system } = process.cpuUsage()
        return (user + system) / 1e6
      },
      process_resident_memory_bytes: () => process.memoryUsage.rss(),
      process_start_time_seconds: () => startedAt,
      nodejs_eventloop_lag_p99_seconds: () => readLag()?.p99,
      // A block of seconds is a single sample among hundreds, so no percentile shows it. Covers the
      // same time, because a scrape reads in this order.
      nodejs_eventloop_lag_max_seconds: () => last?.max,
      tollgate_build_info: () => new Map([[version, 1]]),
    },
    stop: () => lag.disable(),
  }
}
