import { spawn } from 'node:child_process'
import { closeSync } from 'node:fs'
import { createInterface } from 'node:readline'
import { openLogFile } from './log-file.ts'
import { endWithUs, howItEnds } from './postgres/end-with-us.ts'
import { record } from './run-records.ts'

/** A running child process. */
export type Child = ReturnType<typeof startChild>

/** The command and its output. */
interface ChildOptions {
  readonly name: string
  readonly command: string
  readonly args: readonly string[]
  readonly env: NodeJS.ProcessEnv
  /** A file that is overwritten, or a receiver of lines. */
  readonly output: string | ((line: string) => void)
  /** Where its process is recorded (run-records.ts). */
  readonly records: string
  /**
   * Whether it is a Node program, which ends when the channel closes because this process was killed. Other programs
   * then get SIGTERM, and later SIGKILL.
   */
  readonly ipc: boolean
}

const graceMs = 15_000
const killedStopping = ['SIGTERM', '0', 'SIGKILL'] as const

/**
 * Starts a process in its own process group, so that Ctrl-C at the terminal does not reach it and we stop the processes
 * in the right order. A program that cannot be run counts as `exited`.
 */
export function startChild({ name, command, args, env, output, records, ipc }: ChildOptions) {
  const file = typeof output === 'string' ? openLogFile(output) : undefined
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
  const exited = howItEnds(child).finally(() => {
    unwatch()
    forget()
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
    /** Resolves with how it ended: `exit code 1`, `SIGKILL`. */
    exited,
    /** Kills it at once. */
    kill,
    /** Asks it to end, and kills it after a while; resolves when it has ended. */
    async stop(withinMs = graceMs): Promise<void> {
      child.kill('SIGTERM')
      // An open channel would keep an idle Node program running.
      if (child.connected) child.disconnect()
      const late = setTimeout(kill, withinMs)
      await exited.finally(() => clearTimeout(late))
    },
  }
}
