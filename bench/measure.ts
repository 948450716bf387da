/** CPU time, the most stable figure on noisy machines: user and system time of this process. */

import { GCProfiler, getHeapStatistics } from 'node:v8'

/** Microseconds of CPU that this process has used since `begin` (0: since its start). */
export function cpuMicros(begin?: NodeJS.CpuUsage): number {
  const { user, system } = process.cpuUsage(begin)
  return user + system
}

/** CPU microseconds per call of `work`, the median of `rounds` rounds of `calls` after a warm-up. */
export function microsPerCall(work: (i: number) => unknown, calls = 200_000, rounds = 7): number {
  for (let i = 0; i < calls; i += 1) work(i)
  const figures = Array.from({ length: rounds }, () => {
    const begin = process.cpuUsage()
    for (let i = 0; i < calls; i += 1) work(i)
    return cpuMicros(begin) / calls
  })
  return median(figures)
}

/** Microseconds per call of each of these, in alternating slices, as `fastestQuarter`. */
export function microsInTurn(
  works: readonly ((i: number) => unknown)[],
  slices = 2_000,
  calls = 25,
): readonly number[] {
  const figures = works.map((): number[] => [])
  for (let slice = -slices; slice < slices; slice += 1) {
    for (const [k, work] of works.entries()) {
      const first = (slice + slices) * calls
      const begin = performance.now()
      for (let i = first; i < first + calls; i += 1) work(i)
      // The first half is the warm-up.
      if (slice >= 0) figures[k]?.push(((performance.now() - begin) * 1_000) / calls)
    }
  }
  return figures.map(fastestQuarter)
}

/** The bound of the fastest quarter, because other work of the machine affects most of the others. */
export function fastestQuarter(times: readonly number[]): number {
  return times.toSorted((a, b) => a - b)[times.length >> 2] as number
}

/** Bytes of heap that a call of `work` allocates, garbage included. */
export function bytesPerCall(work: (i: number) => unknown, calls = 50_000): number {
  for (let i = 0; i < calls; i += 1) work(i)
  const profiler = new GCProfiler()
  let used = getHeapStatistics().used_heap_size
  profiler.start()
  for (let i = 0; i < calls; i += 1) work(i)
  const end = getHeapStatistics().used_heap_size
  let bytes = 0
  for (const { beforeGC, afterGC } of profiler.stop()?.statistics ?? []) {
    bytes += beforeGC.heapStatistics.usedHeapSize - used
    used = afterGC.heapStatistics.usedHeapSize
  }
  return (bytes + end - used) / calls
}

/** For an even number the upper one of the middle two. */
export function median(values: readonly number[]): number {
  return [...values].sort((a, b) => a - b)[values.length >> 1] as number
}

/** The most milliseconds of CPU that this thread has used in one turn of its event loop. */
export async function maxTurn(act: () => Promise<unknown>): Promise<number> {
  let longest = 0
  let isOver = false
  const turn = (since: number): void => {
    const { user, system } = process.threadCpuUsage()
    const now = (user + system) / 1_000
    longest = Math.max(longest, now - since)
    if (!isOver) setImmediate(turn, now)
  }
  turn(Number.POSITIVE_INFINITY)
  await act()
  isOver = true
  return longest
}

/** A row of the output of `npm run bench:parts`. */
export interface Figure {
  readonly name: string
  readonly value: string
}
