/** The costs of processes and their children so far, from Linux's /proc. */

import { readdirSync, readFileSync } from 'node:fs'

const ticksPerSecond = 100

/**
 * CPU since the start, user and system time, in microseconds; NaN without /proc. Does not include
 * ended children.
 */
export function cpuMicrosOf(pid: number): number {
  return withChildren(pid).reduce((sum, each) => sum + cpuOfOne(each), 0)
}

/** Resident memory in bytes, with shared pages counted for each; NaN without /proc. */
export function residentBytesOf(pid: number): number {
  return withChildren(pid).reduce((sum, each) => sum + residentOfOne(each), 0)
}

function withChildren(pid: number): readonly number[] {
  try {
    const threads = readdirSync(`/proc/${pid}/task`)
    const children = threads.flatMap((thread) =>
      readFileSync(`/proc/${pid}/task/${thread}/children`, 'utf8').split(' ').filter(Boolean),
    )
    return [pid, ...children.flatMap((child) => withChildren(Number(child)))]
  } catch {
    return [pid]
  }
}

function cpuOfOne(pid: number): number {
  try {
    return nanosecondsOfThreads(pid) / 1_000
  } catch {
    return ticksOf(pid)
  }
}

/** Linux counts nanoseconds per thread. Ended threads are not included, but servers end none. */
function nanosecondsOfThreads(pid: number): number {
  const folder = `/proc/${pid}/task`
  return readdirSync(folder).reduce((sum, thread) => {
    const [ran = ''] = readFileSync(`${folder}/${thread}/schedstat`, 'utf8').split(' ')
    return sum + Number(ran)
  }, 0)
}

function ticksOf(pid: number): number {
  try {
    // The name, in brackets, may contain spaces; utime and stime are fields 14 and 15.
    const fields = readFileSync(`/proc/${pid}/stat`, 'utf8')
      .replace(/^.*\) /s, '')
      .split(' ')
    return ((Number(fields[11]) + Number(fields[12])) * 1e6) / ticksPerSecond
  } catch {
    return Number.NaN
  }
}

function residentOfOne(pid: number): number {
  try {
    const status = readFileSync(`/proc/${pid}/status`, 'utf8')
    return Number(/^VmRSS:\s+(\d+) kB$/m.exec(status)?.[1] ?? Number.NaN) * 1_024
  } catch {
    return Number.NaN
  }
}
