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
  return figures.sort((a, b) => a - b)[Math.floor(rounds / 2)] as number
}

/** A row of the table that `npm run bench` prints. */
export interface Figure {
  readonly name: string
  readonly value: string
}
