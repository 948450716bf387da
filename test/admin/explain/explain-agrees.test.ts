import Fastify from 'fastify'
import { test } from 'tap'
import type { ExternalDeps } from '../../../src/admin/deps.ts'
import { explainRequests } from '../../../src/admin/explain/explain.ts'
import { auditRoutes } from '../../../src/admin/http/audit.ts'
import { noTrail } from '../../../src/audit/trail.ts'
import { noPolicies } from '../../../src/cluster/rules/policies.ts'
import { createCheck } from '../../../src/extauthz/check.ts'
import { createLimitEnforcer } from '../../../src/extauthz/check-limits.ts'
import { createRefusalMemory } from '../../../src/extauthz/refusal-memory.ts'
import { createAuthenticator, createKeyVerifier } from '../../../src/identity/authenticate.ts'
import type { Caller } from '../../../src/identity/rules/caller.ts'
import type { ApiKeyRecord } from '../../../src/keys/rules/api-key.ts'
import { compileCaps, keyCountersOf } from '../../../src/keys/rules/compiled-caps.ts'
import type { KeyCaps } from '../../../src/keys/rules/key-caps.ts'
import type { ApiKeyStore } from '../../../src/keys/store.ts'
import { pathRules } from '../../../src/operations/operations.ts'
import { createActiveIncreases } from '../../../src/ratelimit/increases/active-increases.ts'
import { counterOf } from '../../../src/ratelimit/rules/counter-cache.ts'
import { createTestCounters } from '../../support/counters.ts'
import { accessPolicy, modelRef, snapshotOf, subscription } from '../../support/documents.ts'
import { checkOf, checkResponse, readDenial } from '../../support/envoy-messages.ts'
import { awayIncreases } from '../../support/list-api.ts'
import { createMemoryApiKeys } from '../../support/memory-api-keys.ts'
import { noOtherProcess } from '../../support/no-other-process.ts'
import { createRandom, type Random } from '../../support/random.ts'

const worlds = 200
const asksPerWorld = 10
const groups = ['a', 'b', 'c']
const models = ['llm/one', 'llm/two', 'east/one', 'east/three']
const names = ['one', 'two', 'three', 'org/alias']
const operations = [
  ...Array.from({ length: 8 }, () => '/v1/chat/completions'),
  '/v1/embeddings',
  '/v1/models',
  '/v1/files',
  '/v1/nothing',
  '/v1/chat/completions/',
]

const pick = <Value>(random: Random, values: readonly Value[]): Value =>
  values[random.below(values.length)] as Value
const some = <Value>(random: Random, values: readonly Value[]): readonly Value[] =>
  values.filter(() => random.below(3) > 0)

/** Models, policies and subscriptions that fit together by chance. */
function createWorld(random: Random) {
  const written = models.map((key) => {
    const [namespace, name] = key.split('/') as [string, string]
    const gone = random.below(4) === 0
    const alias = random.below(3) === 0 ? { modelIds: ['org/alias'] } : {}
    return modelRef(name, gone ? { backendUrl: undefined } : alias, namespace)
  })
  const policies = [0, 1, 2].map((i) => {
    const named = some(random, models)
    const subjects = { groups: some(random, groups), users: some(random, ['ada']) }
    const nobody = subjects.groups.length + subjects.users.length === 0
    return accessPolicy(
      `policy-${i}`,
      named.length > 0 ? named : ['llm/one'],
      nobody ? { users: ['eve'] } : subjects,
    )
  })
  const subscriptions = [0, 1, 2].map((i) => {
    const named = some(random, models)
    const rates = [[100, '1m'] as const, [1_000, '1h'] as const].slice(0, 1 + random.below(2))
    return subscription(
      `subscription-${i}`,
      { groups: some(random, groups), users: ['ada'] },
      Object.fromEntries((named.length > 0 ? named : ['llm/one']).map((key) => [key, rates])),
      { deleting: random.below(6) === 0 },
    )
  })
  return snapshotOf(...written, ...policies, ...subscriptions)
}

function randomCaps(random: Random): KeyCaps {
  const [namespace = '', name = ''] = pick(random, models).split('/')
  return pick(random, [
    {},
    {},
    { models: [{ namespace, name }] },
    { tokenRateLimits: [{ limit: 100, window: '1m' }] },
  ])
}

