/** CPU time, the figure that holds on noisy machines: user and system time of this process. */

/** Microseconds of CPU that this process spent since `begin` (0: since it started). */
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

/** Of an even number the upper one of the two. */
export function median(values: readonly number[]): number {
  return [...values].sort((a, b) => a - b)[values.length >> 1] as number
}

/** Milliseconds of CPU that this thread spent in one turn of its event loop at most. */
export async function longestTurn(act: () => Promise<unknown>): Promise<number> {
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

/** A row of the table that `npm run bench:parts` prints. */
export interface Figure {
  readonly name: string
  readonly value: string
}
