import { readdirSync, readFileSync } from 'node:fs'
import { freePorts } from './free-ports.ts'
import type { Journaled } from './journaled.ts'
import { poll } from './poll.ts'

/** Settings of a service with two workers that log. */
export async function ofTwo(): Promise<Record<string, string>> {
  const ports = await freePorts(3)
  const [first, second, metrics] = ports.map((port) => `127.0.0.1:${port}`)
  return { WORKERS: '2', GRPC_ADDRESS: `${first},${second}`, METRICS_ADDRESS: metrics as string }
}

/** The process ids of the workers of this process, in the order of their start. */
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

/** Resolves once none of these processes exists. */
export async function gone(pids: readonly number[]): Promise<void> {
  await poll(() => pids.every((pid) => commandOf(String(pid)) === ''), 'the processes have ended')
}

/** Waits until every worker counts exactly this many tokens, which may take a view 80 ms. */
export async function counts(gateway: Journaled, user: string, expected: number): Promise<void> {
  let agreed = 0
  let used = 0
  await poll(async () => {
    used = await gateway.used(user)
    if (used > expected) throw new Error(`${used} of ${expected} tokens are counted`)
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
