/**
 * Loaded into the measured service and its workers (`node --import`). A connection to a process's
 * socket, in the folder BENCH_PROBE, gets JSON about the time since the previous one.
 */

import { createServer } from 'node:net'
import { join } from 'node:path'
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { GCProfiler, getHeapStatistics } from 'node:v8'

/** The reported figures; figures of the event loop are in milliseconds. */
export interface Inside {
  /** Allocations on the heap of the main thread, collected since or not. */
  readonly allocatedBytes: number
  readonly collections: number
  readonly loopP99Ms: number
  readonly loopMaxMs: number
}

const resolutionMs = 20

export function watchInside(): () => Inside {
  const loop = monitorEventLoopDelay({ resolution: resolutionMs })
  loop.enable()
  const used = (): number => getHeapStatistics().used_heap_size
  let last = used()
  let profiler = new GCProfiler()
  profiler.start()

  return () => {
    const collections = profiler.stop()?.statistics ?? []
    let allocatedBytes = 0
    for (const { beforeGC, afterGC } of collections) {
      allocatedBytes += beforeGC.heapStatistics.usedHeapSize - last
      last = afterGC.heapStatistics.usedHeapSize
    }
    const now = used()
    allocatedBytes += now - last
    last = now
    profiler = new GCProfiler()
    profiler.start()
    // The measurement includes the sampling interval.
    const late = (nanoseconds: number) => Math.max(0, nanoseconds / 1e6 - resolutionMs)
    const loopP99Ms = loop.count > 0 ? late(loop.percentile(99)) : 0
    const loopMaxMs = loop.count > 0 ? late(loop.max) : 0
    loop.reset()
    return { allocatedBytes, collections: collections.length, loopP99Ms, loopMaxMs }
  }
}

const folder = process.env.BENCH_PROBE
if (folder !== undefined) {
  const read = watchInside()
  createServer((socket) => {
    socket.on('error', () => {})
    socket.end(JSON.stringify(read()))
  })
    .listen(join(folder, `${process.pid}.sock`))
    .unref()
}
