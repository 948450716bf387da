import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, writeFileSync } from 'node:fs'
import { type IncomingMessage, request } from 'node:http'
import { connect } from 'node:net'
import { join } from 'node:path'
import type { Test } from 'tap'
import { PACKAGE_ROOT } from '../../src/package-root.ts'
import type { WrittenDocument } from './documents.ts'
import { envoyPath } from './envoy-binary.ts'
import { freePorts } from './free-ports.ts'
import { noRateLimits } from './no-rate-limits.ts'
import { poll } from './poll.ts'
import { temporaryFolder } from './temporary-folder.ts'

/** One container of a pod: a process that is started anew whenever it is asked for. */
export interface Container {
  /** All it has written so far. */
  log(): string
  start(): Promise<void>
  /** Settles with its exit code, or the signal's name. */
  end(signal: NodeJS.Signals): Promise<number | string>
}

type Json = Readonly<Record<string, unknown>>

/** Envoy and the service as k8s/base has them in a pod: they share folders, and speak by sockets. */
export interface Pod {
  /** Of Envoy. */
  readonly port: number
  /** `http://host:port` where a kubelet probes the service. */
  readonly internal: string
  /** Its volumes; whatever else there is they only read. */
  readonly volumes: string
  readonly service: Container
  readonly envoy: Container
  /** Of the probe, 0 where nobody answers. */
  readyz(): Promise<number>
  /** `ask('POST /v1/api-keys', …)` of the service's own API, without Envoy; the answer's JSON. */
  ask(route: string, headers: Record<string, string>, body?: string): Promise<Json>
  /** Runs `tollgate drain` beside Envoy; settles with its status and what it has printed. */
  drain(): Promise<{ readonly status: number | string; readonly printed: string }>
}

export interface PodSettings {
  readonly name: string
  readonly database: string
  readonly resources: readonly WrittenDocument[]
  /** Lines of the token file. */
  readonly tokens: readonly string[]
  readonly env?: Record<string, string>
}

/** A pod of which nothing runs yet; all of it ends with `t`. */
export async function createPod(t: Test, settings: PodSettings): Promise<Pod> {
  const folder = temporaryFolder(t)
  const volumes = join(folder, 'volumes')
  for (const each of ['envoy', 'sockets', 'journal', 'data']) {
    mkdirSync(join(volumes, each), { recursive: true })
  }
  mkdirSync(join(folder, 'resources'))
  const resources = settings.resources.map((document) => JSON.stringify(document))
  writeFileSync(join(folder, 'resources', 'all.yaml'), resources.join('\n---\n'))
  writeFileSync(join(folder, 'tokens.csv'), `${settings.tokens.join('\n')}\n`)
  const [port = 0, internalPort] = await freePorts(2)
  const internal = `http://127.0.0.1:${internalPort}`
  const socket = (name: string) => `unix:${join(volumes, 'sockets', `${name}.sock`)}`
  const both = {
    PATH: process.env.PATH,
    ...noRateLimits,
    INTERNAL_ADDRESS: `127.0.0.1:${internalPort}`,
    ENVOY_ADMIN_ADDRESS: socket('envoy-admin'),
    ...settings.env,
  }
  const readyz = () =>
    fetch(`${internal}/readyz`).then(
      ({ status }) => status,
      () => 0,
    )
  const tollgate = (...args: string[]) => ({
    command: [process.execPath, join(PACKAGE_ROOT, 'src', 'cli', 'main.ts'), ...args],
    cwd: folder,
  })
  const service = createContainer(t, {
    name: 'the service',
    ...tollgate('serve'),
    env: {
      ...both,
      REPLICA_NAME: settings.name,
      DATABASE_URL: settings.database,
      RESOURCES: `file:${join(folder, 'resources')}`,
      TOKEN_AUTH_FILE: join(folder, 'tokens.csv'),
      GATEWAY_ADDRESS: `127.0.0.1:${port}`,
      API_ADDRESS: socket('api'),
      GRPC_ADDRESS: socket('grpc'),
      METRICS_ADDRESS: '127.0.0.1:0',
      ENVOY_CONFIG_DIR: join(volumes, 'envoy'),
      ENVOY_CONFIG_WRITE: 'true',
      USAGE_JOURNAL: join(volumes, 'journal', 'usage.jsonl'),
      DATA_DIR: join(volumes, 'data'),
    },
    isUp: async () => (await readyz()) === 200,
  })
  const envoy = createContainer(t, {
    name: 'Envoy',
    cwd: folder,
    command: [
      ...[envoyPath() ?? 'envoy', '--config-path', join(volumes, 'envoy', 'bootstrap.json')],
      ...['--concurrency', '2', '--disable-hot-restart'],
      ...['--file-flush-interval-msec', '1000', '--log-level', 'warning'],
    ],
    env: { PATH: process.env.PATH },
    isUp: () => accepts(port),
  })
  return {
    port,
    internal,
    volumes,
    service,
    envoy,
    readyz,
    async ask(route, headers, body = '') {
      const [method, path] = route.split(' ')
      const socketPath = join(volumes, 'sockets', 'api.sock')
      const asked = request({ socketPath, path, method, headers, agent: false }).end(body)
      const [answer] = (await once(asked, 'response')) as [IncomingMessage]
      return JSON.parse((await answer.setEncoding('utf8').toArray()).join('')) as Json
    },
    async drain() {
      const { command, cwd } = tollgate('drain')
      const [file = '', ...args] = command
      const stdio = ['ignore', 'pipe', 'pipe'] as const
      const child = spawn(file, args, { cwd, env: both, stdio: [...stdio] })
      const printed: string[] = []
      for (const stream of [child.stdout, child.stderr]) {
        stream?.setEncoding('utf8').on('data', (text: string) => void printed.push(text))
      }
      const [code, signal] = await once(child, 'close')
      return { status: code ?? signal, printed: printed.join('') }
    },
  }
}

interface ContainerSettings {
  readonly name: string
  readonly command: readonly string[]
  readonly cwd: string
  readonly env: NodeJS.ProcessEnv
  readonly isUp: () => Promise<boolean>
}

function createContainer(t: Test, { name, command, cwd, env, isUp }: ContainerSettings): Container {
  const [file = '', ...args] = command
  let child: ChildProcess | undefined
  let ended: Promise<number | string> = Promise.resolve(0)
  let log = ''
  t.teardown(async () => {
    child?.kill('SIGKILL')
    await ended
  })
  return {
    log: () => log,
    async start() {
      const running = spawn(file, args, { cwd, env, stdio: ['ignore', 'pipe', 'pipe'] })
      child = running
      for (const stream of [running.stdout, running.stderr]) {
        stream.setEncoding('utf8').on('data', (text: string) => {
          log += text
        })
      }
      ended = once(running, 'exit').then(([code, signal]) => code ?? signal)
      await poll(
        async () => {
          if (running.exitCode !== null) throw new Error(`${name} ended:\n${log}`)
          return await isUp()
        },
        `${name} is up`,
        60_000,
      )
    },
    end(signal) {
      child?.kill(signal)
      return ended
    },
  }
}

/** Whether somebody accepts connections there. */
async function accepts(port: number): Promise<boolean> {
  const socket = connect(port, '127.0.0.1')
  try {
    await once(socket, 'connect')
    return true
  } catch {
    return false
  } finally {
    socket.destroy()
  }
}
