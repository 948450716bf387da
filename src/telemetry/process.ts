/** What this process costs: readings that every service has, by the names dashboards know. */

import { monitorEventLoopDelay } from 'node:perf_hooks'
import type { Reading } from './readings.ts'

/** Milliseconds between two looks at the event loop's clock. */
const resolutionMs = 20

export interface ProcessReadings {
  readonly readings: readonly Reading[]
  stop(): void
}

/** Begins to watch the event loop; `version` is the program's own. */
export function watchProcess(version: string): ProcessReadings {
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
    readings: [
      {
        kind: 'counter',
        name: 'process_cpu_seconds',
        help: 'User and system CPU time spent.',
        unit: 'seconds',
        read() {
          const { user, system } = process.cpuUsage()
          return (user + system) / 1e6
        },
      },
      {
        kind: 'gauge',
        name: 'process_resident_memory_bytes',
        help: 'Resident memory.',
        unit: 'bytes',
        read: () => process.memoryUsage.rss(),
      },
      {
        kind: 'gauge',
        name: 'process_start_time_seconds',
        help: 'When the process started, since the epoch.',
        unit: 'seconds',
        read: () => startedAt,
      },
      {
        kind: 'gauge',
        name: 'nodejs_eventloop_lag_p99_seconds',
        help: 'By how much the event loop was late, 99th percentile since the last scrape.',
        unit: 'seconds',
        read: () => readLag()?.p99,
      },
      {
        kind: 'gauge',
        // One block of seconds is a single look of hundreds, and no percentile shows it.
        name: 'nodejs_eventloop_lag_max_seconds',
        help: 'By how much the event loop was late at most since the last scrape.',
        unit: 'seconds',
        // Of the same time: a scrape reads in this order.
        read: () => last?.max,
      },
      {
        kind: 'gauge',
        name: 'tollgate_build_info',
        help: 'Always 1; the version is in the label.',
        label: 'version',
        read: () => new Map([[version, 1]]),
      },
    ],
    stop: () => lag.disable(),
  }
}
