import { spawn } from 'node:child_process'
import { closeSync, mkdirSync, openSync } from 'node:fs'
import { dirname } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as delay } from 'node:timers/promises'
import { endWithUs } from '../store/postgres/end-with-us.ts'
import { record } from './run-records.ts'

/** A running process of ours. */
export type Child = ReturnType<typeof startChild>

/** What to run and where its output goes. */
export interface ChildOptions {
  readonly name: string
  readonly command: string
  readonly args: readonly string[]
  readonly env: NodeJS.ProcessEnv
  /** A file that is written anew, or a receiver of lines. */
  readonly output: string | ((line: string) => void)
  /** Where to note that it runs (run-records.ts). */
  readonly records: string
  /**
   * For a Node program: it sees the channel close when we are killed, and ends. Others get SIGTERM
   * then, and SIGKILL when they do not heed it.
   */
  readonly ipc: boolean
}

const graceMs = 15_000
const killedStopping = ['SIGTERM', '0', 'SIGKILL'] as const

/**
 * Starts a process in a group of its own, out of reach of a Ctrl-C at the terminal, which is for us
 * to pass on in the right order. A program that cannot be run shows as one that has `exited`.
 */
export function startChild({ name, command, args, env, output, records, ipc }: ChildOptions) {
  const file = typeof output === 'string' ? open(output) : undefined
  const sink = file ?? 'pipe'
  const child = spawn(command, args, {
    detached: true,
    env,
    stdio: ['ignore', sink, sink, ...(ipc ? (['ipc'] as const) : [])],
  })
  if (file !== undefined) closeSync(file)
  const forget = child.pid === undefined ? () => {} : record(records, name, child.pid)
  if (typeof output === 'function') {
    for (const stream of [child.stdout, child.stderr]) {
      if (stream !== null) createInterface({ input: stream }).on('line', output)
    }
  }
  const unwatch = ipc || child.pid === undefined ? () => {} : endWithUs(child.pid, killedStopping)
  const exited = new Promise<string>((settle) => {
    child.on('error', (error) => settle(error.message))
    child.on('exit', (code, signal) => {
      unwatch()
      forget()
      settle(code === null ? `${signal}` : `exit code ${code}`)
    })
  })
  const kill = () => {
    if (child.pid === undefined || child.exitCode !== null || child.signalCode !== null) return
    try {
      process.kill(-child.pid, 'SIGKILL')
    } catch {
      child.kill('SIGKILL')
    }
  }
  return {
    pid: child.pid ?? 0,
    /** Settles when it has ended, in whichever way, and says how: `exit code 1`, `SIGKILL`. */
    exited,
    /** Ends it at once. */
    kill,
    /** Asks it to end, and makes it after a while; settles when it has ended. */
    async stop(): Promise<void> {
      child.kill('SIGTERM')
      // An open channel would keep a Node program running that has nothing else left to do.
      if (child.connected) child.disconnect()
      const patience = new AbortController()
      const ended = exited.then(() => patience.abort())
      await delay(graceMs, undefined, { signal: patience.signal }).then(kill, () => {})
      await ended
    },
  }
}

function open(file: string): number {
  mkdirSync(dirname(file), { recursive: true })
  return openSync(file, 'w')
}
