import { readdirSync, readFileSync } from 'node:fs'
import { freePorts } from './free-ports.ts'
import type { Journaled } from './journaled.ts'
import { poll } from './poll.ts'

/** Settings of a service of two workers that write to its log. */
export async function ofTwo(): Promise<Record<string, string>> {
  const ports = await freePorts(3)
  const [first, second, metrics] = ports.map((port) => `127.0.0.1:${port}`)
  return { WORKERS: '2', GRPC_ADDRESS: `${first},${second}`, METRICS_ADDRESS: metrics as string }
}

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

/** Waits until every worker knows of so many tokens, which a view may take 80 ms for; and not more. */
export async function counts(gateway: Journaled, user: string, expected: number): Promise<void> {
  let agreed = 0
  let used = 0
  await poll(async () => {
    used = await gateway.used(user)
    if (used > expected) throw new Error(`${used} tokens are counted of ${expected}`)
    agreed = used === expected ? agreed + 1 : 0
    return agreed > 10
  }, `${expected} tokens are counted`).catch((error) => {
    throw new Error(`${user} has used ${used} of ${expected}`, { cause: error })
  })
}

function commandOf(pid: string): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8')
  } catch {
    return ''
  }
}
