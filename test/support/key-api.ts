import { randomUUID } from 'node:crypto'
import type { FastifyInstance, InjectOptions, LightMyRequestResponse } from 'fastify'
import { pino } from 'pino'
import type { Test } from 'tap'
import type { TableCondition } from '../../src/admin/explain/explain-table.ts'
import { createIsAdmin } from '../../src/admin/http/administrators.ts'
import type { ListenerTimes } from '../../src/admin/http/listener.ts'
import type { RequestRate } from '../../src/admin/http/request-limit.ts'
import { buildAdmin, buildInternal } from '../../src/admin/server.ts'
import { createAuditTrail } from '../../src/audit/trail.ts'
import type { BackendState } from '../../src/cluster/rules/conditions.ts'
import { noPolicies } from '../../src/cluster/rules/policies.ts'
import type { PastRefusals, PeerRefusals } from '../../src/decide/past-refusal.ts'
import { createLimitEnforcer, type LimitEnforcer } from '../../src/extauthz/check-limits.ts'
import { createRefusalMemory } from '../../src/extauthz/refusal-memory.ts'
import {
  createAuthenticator,
  createKeyVerifier,
  type VerifyCredential,
} from '../../src/identity/authenticate.ts'
import { createCachedApiKeys } from '../../src/keys/cached-api-keys.ts'
import { createIdempotency, type Idempotency } from '../../src/keys/idempotency.ts'
import { createPostgresApiKeys } from '../../src/keys/postgres-api-keys.ts'
import { createPropagationWatch } from '../../src/keys/revocations/propagation.ts'
import { hashOfKey } from '../../src/keys/rules/api-key.ts'
import type { KeyReach } from '../../src/keys/rules/caps-of-caller.ts'
import type { ApiKeyStore, ApiKeyTable } from '../../src/keys/store.ts'
import type { RefusedResource } from '../../src/models/rules/refused-resources.ts'
import type { Snapshot } from '../../src/models/rules/snapshot.ts'
import { pathRules } from '../../src/operations/operations.ts'
import type { ResettableCounters } from '../../src/ratelimit/counters.ts'
import { createActiveIncreases } from '../../src/ratelimit/increases/active-increases.ts'
import { createIncreaseStore } from '../../src/ratelimit/increases/postgres-increases.ts'
import { userInLines } from '../../src/ratelimit/rules/counter-key.ts'
import { migrate } from '../../src/store/postgres/migrate.ts'
import { openPool, type Pool } from '../../src/store/postgres/postgres.ts'
import { createUsageReader } from '../../src/usage/ledger/postgres/reader.ts'
import { readPastSums } from '../../src/usage/ledger/postgres/state.ts'
import { createSimulator } from '../../src/usage/ledger/simulation.ts'
import type { LimitRequests } from '../../src/usage/limit-requests/limit-requests.ts'
import { createLimitRequests } from '../../src/usage/limit-requests/postgres-limit-requests.ts'
import { createTestCounters } from './counters.ts'
import { createMigratedDatabase } from './database.ts'
import { modelRef, snapshotOf, subscription } from './documents.ts'
import { alwaysFresh } from './key-table.ts'
import { noOtherProcess } from './no-other-process.ts'
import { wholeState } from './service-state.ts'

export interface KeyApiOptions {
  readonly snapshot?: Snapshot | (() => Snapshot)
  /** In place of a new database. */
  readonly url?: string
  /** Wraps the store, to make calls fail or wait. */
  readonly around?: (store: ApiKeyTable) => ApiKeyTable
  readonly times?: ListenerTimes
  /** None by default. */
  readonly rate?: RequestRate
  readonly addressRate?: RequestRate
  readonly trustedProxies?: readonly string[]
  /** None by default. */
  readonly trustedHops?: number
  /** No limit by default. */
  readonly maxKeysPerUser?: number
  /** `owner` by default. */
  readonly keyReach?: KeyReach
  readonly readCounters?: ResettableCounters['readFresh']
  readonly resetCounters?: ResettableCounters['reset']
  readonly limits?: LimitEnforcer
  readonly backendOf?: (model: string) => BackendState | undefined
  readonly pastRefusals?: PastRefusals
  /** `off` by default. */
  readonly tableCondition?: () => TableCondition
  readonly othersRefusals?: PeerRefusals
  /** Whether there is a usage ledger; true by default. */
  readonly ledger?: boolean
  /** The usage journal, for simulations. */
  readonly journal?: string
  /** Problems of the resources. */
  readonly problems?: readonly string[]
  /** Documents of resources that are not in force. */
  readonly refused?: readonly RefusedResource[]
  /** INFERENCE_WITH_IDENTITY_TOKENS; false by default. */
  readonly tokensOpenInference?: boolean
  /** Whether an action requires its line in the audit trail. */
  readonly auditRequired?: boolean
}

