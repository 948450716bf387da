import { readdirSync, readFileSync } from 'node:fs'

/** The CPU time that the threads of a process have used, in milliseconds. */
export function cpuMs(pid: number): number {
  const tasks = `/proc/${pid}/task`
  const times = readdirSync(tasks).map((task) =>
    Number(readFileSync(`${tasks}/${task}/schedstat`, 'latin1').split(' ')[0]),
  )
  return times.reduce((sum, time) => sum + time, 0) / 1e6
}

/** The memory of a process that is in RAM, in MiB. */
export function residentMiB(pid: number): number {
  const [, pages] = readFileSync(`/proc/${pid}/statm`, 'latin1').split(' ')
  return (Number(pages) * 4_096) / 2 ** 20
}

/** The peak memory of a process in RAM, in MiB. */
export function highestResidentMiB(pid: number): number {
  const status = readFileSync(`/proc/${pid}/status`, 'latin1')
  return Number(/^VmHWM:\s*(\d+) kB/m.exec(status)?.[1]) / 2 ** 10
}

/**
 * The CPU time of each of the others, as a multiple of `plain`'s, by name. They alternate, one at a time, and the
 * lowest figure of each counts, after a round that does not: other work on the machine can only add to one. A result
 * above `most` is measured again, alternating with `plain`, before it counts.
 */
export async function timesPlain(
  pid: number,
  plain: () => Promise<unknown>,
  others: Readonly<Record<string, () => Promise<unknown>>>,
  most: number,
): Promise<ReadonlyMap<string, number>> {
  const lowest = new Map<() => Promise<unknown>, number>()
  const costOf = (run: () => Promise<unknown>) => lowest.get(run) ?? Number.POSITIVE_INFINITY
  const measure = async (runs: readonly (() => Promise<unknown>)[], rounds: number) => {
    for (let round = 0; round < rounds; round += 1) {
      for (const run of runs) {
        const before = cpuMs(pid)
        await run()
        lowest.set(run, Math.min(costOf(run), cpuMs(pid) - before))
      }
    }
  }
  const runs = Object.values(others)
  await measure([...runs, plain], 1)
  lowest.clear()
  await measure([...runs, plain], 3)
  const above = runs.filter((run) => costOf(run) > most * costOf(plain))
  await measure(
    above.flatMap((run) => [run, plain]),
    5,
  )
  return new Map(Object.entries(others).map(([name, run]) => [name, costOf(run) / costOf(plain)]))
}
