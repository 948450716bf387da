import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { Redis } from 'ioredis'
import type { Test } from 'tap'
import { freePorts } from './free-ports.ts'
import { poll } from './poll.ts'
import { makeTemporaryFolder } from './temporary-folder.ts'
import { valkeyPath } from './valkey-binary.ts'

/** A real Valkey (or Redis) for one test. */
export interface RunningValkey {
  readonly port: number
  /** `redis://127.0.0.1:port` */
  readonly url: string
  /** The folder of its files. */
  readonly folder: string
  readonly pid: number
  /** A connection for the test itself; closed when the test ends. */
  readonly client: Redis
  /** Stops it regularly, or kills it. */
  stop(): Promise<void>
  kill(): Promise<void>
  /** Starts it on the same port after `stop` or `kill`, with the data that it has saved to disk. */
  start(): Promise<void>
  /** Makes it hang (SIGSTOP) and continue. */
  freeze(): void
  thaw(): void
}

/** The test at whose end it and its data are removed. */
interface Owner {
  teardown(end: () => unknown): void
}

/** Why tests that need it are skipped; false if they are not. */
export const skipValkey = valkeyPath() === undefined && 'no Valkey'

/** Starts one on a free port of 127.0.0.1; by default it saves nothing to disk. */
export async function startValkey(
  t: Test | Owner,
  args: readonly string[] = [],
): Promise<RunningValkey> {
  const [port = 0] = await freePorts(1)
  const folder = makeTemporaryFolder()
  const client = new Redis({ host: '127.0.0.1', port, lazyConnect: true, maxRetriesPerRequest: 0 })
  client.on('error', () => {})
  let child: ChildProcess | undefined

  async function start(): Promise<void> {
    const path = valkeyPath()
    if (path === undefined) throw new Error('no Valkey')
    const own = ['--port', String(port), '--bind', '127.0.0.1', '--dir', folder.path]
    const settings = [...own, '--save', '', '--enable-debug-command', 'yes', ...args]
    const started = spawn(path, settings, { stdio: ['ignore', 'pipe', 'inherit'] })
    child = started
    let log = ''
    started.stdout.setEncoding('utf8').on('data', (text: string) => {
      log += text
    })
    await poll(async () => {
      if (started.exitCode !== null) throw new Error(`Valkey ended:\n${log}`)
      if (client.status === 'wait' || client.status === 'end')
        await client.connect().catch(() => {})
      return client.ping().then(
        () => true,
        (error: Error) => /NOAUTH|LOADING/.test(error.message),
      )
    }, 'Valkey answers')
  }

  async function end(signal: NodeJS.Signals): Promise<void> {
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return
    const ended = once(child, 'exit')
    child.kill(signal)
    child.kill('SIGCONT')
    await ended
  }

  const kill = () => end('SIGKILL')
  const killAtExit = () => child?.kill('SIGKILL')
  process.once('exit', killAtExit)
  t.teardown(async () => {
    process.off('exit', killAtExit)
    client.disconnect()
    await kill()
    folder.remove()
  })
  await start()
  return {
    port,
    url: `redis://127.0.0.1:${port}`,
    folder: folder.path,
    get pid() {
      return child?.pid ?? 0
    },
    client,
    stop: () => end('SIGTERM'),
    kill,
    start,
    freeze: () => void child?.kill('SIGSTOP'),
    thaw: () => void child?.kill('SIGCONT'),
  }
}
