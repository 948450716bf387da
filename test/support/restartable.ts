import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import type { Test } from 'tap'
import { poll } from './poll.ts'

/** A process that can be started again and again. */
export interface Restartable {
  /** 0 before its first start. */
  readonly pid: number
  /** Everything that it has written so far, in all its runs. */
  log(): string
  /** Resolves once it is up. */
  start(command?: Command): Promise<void>
  signal(name: NodeJS.Signals): void
  /** Ends it with this signal; resolves to its exit code, or to the signal's name. */
  end(name: NodeJS.Signals): Promise<number | string>
}

export interface Command {
  /** The program and its arguments. */
  readonly line: readonly string[]
  readonly cwd: string
}

export interface RestartableSettings {
  readonly name: string
  /** The default command of a start. */
  readonly command: Command
  readonly env: NodeJS.ProcessEnv
  readonly isUp: () => Promise<boolean>
}

const withinMs = 60_000

/** Creates one that is not started yet; it is killed, even if stopped, when `t` ends. */
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
