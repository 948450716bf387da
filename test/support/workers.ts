import { readdirSync, readFileSync } from 'node:fs'
import { poll } from './poll.ts'

/** The processes that this one has started as workers, by their numbers in order of their start. */
export function workersOf(pid: number): readonly number[] {
  const threads = readdirSync(`/proc/${pid}/task`)
  const children = threads.flatMap((thread) =>
    readFileSync(`/proc/${pid}/task/${thread}/children`, 'utf8').trim().split(/\s+/),
  )
  return children
    .filter((child) => child !== '' && commandOf(child).includes('workers/main.ts'))
    .map(Number)
    .sort((a, b) => a - b)
}

/** Settles once none of these processes is there. */
export async function gone(pids: readonly number[]): Promise<void> {
  await poll(() => pids.every((pid) => commandOf(String(pid)) === ''), 'they have ended')
}

function commandOf(pid: string): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8')
  } catch {
    return ''
  }
}
