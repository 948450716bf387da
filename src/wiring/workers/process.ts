/** A worker process and the channel to it. */

import { fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { createLink, type Handlers, type Link } from './link.ts'

export interface WorkerProcess {
  readonly pid: number
  readonly link: Link
  /** Resolves with how it ended: `exit code 1`, `SIGKILL`. */
  readonly exited: Promise<string>
  /** Kills it at once. */
  kill(): void
}

const program = fileURLToPath(new URL('./main.ts', import.meta.url))
/**
 * V8's space for new objects, in MB. A report waits up to 50 ms for its batch. In the initial 1 MB (../../cli/heap.ts keeps
 * it) most reports would outlive two collections, each would be copied twice, and the old generation would grow by it.
 */
const youngGeneration = '--min-semi-space-size=4'

/** Starts a worker that waits for its orders. It ends by itself when this process does. */
export function spawnWorker(
  env: NodeJS.ProcessEnv,
  handlers: Handlers,
  onFault: (error: unknown) => void,
): WorkerProcess {
  // Two processes cannot be debugged on one port.
  const inherited = process.execArgv.filter((flag) => !flag.startsWith('--inspect'))
  const execArgv = [...inherited, youngGeneration]
  const child = fork(program, [], { env, execArgv })
  const send = (message: object): void => {
    if (child.connected) child.send(message, () => {})
  }
  const link = createLink(send, handlers, onFault)
  child.on('message', link.take)
  child.on('error', onFault)
  const exited = once(child, 'exit').then(([code, signal]) => {
    link.close()
    return code === null ? `${signal}` : `exit code ${code}`
  })
  return { pid: child.pid ?? 0, link, exited, kill: () => void child.kill('SIGKILL') }
}
