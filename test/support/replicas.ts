import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Test } from 'tap'
import { journalFilesOf } from '../../src/journal/journal-files.ts'
import { packageRoot } from '../../src/runtime/package-root.ts'
import { createMigratedDatabase } from './database.ts'
import type { WrittenDocument } from './documents.ts'
import { entryOf } from './entry-of.ts'
import { type RunningEnvoy, startEnvoy } from './envoy.ts'
import { freePorts } from './free-ports.ts'
import { inPod } from './in-pod.ts'
import { type ModelServer, startModelServer } from './model-server.ts'
import { noRateLimits } from './no-rate-limits.ts'
import { ownPlaces } from './own-places.ts'
import { createRestartable, type Restartable } from './restartable.ts'
import { temporaryFolder } from './temporary-folder.ts'

/** One process of the service, started by `tollgate serve`. */
export interface Replica extends Omit<Restartable, 'start'> {
  readonly name: string
  /** `host:port` each; with workers, a list with commas. */
  readonly api: string
  readonly internal: string
  readonly grpc: string
  readonly metrics: string
  /** Starts it again on the same addresses, from another clone if one is named. */
  start(root?: string): Promise<void>
}

/** Several processes of the service with one database and one journal, behind one Envoy. */
export interface Replicas {
  readonly url: string
  readonly database: string
  readonly envoy: RunningEnvoy
  readonly model: ModelServer
  readonly all: readonly Replica[]
  /** USAGE_JOURNAL of all processes. */
  readonly journal: string
  /** The folder of the identity tokens and resources. */
  readonly folder: string
}

export interface ReplicasSettings {
  readonly count: number
  /** How many of them are started; all by default. */
  readonly started?: number
  readonly resources: (backendUrl: string) => readonly WrittenDocument[]
  /** Lines of the token file; by convention `token-<user>`. */
  readonly tokens: readonly string[]
  /** The database URL for a replica, such as a proxy's; by default the database itself. */
  readonly databaseFor?: (url: string, index: number) => string | Promise<string>
  readonly database?: string
  /** The clone from which they are first started; this one by default. */
  readonly root?: string | undefined
  readonly env?: Record<string, string>
  /** The port of Envoy's admin page; a free port by default. */
  readonly envoyAdminPort?: number
  /** Changes Envoy's configuration, given as JSON. */
  readonly adjustEnvoy?: (bootstrap: string) => string
}

/** Starts them on free ports; everything ends with `t`. */
export async function startReplicas(t: Test, settings: ReplicasSettings): Promise<Replicas> {
  const { count, started = count, databaseFor = (url: string) => url } = settings
  const database = settings.database ?? (await createMigratedDatabase(t))
  const model = await startModelServer(t)
  const folder = temporaryFolder(t)
  for (const each of ['resources', 'envoy']) mkdirSync(join(folder, each))
  const resources = settings.resources(model.url).map((document) => JSON.stringify(document))
  writeFileSync(join(folder, 'resources', 'all.yaml'), resources.join('\n---\n'))
  writeFileSync(join(folder, 'tokens.csv'), `${settings.tokens.join('\n')}\n`)
  const places = { ...ownPlaces(t), ...settings.env }
  const { envoyAdminPort: adminPort = (await freePorts(1))[0] } = settings
  const ports = await freePorts(4 * count)
  const all: Replica[] = []
  for (let i = 0; i < count; i += 1) {
    const own = ports.slice(4 * i, 4 * i + 4)
    const [api, internal, grpc, metrics] = own.map((port) => `127.0.0.1:${port}`)
    const replica = createReplica(t, {
      ...inPod(`replica-${i + 1}`),
      API_ADDRESS: api as string,
      INTERNAL_ADDRESS: internal as string,
      GRPC_ADDRESS: grpc as string,
      METRICS_ADDRESS: metrics as string,
      DATABASE_URL: await databaseFor(database, i),
      TOKEN_AUTH_FILE: join(folder, 'tokens.csv'),
      RESOURCES: `file:${join(folder, 'resources')}`,
      ENVOY_CONFIG_DIR: join(folder, i === 0 ? 'clusters' : `clusters-${i + 1}`),
      REVOCATION_LOG_DIR: join(folder, `data-${i + 1}`),
      ENVOY_ADMIN_ADDRESS: `127.0.0.1:${adminPort}`,
      ...noRateLimits,
      ...places,
    })
    if (i < started) await replica.start(settings.root)
    all.push(replica)
  }
  const envoy = await startEnvoy(t, {
    grpc: all.flatMap(({ grpc }) => grpc.split(',').map(toAddress)),
    api: all.map(({ api }) => toAddress(api)),
    clustersFile: join(folder, 'clusters', 'clusters.json'),
    folder: join(folder, 'envoy'),
    concurrency: 2,
    lines: journalFilesOf(places.USAGE_JOURNAL),
    adminPort,
    adjust: settings.adjustEnvoy,
  })
  const { USAGE_JOURNAL: journal } = places
  return { url: `http://127.0.0.1:${envoy.port}`, database, envoy, model, all, folder, journal }
}

/** A process that has not been started yet. */
function createReplica(t: Test, env: Record<string, string>): Replica {
  const { PATH, HOME } = process.env
  const command = (root: string) => ({
    line: [process.execPath, entryOf(root), 'serve'],
    cwd: root,
  })
  const replica = createRestartable(t, {
    name: env.POD_NAME as string,
    command: command(packageRoot),
    env: { PATH, HOME, LOG_LEVEL: 'info', ...env },
    async isUp() {
      const answer = await fetch(`http://${env.INTERNAL_ADDRESS}/readyz`).catch(() => undefined)
      return answer?.status === 200
    },
  })
  return {
    name: env.POD_NAME as string,
    api: env.API_ADDRESS as string,
    internal: env.INTERNAL_ADDRESS as string,
    grpc: env.GRPC_ADDRESS as string,
    metrics: env.METRICS_ADDRESS as string,
    get pid() {
      return replica.pid
    },
    log: replica.log,
    signal: replica.signal,
    end: replica.end,
    start: (root = packageRoot) => replica.start(command(root)),
  }
}

function toAddress(written: string): { readonly host: string; readonly port: number } {
  const [host = '', port] = written.split(':')
  return { host, port: Number(port) }
}
