import http, { type IncomingHttpHeaders, type RequestListener } from 'node:http'
import type { FastifyInstance } from 'fastify'
import { type Logger, pino } from 'pino'
import type { Test } from 'tap'
import { createGatewayClient, type GatewayLocation } from '../../src/admin/models/gateway-client.ts'
import {
  createProbeModel,
  type ProbeModel,
  type ProbeOptions,
} from '../../src/admin/models/model-probe.ts'
import { buildAdmin, buildInternal } from '../../src/admin/server.ts'
import { noTrail } from '../../src/audit/trail.ts'
import { noPolicies } from '../../src/cluster/rules/policies.ts'
import { createLimitEnforcer } from '../../src/extauthz/check-limits.ts'
import { createRefusalMemory } from '../../src/extauthz/refusal-memory.ts'
import { ServiceError } from '../../src/formats/errors.ts'
import type { Caller } from '../../src/identity/rules/caller.ts'
import type { ApiKeyStore } from '../../src/keys/store.ts'
import { createServedNames } from '../../src/models/rules/served-names.ts'
import type { Snapshot } from '../../src/models/rules/snapshot.ts'
import { pathRules } from '../../src/operations/operations.ts'
import {
  createActiveIncreases,
  type IncreaseStore,
} from '../../src/ratelimit/increases/active-increases.ts'
import type { LimitRequests } from '../../src/usage/limit-requests/limit-requests.ts'
import { createTestCounters } from './counters.ts'
import { listenLocally } from './listening.ts'
import { noOtherProcess } from './no-other-process.ts'
import { wholeState } from './service-state.ts'

/** The endpoints that need no key store, with resources and callers that the test sets. */
export interface ListApi {
  readonly external: FastifyInstance
  readonly internal: FastifyInstance
  /** The resources in force; reading them fails if undefined. */
  snapshot: Snapshot | undefined
  /** Milliseconds since the epoch. */
  now: number
}

export interface ListApiOptions {
  readonly snapshot?: Snapshot
  /** By default one that forwards every request to the model's backend. */
  readonly gateway?: GatewayLocation
  readonly accessCheckTimeoutMs?: number
  readonly probes?: Omit<ProbeOptions, 'askGateway' | 'seal'>
  /** Silent by default. */
  readonly log?: Logger
  /** Replaces the gateway and its requests. */
  readonly probeModel?: ProbeModel
}

const groups: Readonly<Record<string, readonly string[]>> = {
  alice: ['team-a'],
  bob: ['team-b'],
  stranger: [],
}

/** `Bearer alice` is alice's token, `Bearer sk-alice/basic` is her key for a subscription. */
function believe(credential = ''): Caller | null {
  if (credential === 'outage') throw new ServiceError('store_unavailable')
  const [, key, user = '', subscription = ''] = /^(sk-)?([a-z]+)(?:\/(.*))?$/.exec(credential) ?? []
  const of = groups[user]
  if (of === undefined) return null
  const person = { user, groups: of }
  return key
    ? { by: 'key', ...person, keyId: 'id', subscription }
    : { by: 'token', proof: { by: 'file' }, ...person }
}

async function beAway(): Promise<never> {
  throw new ServiceError('store_unavailable')
}

/** There are none, and none can be added. */
export const awayIncreases: IncreaseStore = { read: beAway, add: beAway, remove: beAway }
const awayRequests: LimitRequests = {
  add: beAway,
  list: beAway,
  countOpen: beAway,
  find: beAway,
  decide: beAway,
}

