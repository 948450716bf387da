import { randomUUID } from 'node:crypto'
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import root, { type Test } from 'tap'
import { journalFilesOf } from '../../src/journal/journal-files.ts'
import { type ServiceAddresses, serve } from '../../src/main.ts'
import { formatAddress, loadConfig } from '../../src/settings/config.ts'
import { createMigratedDatabase } from './database.ts'
import { accessPolicy, modelRef, subscription, type WrittenDocument } from './documents.ts'
import { type EnvoySettings, type RunningEnvoy, startEnvoy } from './envoy.ts'
import { envoyPath } from './envoy-binary.ts'
import { freePorts } from './free-ports.ts'
import { type ModelServer, startModelServer } from './model-server.ts'
import { noRateLimits } from './no-rate-limits.ts'
import { ownPlaces } from './own-places.ts'
import { poll } from './poll.ts'
import { temporaryFolder } from './temporary-folder.ts'
import { lasting } from './window-ends.ts'

/** What a test file may change in its gateway. */
export interface GatewaySettings {
  /** The resources for the URL of the sample model server; by default `defaultResources`. */
  readonly resources?: (backendUrl: string) => readonly WrittenDocument[]
  /** More settings of the service. */
  readonly env?: Record<string, string>
  /** The port of Envoy's admin page; a free port by default. */
  readonly envoyAdminPort?: number
  /** Whether the service knows the gateway's address, which its list of models needs. */
  readonly lists?: boolean
  /** Threads of Envoy; 1 by default. */
  readonly concurrency?: number
  /** Envoy's limits; by default the template's. */
  readonly limits?: Pick<
    EnvoySettings,
    'bodyLimit' | 'bodyTimeoutMs' | 'heapBytes' | 'allowedOrigins' | 'headersToModels'
  >
  /** Changes Envoy's configuration, given as JSON. */
  readonly adjustEnvoy?: (bootstrap: string) => string
}

/** The properties of a new key; by default for a new user of the group `team`. */
export interface KeyOptions {
  readonly user?: string
  readonly subscription?: string
  readonly expiresIn?: string | number
}

/** The fields of the answer to a creation that tests use. */
export interface MintedKey {
  readonly key: string
  readonly id: string
  readonly expiresAt: string
}

/** A complete answer. */
export interface Answer {
  readonly status: number
  readonly headers: Headers
  readonly text: string
}

/** The whole product: service, Envoy, a database, and a model server. */
export interface Gateway {
  /** `http://host:port`, and the port. */
  readonly url: string
  readonly port: number
  readonly envoy: RunningEnvoy
  readonly model: ModelServer
  readonly addresses: ServiceAddresses
  /** The value of its USAGE_JOURNAL. */
  readonly journal: string
  /** The folder of clusters.json. */
  readonly clusters: string
  /**
   * A user of the group `team` without any usage, whose hour does not end during the tests. The identity token is
   * `token-<user>`.
   */
  newUser(): string
  /** Creates a key through the gateway; any status but 201 is an error. */
  mint(wishes?: KeyOptions): Promise<MintedKey>
  /** One request through the gateway. `key` is the credential, if any. */
  ask(path: string, key?: string, init?: RequestInit): Promise<Answer>
  /** A chat call; `sim` is the request to the model server, `fields` are added to the body. */
  chat(key: string | undefined, sim?: object, fields?: object, path?: string): Promise<Answer>
  /** Whether a limit refuses this key for this model now; checked with a call that costs nothing. */
  isSpent(key: string, model?: string): Promise<boolean>
  /** Waits until every response that ended before this call has been counted. */
  settled(): Promise<void>
  /**
   * Replaces a resource file by a rename, or removes it without content. A string is written as it
   * is.
   */
  put(file: string, content: readonly WrittenDocument[] | string | undefined): void
  stopService(): Promise<void>
  /** Restarts it on the same addresses. */
  startService(): Promise<void>
}

export const chatPath = '/llm/sim/v1/chat/completions'

/**
 * For `adjustEnvoy`: the connection of a client whose response breaks off ends at once. By default Envoy waits a second
 * for the client to end it.
 */
export const endAtOnce = (bootstrap: string): string =>
  bootstrap.replaceAll(
    '"stream_idle_timeout"',
    '"delayed_close_timeout": "0.02s", "stream_idle_timeout"',
  )

