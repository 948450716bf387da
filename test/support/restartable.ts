import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import type { Test } from 'tap'
import { poll } from './poll.ts'

/** A process that is started anew whenever it is asked for. */
export interface Restartable {
  /** 0 before its first start. */
  readonly pid: number
  /** All it has written so far, of each start. */
  log(): string
  /** Settles when it is up. */
  start(command?: Command): Promise<void>
  signal(name: NodeJS.Signals): void
  /** Ends it by this signal; settles with its exit code, or the signal's name. */
  end(name: NodeJS.Signals): Promise<number | string>
}

export interface Command {
  /** The program and its arguments. */
  readonly line: readonly string[]
  readonly cwd: string
}

export interface RestartableSettings {
  readonly name: string
  /** Unless a start names another. */
  readonly command: Command
  readonly env: NodeJS.ProcessEnv
  readonly isUp: () => Promise<boolean>
}

const withinMs = 60_000

/** One that has not been started yet; it is killed, stopped or not, when `t` ends. */
export function createRestartable(t: Test, settings: RestartableSettings): Restartable {
  const { name, env, isUp } = settings
  let child: ChildProcess | undefined
  let ended: Promise<number | string> = Promise.resolve(0)
  let log = ''
  t.teardown(async () => {
    child?.kill('SIGKILL')
    await ended
  })
  return {
    get pid() {
      return child?.pid ?? 0
    },
    log: () => log,
    async start({ line: [file = '', ...args], cwd } = settings.command) {
      const running = spawn(file, args, { cwd, env, stdio: ['ignore', 'pipe', 'pipe'] })
      child = running
      for (const stream of [running.stdout, running.stderr]) {
        stream.setEncoding('utf8').on('data', (text: string) => {
          log += text
        })
      }
      ended = once(running, 'exit').then(([code, signal]) => code ?? signal)
      const isReady = () => {
        if (running.exitCode !== null) throw new Error(`${name} ended:\n${log}`)
        return isUp()
      }
      await poll(isReady, `${name} is up`, withinMs)
    },
    signal: (name) => void child?.kill(name),
    end(name) {
      child?.kill(name)
      return ended
    },
  }
}