/** Builds both APIs; they are closed when `t` ends. */
export async function createListApi(t: Test, options: ListApiOptions = {}): Promise<ListApi> {
  const { log = pino({ level: 'silent' }) } = options
  const names = createServedNames()
  const named = new WeakMap<Snapshot, Snapshot>()
  const snapshot = (): Snapshot => {
    if (api.snapshot === undefined) throw new Error('nothing is in force')
    const shown = named.get(api.snapshot) ?? names.onto(api.snapshot, ({ key }) => key)
    named.set(api.snapshot, shown)
    return shown
  }
  const clock = () => api.now
  const keys = {} as ApiKeyStore
  const counters = createTestCounters()
  const gateway = options.gateway ?? (await startForwarder(t, snapshot))
  const markers = { own: 'tg', accepted: new Set<string>() }
  const resources = {
    ...{ onResponse() {}, onRefused() {}, audit: noTrail },
    resourceProblems: () => [],
    enforcement: async () => ({ snapshot: snapshot(), policies: noPolicies, reports: [] }),
  }
  const external = buildAdmin({
    markers: { own: 'tg', accepted: new Set(['tg']) },
    log,
    snapshot,
    clock,
    keys,
    idempotency: {
      claim: async () => ({ state: 'mine', made: undefined }),
      release: async () => {},
    },
    propagation: async () => ({ state: 'confirmed', replicas: 1, acknowledged: 1 }),
    whenIncreased: async () => ({ state: 'confirmed', replicas: 1, acknowledged: 1 }),
    authenticate: believe,
    serviceState: async () => wholeState,
    isAdmin: () => false,
    keyMarker: 'tg',
    keyReach: 'owner',
    tokensOpenInference: false,
    tableCondition: () => 'off',
    maxKeysPerUser: 0,
    maxExpirationDays: 90,
    searchesAtOnce: 1,
    probeModel:
      options.probeModel ??
      createProbeModel({
        ...options.probes,
        askGateway: createGatewayClient(gateway),
        seal: (address) => `sealed ${address}`,
      }),
    onServed: (model, served) => void names.set(model.key, served),
    gatewayUrl: 'http://gateway.example',
    accessCheckTimeoutMs: options.accessCheckTimeoutMs ?? 5_000,
    instanceName: 'gate',
    billingCurrency: 'USD',
    readCounters: counters.readFresh,
    limits: createLimitEnforcer({ counters }),
    increases: createActiveIncreases(awayIncreases, clock),
    limitRequests: awayRequests,
    paths: pathRules(),
    pastRefusals: createRefusalMemory(),
    othersRefusals: noOtherProcess,
    usage: undefined,
    simulate: undefined,
    resetCounters: async () => {},
    locate: () => ({ file: '', line: 0 }),
    ...resources,
  })
  const internal = buildInternal({
    log,
    snapshot,
    clock,
    keys,
    markers,
    ready: () => true,
    gatewayDrain: { isAsked: false, ask: async () => ({ status: 'drained', requests: 0 }) },
    degraded: async () => [],
    ...resources,
  })
  const api: ListApi = {
    external,
    internal,
    snapshot: options.snapshot,
    now: Date.UTC(2026, 2, 1, 12),
  }
  t.teardown(async () => {
    await Promise.all([external.close(), internal.close()])
  })
  return api
}

/**
 * Forwards `/<namespace>/<name>/…` to the model's backend and decides nothing: the real gateway's decisions are tested
 * in test/e2e.
 */
async function startForwarder(t: Test, snapshot: () => Snapshot): Promise<GatewayLocation> {
  const server = http.createServer((request, response) => {
    const [, key = '', path = ''] = /^\/([^/]+\/[^/]+)(.*)$/.exec(request.url ?? '') ?? []
    const { backendUrl = '' } = snapshot().models.get(key)?.resource ?? {}
    const { headers } = request
    const forwarded = http.get(`${backendUrl}${path}`, { headers, agent: false })
    forwarded.on('response', (answer) => {
      response.writeHead(answer.statusCode ?? 502, answer.headers)
      answer.pipe(response)
      answer.on('error', () => response.destroy())
    })
    forwarded.on('error', () => response.destroy())
    response.on('close', () => forwarded.destroy())
  })
  return { host: '127.0.0.1', port: await listenLocally(t, server), certFile: undefined }
}

/** A model server that the test scripts, and the requests to it. */
export interface ScriptedServer {
  readonly url: string
  /** Its URL as the address of a gateway. */
  readonly at: GatewayLocation
  readonly asked: { readonly path: string; readonly headers: IncomingHttpHeaders }[]
}

/** Starts one on a free port; it is closed, with all open connections, when `t` ends. */
export async function startScripted(t: Test, answer: RequestListener): Promise<ScriptedServer> {
  const asked: ScriptedServer['asked'] = []
  const server = http.createServer((request, response) => {
    asked.push({ path: request.url ?? '', headers: request.headers })
    answer(request, response)
  })
  const at = { host: '127.0.0.1', port: await listenLocally(t, server), certFile: undefined }
  return { url: `http://${at.host}:${at.port}`, at, asked }
}

/** A server that answers every request with one status and one body. */
export function startAnswering(
  t: Test,
  status: number,
  body: unknown = '',
): Promise<ScriptedServer> {
  return startScripted(t, (_request, response) => {
    response.writeHead(status, { 'content-type': 'application/json' })
    response.end(typeof body === 'string' ? body : JSON.stringify(body))
  })
}

/** OpenAI's list of these ids. */
export function listOf(...ids: readonly string[]): object {
  return {
    object: 'list',
    data: ids.map((id) => ({ id, object: 'model', created: 1_700_000_000 })),
  }
}