test('explain agrees with Check in random worlds', async (t) => {
  const random = createRandom()
  t.comment(`SEED=${random.seed}`)
  const outcomes = new Map<string, number>()
  const counters = createTestCounters()
  const limits = createLimitEnforcer({ counters })
  const pastRefusals = createRefusalMemory()
  const byId = new Map<string, ApiKeyRecord>()
  let snapshot = snapshotOf()
  let now = Date.UTC(2026, 0, 1)
  const clock = () => now
  const admin: Caller = { by: 'token', proof: { by: 'file' }, user: 'admin', groups: [] }
  // To build one takes as long as a hundred questions.
  const apps = (['open', 'closed'] as const).map((others) => {
    const paths = pathRules(['chat', 'embeddings'], others)
    const app = Fastify({ ajv: { customOptions: { useDefaults: false } } })
    t.teardown(() => app.close())
    auditRoutes(app, noTrail)
    app.decorateRequest('caller', null)
    app.addHook('onRequest', async (request) => {
      request.caller = admin
    })
    /** What the route takes. */
    const deps: Partial<ExternalDeps> = {
      keys: { findById: async (id: string) => byId.get(id) } as unknown as ApiKeyStore,
      isAdmin: () => true,
      keyReach: 'owner',
      snapshot: () => snapshot,
      readCounters: async (asked, at) => counters.read(asked, at),
      limits,
      increases: createActiveIncreases(awayIncreases, clock),
      paths,
      clock,
      pastRefusals,
      othersRefusals: noOtherProcess,
      resourceProblems: () => [],
      enforcement: async () => ({ snapshot, policies: noPolicies, reports: [] }),
      billingCurrency: 'EUR',
      tableCondition: () => 'off',
      locate: (resource) => ({ file: `${resource}.yaml`, line: 7 }),
    }
    explainRequests(app, deps as ExternalDeps)
    return { app, paths }
  })
  for (let world = 0; world < worlds; world += 1) {
    // In windows that nothing has used.
    now += 7_200_000
    snapshot = createWorld(random)
    const keys = createMemoryApiKeys()
    for (const { limits } of snapshot.subscriptions.values()) {
      for (const limit of [...limits.values()].flat()) {
        const used = random.below(3) === 0 ? random.below(1_500) : 0
        if (used > 0) counters.add([counterOf(limit, 'ada')], used, now)
      }
    }
    const { app, paths } = pick(random, apps)
    const markers = { own: 'tg', accepted: new Set<string>() }
    const check = createCheck({
      authenticate: createAuthenticator({
        key: createKeyVerifier(keys, markers),
        token: () => null,
      }),
      snapshot: () => snapshot,
      limits,
      paths,
      clock,
      onRefused: pastRefusals.note,
      onFault: (error) => t.fail(String(error)),
    })
    for (let asked = 0; asked < asksPerWorld; asked += 1) {
      const key = keys.mint({
        user: pick(random, ['ada', 'bob']),
        groups: some(random, groups),
        subscription: `subscription-${random.below(4)}`,
        ...(random.below(10) === 0 && { status: 'revoked' as const }),
        ...(random.below(10) === 0 && { expiresAt: now }),
        caps: randomCaps(random),
      })
      const record = [...keys.records.values()].at(-1) as ApiKeyRecord
      const { counted } = compileCaps(record)?.limitsOn?.(undefined, {}) ?? {}
      counters.add(keyCountersOf(counted, record.subscription, record.user), random.below(150), now)
      byId.set(record.id, record)
      const shared = random.below(3) === 0
      const named = random.below(5) > 0 ? pick(random, models) : `west/${pick(random, names)}`
      const prefix = shared ? '' : `/${named}`
      const path = `${prefix}${pick(random, operations)}`
      const model = shared && random.below(5) > 0 ? pick(random, names) : undefined
      const method = pick(random, ['POST', 'POST', 'POST', 'POST', 'GET'])
      const requestId = `request-${world}-${asked}`
      const bytes = (await check(
        checkOf(
          path,
          {
            authorization: `Bearer ${key}`,
            'x-request-id': requestId,
            ...(model !== undefined && { 'x-tollgate-model': model }),
          },
          { method },
        ),
      )) as Buffer
      const explained = await app.inject({
        method: 'POST',
        url: '/v1/explain',
        payload: { keyId: record.id, path, method, ...(model !== undefined && { model }) },
      })
      const answer = explained.json()
      const { ok_response: ok } = checkResponse.decode(bytes) as { ok_response?: unknown }
      const about = `${method} ${path} ${model}: ${explained.body}`
      const opens = answer.policies?.some((each: { opens: boolean }) => each.opens)
      const outcome = answer.allowed ? 'allowed' : answer.steps?.at(-1).step
      outcomes.set(outcome, (outcomes.get(outcome) ?? 0) + 1)
      const failed = answer.steps?.filter((each: { passed: boolean }) => !each.passed)
      const { statusCode } = explained
      // One assertion each: a test spends more time on an assertion than on an answer.
      if (ok) {
        const paying = answer.subscriptions?.filter((each: { pays: boolean }) => each.pays)
        const payers = paying?.map((each: { name: string }) => each.name)
        t.strictSame(
          { statusCode, allowed: answer.allowed, opens, failed, payers },
          {
            statusCode: 200,
            allowed: true,
            opens: true,
            failed: [],
            payers: [record.subscription],
          },
          about,
        )
      } else {
        const { http, body } = readDenial(bytes)
        const { code, message } = body.error
        const payload = { requestId }
        const asked = await app.inject({ method: 'POST', url: '/v1/explain', payload })
        const past = asked.json()
        const access = answer.steps?.find((each: { step: string }) => each.step === 'access')
        const { allowed, status, code: ownCode, message: ownMessage } = answer
        t.strictSame(
          {
            ...{ statusCode, allowed, status, code: ownCode, message: ownMessage, failed },
            ...(access && { opens }),
            past: [asked.statusCode, past.refusal?.status, past.refusal?.message, past.steps],
          },
          {
            ...{ statusCode: 200, allowed: false, status: http, code, message },
            failed: [answer.steps?.at(-1)],
            ...(access && { opens: access.passed }),
            past: [200, http, message, answer.steps],
          },
          about,
        )
      }
    }
  }
  t.comment(Object.fromEntries(outcomes))
  const steps = ['credential', 'path', 'model', 'access', 'operation', 'subscription', 'backend']
  for (const outcome of [...steps, 'limits', 'allowed']) {
    t.ok((outcomes.get(outcome) ?? 0) >= 10, `${outcome}: ${outcomes.get(outcome)}`)
  }
})
