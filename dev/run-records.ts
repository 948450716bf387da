/**
 * Records in <DATA_DIR>/run which processes were started, so that the next start can stop processes that a killed one
 * (kill -9, a crash) left running.
 */
import { mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { withPathInErrors } from '../src/runtime/path-in-errors.ts'
import { identify, isRunning, type ProcessIdentity, readIdentity } from './process-identity.ts'

const graceMs = 5_000
const pollMs = 25

/** Records that the process runs; call the result when it has ended. */
export function record(folder: string, name: string, pid: number): () => void {
  const file = join(folder, `${name}.json`)
  mkdirSync(folder, { recursive: true })
  withPathInErrors(file, () => writeFileSync(file, `${JSON.stringify(identify(pid) ?? {})}\n`))
  return () => rmSync(file, { force: true })
}

/** Stops every recorded process in `folder` that still runs, by force after five seconds. */
export async function reap(folder: string, log: (line: string) => void): Promise<void> {
  mkdirSync(folder, { recursive: true })
  const files = readdirSync(folder).filter((file) => file.endsWith('.json'))
  await Promise.all(
    files.map(async (file) => {
      const left = readIdentity(join(folder, file))
      if (left !== undefined && isRunning(left)) {
        log(`Stopping ${file.replace('.json', '')} (process ${left.pid}), left by an earlier run`)
        await end(left)
      }
      rmSync(join(folder, file), { force: true })
    }),
  )
}

async function end(left: ProcessIdentity): Promise<void> {
  const deadline = Date.now() + graceMs
  signal(left.pid, 'SIGTERM')
  while (isRunning(left) && Date.now() < deadline) await delay(pollMs)
  if (!isRunning(left)) return
  signal(-left.pid, 'SIGKILL')
  while (isRunning(left) && Date.now() < deadline + graceMs) await delay(pollMs)
}

/** Sends a signal to a process or a process group, if it still exists. */
export function signal(pid: number, name: NodeJS.Signals): void {
  try {
    process.kill(pid, name)
  } catch {
    // It has ended in the meantime.
  }
}
