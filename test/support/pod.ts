import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, writeFileSync } from 'node:fs'
import { type IncomingMessage, request } from 'node:http'
import { join } from 'node:path'
import type { Test } from 'tap'
import { packageRoot } from '../../src/runtime/package-root.ts'
import type { WrittenDocument } from './documents.ts'
import { entryOf } from './entry-of.ts'
import { envoyPath } from './envoy-binary.ts'
import { freePorts } from './free-ports.ts'
import { inPod } from './in-pod.ts'
import { isListening } from './is-listening.ts'
import { noRateLimits } from './no-rate-limits.ts'
import { createRestartable, type Restartable } from './restartable.ts'
import { temporaryFolder } from './temporary-folder.ts'

type Json = Readonly<Record<string, unknown>>

/**
 * Envoy and the service in a pod as in k8s/base: they share folders and are connected by Unix
 * sockets.
 */
export interface Pod {
  /** The port of Envoy. */
  readonly port: number
  /** `http://host:port` at which a kubelet probes the service. */
  readonly internal: string
  /** Its volumes; everything else is read-only. */
  readonly volumes: string
  readonly service: Restartable
  readonly envoy: Restartable
  /** The status of the readiness probe, or 0 without an answer. */
  readyz(): Promise<number>
  /**
   * `ask('POST /v1/api-keys', …)` to the service's API, without Envoy; returns the JSON of the
   * answer.
   */
  ask(route: string, headers: Record<string, string>, body?: string): Promise<Json>
  /** Runs `tollgate drain` beside Envoy; resolves to its status and output. */
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

/** Creates a pod in which nothing runs yet; everything ends with `t`. */
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
  const { PATH } = process.env
  const both = {
    PATH,
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
    line: [process.execPath, entryOf(packageRoot), ...args],
    cwd: folder,
  })
  const service = createRestartable(t, {
    name: 'the service',
    command: tollgate('serve'),
    env: {
      ...inPod(settings.name),
      ...both,
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
  const envoy = createRestartable(t, {
    name: 'Envoy',
    command: {
      line: [
        ...[envoyPath() ?? 'envoy', '--config-path', join(volumes, 'envoy', 'bootstrap.json')],
        ...['--concurrency', '2', '--disable-hot-restart'],
        ...['--file-flush-interval-msec', '20', '--log-level', 'warning'],
      ],
      cwd: folder,
    },
    env: { PATH },
    isUp: () => isListening('127.0.0.1', port),
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
      const { line, cwd } = tollgate('drain')
      const [file = '', ...args] = line
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
