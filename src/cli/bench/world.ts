/** A whole gateway on free ports and in a folder of its own, and a bare Envoy beside it. */

import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { SocketAddress } from '../../config.ts'
import { PACKAGE_ROOT } from '../../package-root.ts'
import { startChild } from '../child.ts'
import { findEnvoy } from '../envoy-binary.ts'
import { freePorts } from '../free-ports.ts'
import { createParts } from '../parts.ts'
import { StartError } from '../start-error.ts'
import { createSupervisor, type Part } from '../supervisor.ts'
import { localUrl, readUpSettings } from '../up-settings.ts'
import { waitForHttp } from '../wait-for-http.ts'
import { mintKeys } from './mint-keys.ts'
import { renderPlainEnvoy } from './plain-envoy.ts'

/** How it is to be. */
export interface WorldOptions {
  readonly env: NodeJS.ProcessEnv
  /** Settings of the service, by name. */
  readonly set: Readonly<Record<string, string>>
  /** Threads of each Envoy. */
  readonly envoyThreads: number
  readonly log: (line: string) => void
}

/** What can be measured in it. */
export interface World {
  readonly gateway: string
  readonly bare: string
  readonly keys: readonly string[]
  /** Process ids: `Envoy`, `the service`, `the bare Envoy`, `the sample model server`. */
  pidOf(part: string): number
  /** Rejects, once, when a process has ended that is measured. */
  readonly broken: Promise<never>
}

/** Its maker, so that it can be stopped while it starts. */
export interface WorldMaker {
  start(): Promise<World>
  /** Ends everything and removes its folder. Settles when nothing is left; safe to call twice. */
  stop(): Promise<void>
  /** The same at once, without a chance to finish. */
  kill(): void
}

const KEYS = 16
const MODEL = { namespace: 'llm', name: 'bench' }
/** A limit that no bench reaches, in the forms that limits have. */
const limits = [
  { limit: 1_000_000_000, window: '1h' },
  { limit: 1_000_000_000, window: '24h' },
]

export const modelPath = `/${MODEL.namespace}/${MODEL.name}`
export const modelName = MODEL.name

export function createWorld({ env, set, envoyThreads, log }: WorldOptions): WorldMaker {
  const folder = mkdtempSync(join(tmpdir(), 'tollgate-bench-'))
  // As root Postgres runs as another user, who has to enter it.
  chmodSync(folder, 0o755)
  const supervisor = createSupervisor(log)
  const pids = new Map<string, number>()
  const broken = Promise.withResolvers<never>()
  broken.promise.catch(() => {})

  /** A part that is not started again: its figures would be those of two processes. */
  function once(part: Part): Part {
    return {
      ...part,
      async spawn() {
        const child = await part.spawn()
        pids.set(part.name, child.pid)
        void child.exited.then((how) => {
          if (supervisor.ending.aborted) return
          const said = part.lastWords?.() ?? ''
          broken.reject(new StartError(`${part.name} ended while it was measured (${how}) ${said}`))
        })
        return child
      },
    }
  }

  async function start(): Promise<World> {
    const [plain = 0, plainAdmin = 0, ...ports] = await freePorts(2 + addresses.length)
    const own = { ...set, ...usual(folder, ports), ...whereEnvoyIs(env) }
    writeResources(join(folder, 'resources'), `http://${own.MODEL_SERVER_ADDRESS}`)
    writeFileSync(join(folder, 'tokens.csv'), `${TOKEN},bench,1,bench\n`)
    const settings = readUpSettings(own)
    const { config } = settings
    const envoy = await findEnvoy({
      path: config.envoyPath,
      env,
      log,
      signal: supervisor.ending,
    })
    const parts = createParts({
      env: { PATH: env.PATH, HOME: env.HOME, ...own },
      settings,
      resourceFolder: config.resourceFolder,
      envoy,
      envoyThreads,
      modelServer: join(PACKAGE_ROOT, 'src', 'cli', 'bench', 'model-server.ts'),
      log,
    })
    const bare = plainEnvoy('the bare Envoy', {
      listen: local(plain),
      admin: local(plainAdmin),
      modelServer: config.modelServerAddress,
    })
    for (const part of [...parts, bare]) {
      supervisor.ending.throwIfAborted()
      log(`Starting ${part.name}`)
      await supervisor.start(once(part))
    }
    const gateway = localUrl(config.gatewayAddress)
    const keys = await mintKeys({ gateway, token: TOKEN, count: KEYS, signal: supervisor.ending })
    return {
      gateway,
      bare: localUrl(local(plain)),
      keys,
      pidOf: (part) => pids.get(part) ?? 0,
      broken: broken.promise,
    }

    function plainEnvoy(name: string, places: Parameters<typeof renderPlainEnvoy>[0]): Part {
      return {
        name,
        async spawn() {
          const file = join(folder, `${name.replaceAll(' ', '-')}.json`)
          writeFileSync(file, renderPlainEnvoy(places))
          return startChild({
            name: name.replaceAll(' ', '-'),
            command: envoy,
            args: [
              ...['--config-path', file, '--concurrency', String(envoyThreads)],
              ...['--log-level', 'warning', '--disable-hot-restart'],
            ],
            env,
            output: join(folder, 'log', `${name.replaceAll(' ', '-')}.log`),
            records: join(folder, 'run'),
            ipc: false,
          })
        },
        ready: (signal) => waitForHttp({ name, url: `${localUrl(places.admin)}/ready`, signal }),
      }
    }
  }

  return {
    start,
    async stop() {
      await supervisor.stop()
      rmSync(folder, { recursive: true, force: true })
    },
    kill() {
      supervisor.kill()
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

const TOKEN = 'bench-token'
const addresses = ['GATEWAY', 'API', 'INTERNAL', 'GRPC', 'METRICS', 'ENVOY_ADMIN', 'MODEL_SERVER']

/** Nothing of the caller's own settings: a bench must not write to somebody's database. */
function usual(folder: string, ports: readonly number[]): Record<string, string> {
  return {
    DATA_DIR: join(folder, 'data'),
    RESOURCES: `file:${join(folder, 'resources')}`,
    TOKEN_AUTH_FILE: join(folder, 'tokens.csv'),
    ...Object.fromEntries(addresses.map((name, i) => [`${name}_ADDRESS`, `127.0.0.1:${ports[i]}`])),
  }
}

function whereEnvoyIs({ ENVOY_PATH }: NodeJS.ProcessEnv): Record<string, string> {
  return ENVOY_PATH ? { ENVOY_PATH } : {}
}

function local(port: number): SocketAddress {
  return { host: '127.0.0.1', port }
}

function writeResources(folder: string, backendUrl: string): void {
  const apiVersion = 'tollgate.dev/v1alpha1'
  const documents = [
    {
      kind: 'ModelRef',
      metadata: MODEL,
      spec: {
        modelRef: { kind: 'LLMInferenceService', name: MODEL.name },
        backendUrl,
        modelIds: [MODEL.name],
      },
    },
    {
      kind: 'AccessPolicy',
      metadata: { name: 'bench' },
      spec: { modelRefs: [MODEL], subjects: { groups: [{ name: 'bench' }] } },
    },
    {
      kind: 'Subscription',
      metadata: { name: 'bench' },
      spec: {
        owner: { groups: [{ name: 'bench' }] },
        modelRefs: [{ ...MODEL, tokenRateLimits: limits }],
      },
    },
  ]
  mkdirSync(folder, { recursive: true })
  const text = documents.map((each) => `${JSON.stringify({ apiVersion, ...each })}\n`).join('---\n')
  writeFileSync(join(folder, 'bench.yaml'), text)
}