/** Number of users that exist from the start, for `newUser`. */
const userCount = 600

/** The models llm/sim and llm/other for the group `team`, with practically no limits. */
export function defaultResources(backendUrl: string): readonly WrittenDocument[] {
  return [...models(backendUrl), ...subscriptions({ plenty: 1_000_000_000 }), meter]
}

/** Two models of one server, with their policy. */
export function models(backendUrl: string): readonly WrittenDocument[] {
  return [
    modelRef('sim', { backendUrl }),
    modelRef('other', { backendUrl }),
    accessPolicy('open', ['llm/sim', 'llm/other'], { groups: ['team'] }),
  ]
}

/**
 * Subscriptions of `team` by name, each with one hourly limit for llm/sim and the same for
 * llm/other.
 */
export function subscriptions(limits: Record<string, number>): readonly WrittenDocument[] {
  return Object.entries(limits).map(([name, limit]) =>
    subscription(
      name,
      { groups: ['team'] },
      {
        'llm/sim': [[limit, '1h']],
        'llm/other': [[limit, '1h']],
      },
    ),
  )
}

/** The Subscription that `settled` uses. */
export const meter = subscription(
  'meter',
  { groups: ['team'] },
  { 'llm/sim': [[1, '1h']] },
  { priority: -1 },
)

/**
 * Returns `test` for a file whose tests share one gateway, started by the first of them. Without
 * Envoy each test is skipped.
 */
export function gatewayTests(
  settings: GatewaySettings = {},
): (title: string, body: (t: Test, gateway: Gateway) => Promise<unknown>) => void {
  const skip = envoyPath() === undefined && 'no Envoy'
  let starting: Promise<Gateway> | undefined
  return (title, body) => {
    root.test(title, { skip }, async (t) => {
      starting ??= startGateway(root, settings)
      await body(t as Test, await starting)
    })
  }
}

