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

/** The most memory of a process that has been in RAM, in MiB. */
export function highestResidentMiB(pid: number): number {
  const status = readFileSync(`/proc/${pid}/status`, 'latin1')
  return Number(/^VmHWM:\s*(\d+) kB/m.exec(status)?.[1]) / 2 ** 10
}

/**
 * How many times the CPU of `plain` each of the others takes, by name. They run in turn, one at a time; the median
 * of the rounds counts, after one that does not.
 */
export async function timesPlain(
  pid: number,
  plain: () => Promise<unknown>,
  others: Readonly<Record<string, () => Promise<unknown>>>,
  rounds = 5,
): Promise<ReadonlyMap<string, number>> {
  const runs = Object.entries({ ...others, plain })
  const costs = new Map(runs.map(([name]) => [name, [] as number[]]))
  for (let round = 0; round <= rounds; round += 1) {
    for (const [name, run] of runs) {
      const before = cpuMs(pid)
      await run()
      if (round > 0) costs.get(name)?.push(cpuMs(pid) - before)
    }
  }
  const median = (name: string): number =>
    (costs.get(name) ?? []).sort((a, b) => a - b)[rounds >> 1] ?? Number.NaN
  const base = median('plain')
  return new Map(Object.keys(others).map((name) => [name, median(name) / base]))
}