/** A request of a test; `body` is sent as JSON, `payload` as it is. */
export interface Asked {
  /** The caller: the name of an identity or a key's plaintext; none by default. */
  readonly as?: string
  readonly body?: unknown
  readonly payload?: string | Buffer
  readonly headers?: Record<string, string>
}

/** Both listeners with a real Postgres, a clock that the test sets, and a log that it reads. */
export interface KeyApi {
  readonly external: FastifyInstance
  readonly internal: FastifyInstance
  readonly sql: Pool
  readonly url: string
  readonly keys: ApiKeyStore
  readonly idempotency: Idempotency
  readonly limitRequests: LimitRequests
  /** Writes a use of a secret, given in plaintext or by its hash, to the table. */
  noteUse(key: string, at: number): Promise<void>
  /** Milliseconds since the epoch; the API's current time. */
  now: number
  /** The hashes of the secrets whose use was recorded, in order. */
  readonly uses: string[]
  /** The lines of the audit trail, in order. */
  readonly audited: Record<string, unknown>[]
  /** Whether lines of the trail can be written. */
  auditWorks: boolean
  /** The whole log. */
  readonly logged: () => string
  /** `ask('POST /v1/api-keys', …)`; paths under /internal go to the internal listener. */
  ask(route: string, asked?: Asked): Promise<LightMyRequestResponse>
  /** Creates a key and returns the body of the 201. */
  createKey(as: string, body?: object): Promise<CreatedKey>
}

export interface CreatedKey {
  readonly id: string
  readonly key: string
  readonly name: string
}

/** The sample's Subscriptions: `premium` before `basic` for team-a, `b-only` for team-b. */
export const sampleSnapshot = snapshotOf(
  modelRef('small'),
  subscription('premium', { groups: ['team-a'] }, { 'llm/small': [[100, '1m']] }, { priority: 20 }),
  subscription('basic', { groups: ['team-a'] }, { 'llm/small': [[50, '1m']] }, { priority: 10 }),
  subscription('b-only', { groups: ['team-b'] }, { 'llm/small': [[50, '1m']] }),
)

/** A name as long as that of a key's owner may be. */
export const longest = 'x'.repeat(2_048)

/** A name that lines shorten. */
export const longAdmin = 'admin'.repeat(200)

/** The identities by name, with their groups; the token of each is `<name>-token`. */
const people: Readonly<Record<string, readonly string[]>> = {
  alice: ['team-a'],
  carol: ['team-a'],
  bob: ['team-b'],
  admin: ['tollgate-admins', 'team-a'],
  [longAdmin]: ['tollgate-admins'],
  [userInLines(longAdmin)]: ['team-a'],
  [longest]: ['team-a'],
  [`${longest}x`]: ['team-a'],
  stranger: [],
  // As some providers have them; the token lacks the blanks.
  ' blanks ': ['team-a'],
}

const markers = { own: 'tg', accepted: new Set(['tg', 'oai']) }

const verifyToken: VerifyCredential = (token) => {
  const name = /^(.*)-token$/.exec(token)?.[1] ?? ''
  const user = name in people ? name : ` ${name} `
  const groups = people[user]
  return groups === undefined ? null : { by: 'token', proof: { by: 'file' }, user, groups }
}

