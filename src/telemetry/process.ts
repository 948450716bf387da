/** What this process costs: readings that every service has, by the names dashboards know. */

import { monitorEventLoopDelay } from 'node:perf_hooks'
import type { Sources } from './readings.ts'

/** Milliseconds between two looks at the event loop's clock. */
const resolutionMs = 20

/** Begins to watch the event loop; `version` is the program's own. */
export function watchProcess(version: string): { readonly sources: Sources; stop(): void } {
  const startedAt = Date.now() / 1_000 - process.uptime()
  const lag = monitorEventLoopDelay({ resolution: resolutionMs })
  lag.enable()

  let last: { readonly p99: number; readonly max: number } | undefined

  /** Of the time since it was last read, so that one bad minute is not there for ever. */
  function readLag(): typeof last {
    // What is measured is the time between two looks.
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
      // One block of seconds is a single look of hundreds, and no percentile shows it. Of the same
      // time: a scrape reads in this order.
      nodejs_eventloop_lag_max_seconds: () => last?.max,
      tollgate_build_info: () => new Map([[version, 1]]),
    },
    stop: () => lag.disable(),
  }
}