/** Starts the product on free ports; all of it ends with `t`. */
export async function startGateway(t: Test, settings: GatewaySettings = {}): Promise<Gateway> {
  const { resources = defaultResources, concurrency = 1 } = settings
  const database = await createMigratedDatabase(t)
  const model = await startModelServer(t)
  const folder = temporaryFolder(t)
  const [resourceFolder, envoyFolder] = [join(folder, 'resources'), join(folder, 'envoy')]
  for (const each of [resourceFolder, envoyFolder]) mkdirSync(each)
  const put: Gateway['put'] = (file, content) => {
    const path = join(resourceFolder, file)
    if (content === undefined) return rmSync(path)
    const text = typeof content === 'string' ? content : content.map(toYaml).join('---\n')
    writeFileSync(join(folder, 'fresh'), text)
    renameSync(join(folder, 'fresh'), path)
  }
  put('resources.yaml', resources(model.url))
  const users = Array.from({ length: userCount }, (_, i) => lasting(`user-${i + 1}`))
  writeFileSync(join(folder, 'tokens.csv'), tokens(users))

  const clustersFolder = join(envoyFolder, 'clusters')
  const { envoyAdminPort: adminPort = (await freePorts(1))[0] } = settings
  const [port] = settings.lists ? await freePorts(1) : []
  const places = { ...ownPlaces(t), ...settings.env }
  const { USAGE_JOURNAL: journal } = places
  const environment = {
    ...(port !== undefined && { GATEWAY_ADDRESS: `127.0.0.1:${port}` }),
    DATABASE_URL: database,
    TOKEN_AUTH_FILE: join(folder, 'tokens.csv'),
    RESOURCES: `file:${resourceFolder}`,
    ENVOY_CONFIG_DIR: clustersFolder,
    REVOCATION_LOG_DIR: folder,
    ENVOY_ADMIN_ADDRESS: `127.0.0.1:${adminPort}`,
    LOG_LEVEL: 'silent',
    ...noRateLimits,
    AUDIT_LOG: 'off',
    ...places,
  }
  let service = await serve({ ...anyPorts, ...environment })
  t.teardown(() => service.stop())
  const { addresses } = service
  const config = loadConfig(environment)
  const tracing = { tracing: config.otel?.gateway, trustsTraces: config.traceTrustClients }
  const envoy = await startEnvoy(t, {
    grpc: addresses.grpc,
    api: [addresses.api],
    clustersFile: join(clustersFolder, 'clusters.json'),
    folder: envoyFolder,
    concurrency,
    lines: journalFilesOf(journal),
    adminPort,
    port,
    hopMark: config.hopMark,
    trustedHops: config.gatewayTrustedHops,
    chargesUnusable: config.unusableUsage === 'estimate',
    ...tracing,
    ...settings.limits,
    adjust: settings.adjustEnvoy,
  })
  const url = `http://127.0.0.1:${envoy.port}`

  let usersGiven = 0
  const newUser = () => {
    const user = users[usersGiven]
    if (user === undefined) throw new Error('no user is left')
    usersGiven += 1
    return user
  }
  const ask: Gateway['ask'] = async (path, key, init = {}) => {
    const headers = new Headers(init.headers)
    if (key !== undefined) headers.set('authorization', `Bearer ${key}`)
    const response = await fetch(url + path, { ...init, headers })
    return { status: response.status, headers: response.headers, text: await response.text() }
  }
  const post = (path: string, key: string | undefined, body: object) =>
    ask(path, key, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
    })
  const mint: Gateway['mint'] = async ({ user = newUser(), ...wishes } = {}) => {
    const body = { name: 'test', subscription: 'plenty', ...wishes }
    const answer = await post('/v1/api-keys', `token-${user}`, body)
    if (answer.status !== 201) throw new Error(`no key: ${answer.status} ${answer.text}`)
    return JSON.parse(answer.text)
  }
  const chat: Gateway['chat'] = (key, sim = {}, fields = {}, path = chatPath) =>
    post(path, key, { model: 'sim', messages: [{ role: 'user', content: 'Hi' }], sim, ...fields })
  const isSpent: Gateway['isSpent'] = async (key, name = 'sim') => {
    // Limits are checked before the body, and an empty body never reaches the model.
    const { status } = await ask(`/llm/${name}/v1/chat/completions`, key, { method: 'POST' })
    if (status !== 429 && status !== 400)
      throw new Error(`the limits could not be checked: ${status}`)
    return status === 429
  }

  return {
    url,
    port: envoy.port,
    envoy,
    model,
    addresses,
    journal,
    clusters: clustersFolder,
    newUser,
    mint,
    ask,
    chat,
    isSpent,
    async settled() {
      const { key } = await mint({ subscription: 'meter' })
      // Envoy's own log is written a little later; its lines are read before the next request is decided.
      const { headers } = await ask('/llm/sim/v1/models', key)
      const id = headers.get('x-request-id') ?? ''
      const { envoy: own } = journalFilesOf(journal)
      await poll(() => existsSync(own) && readFileSync(own).includes(id), 'Envoy writes its log')
      await chat(key, { totalTokens: 1 })
      await poll(() => isSpent(key), 'the usage of the meter is counted')
    },
    put,
    stopService: async () => void (await service.stop()),
    async startService() {
      const same = {
        API_ADDRESS: formatAddress(addresses.api),
        INTERNAL_ADDRESS: formatAddress(addresses.internal),
        GRPC_ADDRESS: addresses.grpc.map(formatAddress).join(','),
        METRICS_ADDRESS: addresses.metrics ? formatAddress(addresses.metrics) : 'off',
      }
      // An outgoing connection of another process may occupy one of the ports for a moment.
      await poll(async () => {
        try {
          service = await serve({ ...environment, ...same })
        } catch (error) {
          if (!String(error).includes('is already taken')) throw error
          return false
        }
        return true
      }, 'the service has its ports again')
    },
  }
}

const anyPorts = {
  API_ADDRESS: '127.0.0.1:0',
  INTERNAL_ADDRESS: '127.0.0.1:0',
  GRPC_ADDRESS: '127.0.0.1:0',
  METRICS_ADDRESS: '127.0.0.1:0',
}

function toYaml(document: WrittenDocument): string {
  return `${JSON.stringify(document, null, 2)}\n`
}

function tokens(users: readonly string[]): string {
  const lines = users.map((user) => `token-${user},${user},${randomUUID()},team`)
  return [...lines, 'token-guest,guest,2,', 'token-admin,admin,3,tollgate-admins', ''].join('\n')
}