/** Builds everything; it ends with `t`. */
export async function createKeyApi(t: Test, options: KeyApiOptions = {}): Promise<KeyApi> {
  const url = options.url ?? (await createMigratedDatabase(t))
  const sql = openPool({ url, connections: 10 })
  if (options.url !== undefined) await migrate(sql)
  const store = createPostgresApiKeys(sql)
  const keys = createCachedApiKeys(options.around?.(store) ?? store, {
    entries: 1_000,
    freshness: alwaysFresh,
  })
  const lines: string[] = []
  const uses: string[] = []
  const noteUse = (hash: string): void => void uses.push(hash)
  const log = pino({ level: 'trace' }, { write: (line: string) => void lines.push(line) })
  const audit = createAuditTrail({
    sink: {
      async write(line) {
        if (api.auditWorks) api.audited.push(JSON.parse(line))
        return api.auditWorks
      },
      async close() {},
    },
    required: options.auditRequired ?? false,
    replica: 'one',
    clock: () => api.now,
  })
  const compared = { ...noPolicies.compared, refused: options.refused ?? [] }
  const policies = { ...noPolicies, compared }
  const snapshot = () =>
    typeof options.snapshot === 'function'
      ? options.snapshot()
      : (options.snapshot ?? sampleSnapshot)
  const deps = {
    keys,
    snapshot,
    clock: () => api.now,
    log,
    audit,
    markers,
    onResponse() {},
    onRefused() {},
    resourceProblems: () => options.problems ?? [],
    enforcement: async () => ({ snapshot: snapshot(), policies, reports: [] }),
    ...(options.times !== undefined && { times: options.times }),
  }
  const idempotency = createIdempotency(sql)
  const limitRequests = createLimitRequests(sql, true)
  const increases = createActiveIncreases(createIncreaseStore(sql), () => api.now)
  const memory = createTestCounters()
  const propagation = createPropagationWatch({ pool: sql, id: randomUUID(), others: () => [] })
  const external = buildAdmin({
    ...deps,
    rate: options.rate,
    addressRate: options.addressRate,
    trustedProxies: options.trustedProxies ?? [],
    propagation: propagation.wait,
    async whenIncreased() {
      await increases.follow()
      return await propagation.waitForIncreases()
    },
    idempotency,
    authenticate: createAuthenticator({
      key: createKeyVerifier(keys, markers, noteUse),
      token: verifyToken,
    }),
    serviceState: async () => wholeState,
    isAdmin: createIsAdmin(new Set(['tollgate-admins'])),
    keyMarker: 'tg',
    maxKeysPerUser: options.maxKeysPerUser ?? 0,
    keyReach: options.keyReach ?? 'owner',
    tokensOpenInference: options.tokensOpenInference ?? false,
    gatewayTrustedHops: options.trustedHops ?? 0,
    maxExpirationDays: 90,
    searchesAtOnce: 2,
    probeModel: async () => 'closed',
    gatewayUrl: 'http://gateway.example',
    accessCheckTimeoutMs: 1_000,
    instanceName: 'test',
    billingCurrency: 'EUR',
    readCounters: options.readCounters ?? memory.readFresh,
    resetCounters: options.resetCounters ?? memory.reset,
    limits:
      options.limits ??
      createLimitEnforcer({
        counters: { read: options.readCounters ?? memory.readFresh },
        increases,
      }),
    increases,
    limitRequests,
    ...(options.backendOf && { backendOf: options.backendOf }),
    paths: pathRules(),
    usage: options.ledger === false ? undefined : createUsageReader(sql),
    simulate: createSimulator({ path: options.journal, folder: undefined }, 'allow', (...span) =>
      readPastSums(sql, ...span),
    ),
    pastRefusals: options.pastRefusals ?? createRefusalMemory(),
    othersRefusals: options.othersRefusals ?? noOtherProcess,
    tableCondition: options.tableCondition ?? (() => 'off'),
    locate: (resource) => ({ file: `${resource}.yaml`, line: 1 }),
  })
  const internal = buildInternal({
    ...deps,
    ready: () => true,
    gatewayDrain: { isAsked: false, ask: async () => ({ status: 'drained', requests: 0 }) },
    degraded: async () => [],
    noteUse,
  })
  const api: KeyApi = {
    external,
    internal,
    sql,
    url,
    keys,
    idempotency,
    limitRequests,
    noteUse: (key, at) => store.noteUses(new Map([[hashOfKey(key, markers) ?? key, at]])),
    now: Date.UTC(2026, 2, 1, 12),
    uses,
    audited: [],
    auditWorks: true,
    logged: () => lines.join(''),
    ask(route, { as, body, payload, headers } = {}) {
      const [method, path] = route.split(' ') as [InjectOptions['method'], string]
      const credential = as?.startsWith('sk-') ? as : `${as}-token`
      const sent = payload ?? (body === undefined ? undefined : JSON.stringify(body))
      return (path.startsWith('/internal') ? internal : external).inject({
        method: method ?? 'GET',
        url: path,
        headers: {
          ...(as !== undefined && { authorization: `Bearer ${credential}` }),
          ...headers,
        },
        ...(sent !== undefined && { payload: sent }),
      })
    },
    async createKey(as, body = {}) {
      const answer = await api.ask('POST /v1/api-keys', { as, body: { name: 'a key', ...body } })
      if (answer.statusCode !== 201) throw new Error(answer.body)
      return answer.json()
    },
  }
  t.teardown(async () => {
    await Promise.all([external.close(), internal.close()])
    await sql.end()
  })
  return api
}
