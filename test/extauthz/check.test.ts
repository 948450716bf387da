import { test } from 'tap'
import { type CheckDeps, createCheck } from '../../src/extauthz/check.ts'
import { createLimitEnforcer } from '../../src/extauthz/check-limits.ts'
import { ServiceError } from '../../src/formats/errors.ts'
import { WireError } from '../../src/grpc/wire.ts'
import { createAuthenticator, createKeyVerifier } from '../../src/identity/authenticate.ts'
import type { KeyLookup } from '../../src/keys/store.ts'
import { pathRules } from '../../src/operations/operations.ts'
import type { CounterStore } from '../../src/ratelimit/counters.ts'
import { counterOf } from '../../src/ratelimit/rules/counter-cache.ts'
import type { GrantedRequest } from '../../src/table/table.ts'
import { createTestCounters } from '../support/counters.ts'
import { accessPolicy, modelRef, snapshotOf, subscription } from '../support/documents.ts'
import { checkOf, checkResponse, readDenial } from '../support/envoy-messages.ts'
import { createMemoryApiKeys } from '../support/memory-api-keys.ts'
import { endOf } from '../support/window-ends.ts'

const start = Date.UTC(2026, 0, 1)
const minute = 60_000
const chat = '/llm/small/v1/chat/completions'
const team = { groups: ['team-a'] }
const snapshot = snapshotOf(
  modelRef('small'),
  modelRef('large'),
  modelRef('no-policy'),
  accessPolicy('open', ['llm/small', 'llm/large'], team),
  subscription('basic', team, {
    'llm/small': [
      [100, '1m'],
      [150, '1h'],
    ],
    'llm/large': [[100, '1m']],
    'llm/no-policy': [[100, '1m']],
  }),
  subscription('second', team, { 'llm/small': [[100, '1m']] }),
)

/** A Check with its own stores and a clock that the test sets. */
function createWorld(deps: Partial<CheckDeps> & { keys?: KeyLookup } = {}) {
  const keys = createMemoryApiKeys()
  const counters = createTestCounters()
  const faults: unknown[] = []
  const clock = { now: start }
  const verify = createKeyVerifier(deps.keys ?? keys, { own: 'tg', accepted: new Set(['oai']) })
  const ada = { by: 'token', proof: { by: 'file' }, user: 'ada', groups: ['team-a'] } as const
  const token = (credential: string) => (credential === 'ada-token' ? ada : null)
  const check = createCheck({
    authenticate: createAuthenticator({ key: verify, token }),
    snapshot: () => snapshot,
    limits: createLimitEnforcer({ counters }),
    paths: pathRules(),
    clock: () => clock.now,
    onFault: (error) => faults.push(error),
    ...deps,
  })
  return {
    keys,
    counters,
    faults,
    clock,
    check,
    ask: (path: string, key?: string, headers: Record<string, string> = {}) =>
      check(
        checkOf(path, {
          ...(key === undefined ? {} : { authorization: `Bearer ${key}` }),
          ...headers,
        }),
      ),
    /** Counts tokens of a user as the access log does. */
    use(user: string, model: string, tokens: number) {
      const limits = snapshot.subscriptions.get('basic')?.limits.get(model) ?? []
      counters.add(
        limits.map((limit) => counterOf(limit, user)),
        tokens,
        clock.now,
      )
    },
  }
}

/** HTTP status and code of a response that is returned without a promise; 200 for an allow. */
function told(answer: Buffer | Promise<Buffer>): string {
  if (answer instanceof Promise) throw new Error('the response is a promise')
  if (checkResponse.decode(answer).ok_response) return '200'
  const { http, body } = readDenial(answer)
  return `${http} ${body.error.code}`
}

test('answers synchronously if key and counters are cached', async (t) => {
  const { ask, keys } = createWorld()
  const key = keys.mint()
  const answer = ask(chat, key)
  t.ok(Buffer.isBuffer(answer), 'a Buffer, not a promise')
  t.equal(told(answer), '200')
})

/** A table that records what it is offered. */
function createFakeTable() {
  const admitted: GrantedRequest[] = []
  const table = {
    mark: 7,
    admit(asked: GrantedRequest) {
      admitted.push(asked)
      return asked.rule
    },
  }
  return { table, admitted }
}

/** As the cache of keys answers. */
function trusted(keys: KeyLookup): KeyLookup {
  return {
    findByHash(hash) {
      const found = keys.findByHash(hash)
      if (found instanceof Promise || found === undefined) return found
      return { ...found, trustedUntil: performance.now() + minute }
    },
  }
}

test('what is allowed is offered to the table, with the mark from before', async (t) => {
  const stored = createMemoryApiKeys()
  const key = stored.mint()
  const { table, admitted } = createFakeTable()
  const missed: string[] = []
  const answers: PromiseWithResolvers<void>[] = []
  const keys = trusted(stored)
  const late: KeyLookup = {
    async findByHash(hash) {
      const answer = Promise.withResolvers<void>()
      answers.push(answer)
      await answer.promise
      return keys.findByHash(hash)
    },
  }
  const onMissed = (reason: string) => void missed.push(reason)
  const { ask } = createWorld({ table, keys, onMissed })
  const answer = await ask(chat, key, { 'x-request-id': 'r', 'x-tollgate-miss': 'unknown' })
  t.match(admitted[0], { mark: 7, rule: undefined, path: chat, credential: key, now: start })
  t.match(admitted[0], { bodyModel: undefined, dialect: 'openai', keyHash: /^[0-9a-f]{64}$/ })
  const { endsAt = 0 } = admitted[0] ?? {}
  t.ok(endsAt > start && endsAt <= start + minute, 'no longer than the key is trusted')
  t.match(checkResponse.decode(answer).dynamic_metadata, {
    fields: { lane: { stringValue: /^[0-9a-f]{16}$/ } },
  })

  const slow = createWorld({ table, keys: late, onMissed }).ask(chat, key)
  table.mark = 8
  answers[0]?.resolve()
  await slow
  t.equal(admitted[1]?.mark, 7, 'something was withdrawn while the key was looked up')

  await ask('/llm/small/v1/models', key, { 'x-tollgate-miss': 'unknown' })
  await ask(chat, 'nonsense', { 'x-tollgate-miss': 'what a client may write' })
  t.strictSame(missed, ['unknown', 'none', 'operation', 'other'])
  t.equal(admitted.length, 3, 'no refusal')
})

test('the authentication stage denies callers without a valid API key', async (t) => {
  const decisions: string[] = []
  const { keys, check } = createWorld({
    onDecided: (decision) => decisions.push(decision.allowed ? 'allowed' : decision.code),
  })
  const admit = (credential: string) =>
    check(
      checkOf(
        '/v1/chat/completions',
        { authorization: `Bearer ${credential}` },
        { context_extensions: { stage: 'authenticate' } },
      ),
    ) as Buffer
  const { status, ok_response, dynamic_metadata } = checkResponse.decode(admit(keys.mint()))
  t.ok(ok_response)
  t.notOk((status as { code: number }).code)
  t.notOk(dynamic_metadata, 'no metadata, so nothing is logged')
  t.equal(told(admit('nonsense')), '401 credential_invalid')
  t.equal(told(admit('ada-token')), '401 credential_invalid', 'identity tokens as well')
  t.strictSame(decisions, ['credential_invalid', 'credential_invalid'])
})

test('reports each decision once', async (t) => {
  const decisions: string[] = []
  const { ask, keys, use } = createWorld({
    onDecided: (decision) => decisions.push(decision.allowed ? 'allowed' : decision.code),
  })
  const key = keys.mint()
  ask(chat, key)
  ask(chat)
  ask('/nowhere')
  use('ada', 'llm/small', 1_000_000)
  ask(chat, key)
  t.strictSame(decisions, ['allowed', 'credential_invalid', 'not_found', 'token_limit_exceeded'])
})

test('reports internal and store errors as decisions', async (t) => {
  const decisions: unknown[] = []
  const onDecided = (decision: unknown) => decisions.push(decision)
  const atOnce = createWorld({
    onDecided,
    snapshot() {
      throw new Error('no snapshot')
    },
  })
  t.equal(told(atOnce.ask(chat, atOnce.keys.mint())), '500 internal')
  const later = createWorld({
    onDecided,
    authenticate: () => Promise.reject(new ServiceError('store_unavailable')),
  })
  t.equal(told(await later.ask(chat)), '503 store_unavailable')
  t.match(decisions, [{ code: 'internal' }, { code: 'store_unavailable' }])
  t.equal(decisions.length, 2)
})

test('invalid credentials are 401', async (t) => {
  const { ask, check, keys } = createWorld()
  const key = keys.mint()
  const broken = key.slice(0, -1) + (key.endsWith('0') ? '1' : '0')
  for (const [title, answer] of [
    ['none', ask(chat)],
    ['unknown', ask(chat, 'sk-oai-a_b')],
    ['mistyped', ask(chat, broken)],
    ['another scheme', check(checkOf(chat, { authorization: `Basic ${key}` }))],
    ['no scheme', check(checkOf(chat, { authorization: key }))],
    ['empty', check(checkOf(chat, { authorization: 'Bearer ' }))],
    ['two credentials', check(checkOf(chat, { authorization: `Bearer ${key},Bearer ${key}x` }))],
    ['another header', check(checkOf(chat, { Authorization: `Bearer ${key}` }))],
    ['a token as a key', check(checkOf('/llm/small/v1/models', { 'x-api-key': 'ada-token' }))],
    [
      'two that differ',
      check(checkOf(chat, { 'x-api-key': keys.mint(), authorization: `Bearer ${key}` })),
    ],
    ['revoked', ask(chat, keys.mint({ status: 'revoked' }))],
    ['expired', ask(chat, keys.mint({ expiresAt: start }))],
    ['unknown token', ask('/llm/small/v1/models', 'bob-token')],
    ['token on inference', ask(chat, 'ada-token')],
  ] as const) {
    t.equal(told(answer), '401 credential_invalid', title)
  }
  t.equal(
    told(check(checkOf(chat, { authorization: `bearer  ${key} ` }))),
    '200',
    'the scheme is case-insensitive',
  )
  t.equal(
    told(check(checkOf(chat, { 'x-api-key': key }))),
    '200',
    'the header of Anthropic clients',
  )
})

test('a mistyped key is not looked up in the store', async (t) => {
  const { ask, keys } = createWorld()
  ask(chat, `${keys.mint()}x`)
  t.strictSame(keys.asked, [])
})

test('a key expires at the exact millisecond', async (t) => {
  const { ask, clock, keys } = createWorld()
  const key = keys.mint({ expiresAt: start + 1_000 })
  clock.now = start + 999
  t.equal(told(ask(chat, key)), '200')
  clock.now = start + 1_000
  t.equal(told(ask(chat, key)), '401 credential_invalid')
})

test('a revocation takes effect at the next request', async (t) => {
  const { ask, keys } = createWorld()
  const key = keys.mint()
  t.equal(told(ask(chat, key)), '200')
  for (const [hash, record] of keys.records)
    keys.records.set(hash, { ...record, status: 'revoked' })
  t.equal(told(ask(chat, key)), '401 credential_invalid')
})

test('unknown and forbidden models get identical responses', async (t) => {
  const { ask, keys } = createWorld()
  const key = keys.mint()
  // Only the name that was asked for differs.
  const eve = keys.mint({ groups: [], user: 'eve' })
  for (const [path, asking, model] of [
    ['/llm/no-policy/v1/chat/completions', key, 'llm/no-policy'],
    ['/none/small/v1/models', key, 'none/small'],
    [chat, eve, 'llm/small'],
  ] as const) {
    const unknown = `${model.slice(0, -1)}_`
    const answer = ask(path, asking) as Buffer
    const other = ask(path.replace(model, unknown), asking) as Buffer
    t.equal(answer.toString('latin1'), other.toString('latin1').replace(unknown, model), path)
    t.equal(told(answer), '403 model_not_allowed')
  }
  const shared = (model: string) =>
    (ask('/v1/chat/completions', key, { 'x-tollgate-model': model }) as Buffer).toString('latin1')
  t.equal(shared('no-policy'), shared('na-policy').replace('na-policy', 'no-policy'))
})

test('a path without a model is 404', async (t) => {
  const { ask, keys } = createWorld()
  const key = keys.mint()
  for (const path of [
    '',
    '/',
    '/x',
    '/llm/small',
    '/llm/small/x',
    '/llm/small/v1/chat/completions/',
    '/llm/small/v1//chat/completions',
  ]) {
    t.equal(told(ask(path, key)), '404 not_found', path)
  }
})

test('on shared paths the body names the model', async (t) => {
  const { ask, keys } = createWorld()
  const key = keys.mint()
  t.equal(told(ask('/v1/chat/completions', key)), '400 invalid_body')
  const headers = { 'x-tollgate-model': 'small', 'x-request-id': 'a' }
  const answer = checkResponse.decode(ask('/v1/chat/completions', key, headers) as Buffer)
  t.match(answer, {
    dynamic_metadata: { fields: { line: { stringValue: /"model":"llm\/small"/ } } },
  })
})

test('forged headers have no effect', async (t) => {
  const { ask, keys } = createWorld()
  const key = keys.mint()
  const forged = {
    'x-maas-subscription': 'second',
    'x-maas-username': 'root',
    'x-maas-group': '["admins"]',
    'x-tollgate-model': 'large',
    'x-tollgate-cluster': 'evil',
  }
  t.ok((ask(chat, key, forged) as Buffer).equals(ask(chat, key) as Buffer))
})

test('for a token the last x-maas-subscription value applies', async (t) => {
  const { ask } = createWorld()
  const list = (value: string) =>
    ask('/llm/small/v1/models', 'ada-token', { 'x-maas-subscription': value })
  for (const [value, expected] of [
    ['basic', '200'],
    [' second ', '200'],
    ['none,basic', '200'],
    ['none, basic , ,', '200'],
    ['basic,none', '403 subscription_not_allowed'],
    ['', '403 subscription_not_allowed'],
    [' , ', '403 subscription_not_allowed'],
  ] as const) {
    t.equal(told(list(value)), expected, JSON.stringify(value))
  }
  const blank = readDenial(list(' ') as Buffer)
  t.equal(
    blank.headers['x-ext-auth-reason'],
    'multiple_subscriptions',
    'a blank value counts as missing',
  )
})

test('a reached limit denies until its window ends', async (t) => {
  const { ask, clock, keys, use } = createWorld()
  const key = keys.mint()
  for (let answer = 0; answer < 3; answer += 1) {
    t.equal(told(ask(chat, key)), '200')
    use('ada', 'llm/small', 40)
  }
  t.equal(told(ask(chat, key)), '429 rate_limit_exceeded')
  t.equal(told(ask('/llm/large/v1/chat/completions', key)), '200', 'another model')
  t.equal(told(ask(chat, keys.mint({ user: 'bob' }))), '200', 'another user')
  t.equal(told(ask(chat, keys.mint())), '429 rate_limit_exceeded', 'another key of the same user')
  t.equal(told(ask(chat, keys.mint({ subscription: 'second' }))), '200', 'another subscription')
  t.equal(
    told(ask('/llm/small/v1/completions', key)),
    '429 rate_limit_exceeded',
    'every operation of the model',
  )
  t.equal(told(ask('/llm/small/v1/models', key)), '200', 'except listing models')
  const end = endOf('1m', 'ada', start)
  clock.now = end - 1
  t.equal(told(ask(chat, key)), '429 rate_limit_exceeded')
  clock.now = end
  t.equal(told(ask(chat, key)), '200')
  use('ada', 'llm/small', 40)
  t.equal(told(ask(chat, key)), '429 rate_limit_exceeded', 'the limit per hour is reached')
})

test('retry-after is at most the window', async (t) => {
  const { ask, clock, keys, use } = createWorld()
  const key = keys.mint()
  const begin = endOf('1m', 'ada', start)
  clock.now = begin + 30_000
  use('ada', 'llm/small', 100)
  for (const [afterMs, expected] of [
    [0, '60'],
    [1, '60'],
    [1_000, '59'],
    [59_000, '1'],
    [59_999, '1'],
  ] as const) {
    clock.now = begin + afterMs
    t.equal(
      readDenial(ask(chat, key) as Buffer).headers['retry-after'],
      expected,
      `${afterMs} ms later`,
    )
  }
  clock.now = begin - 1
  t.equal(told(ask(chat, key)), '200', 'a clock that was set back is in an earlier window')
})

test('waits for keys and counters that are not cached', async (t) => {
  const known = createMemoryApiKeys()
  const keys: KeyLookup = { findByHash: async (hash) => known.findByHash(hash) }
  const memory = createTestCounters()
  const { ask } = createWorld({
    keys,
    limits: createLimitEnforcer({ counters: { read: async (...asked) => memory.read(...asked) } }),
  })
  const answer = ask(chat, known.mint())
  t.ok(answer instanceof Promise)
  t.equal(told(await answer), '200')
  t.equal(told(await ask(chat, 'sk-oai-a_b')), '401 credential_invalid')
})

test('a reached limit denies if counters are read asynchronously', async (t) => {
  const memory = createTestCounters()
  const counters: CounterStore = { read: async (...asked) => memory.read(...asked) }
  for (const [used, expected] of [
    [99, '200'],
    [100, '429 rate_limit_exceeded'],
  ] as const) {
    const { ask, keys, clock } = createWorld({ limits: createLimitEnforcer({ counters }) })
    const user = `user-${used}`
    const limits = snapshot.subscriptions.get('basic')?.limits.get('llm/small') ?? []
    memory.add(
      limits.map((limit) => counterOf(limit, user)),
      used,
      clock.now,
    )
    const key = keys.mint({ user })
    const answer = ask(chat, key)
    t.ok(answer instanceof Promise)
    t.equal(told(await answer), expected)
    if (used === 100) {
      const waitS = Math.ceil((endOf('1m', user, start) - start) / 1_000)
      t.match(readDenial(await ask(chat, key)), {
        http: 429,
        headers: { 'retry-after': String(waitS), 'x-ratelimit-remaining-tokens': '0' },
      })
    }
  }
})

test('an unavailable store is 503, never an allow', async (t) => {
  const cause = new Error('connect ECONNREFUSED 10.0.0.7')
  const unavailable = (): never => {
    throw new ServiceError('store_unavailable', { cause })
  }
  const key = createMemoryApiKeys().mint()
  const known = createMemoryApiKeys()
  for (const [title, deps, credential] of [
    ['keys, at once', { keys: { findByHash: unavailable } }, key],
    ['keys, later', { keys: { findByHash: async () => unavailable() } }, key],
    [
      'counters, at once',
      { keys: known, limits: createLimitEnforcer({ counters: { read: unavailable } }) },
      known.mint(),
    ],
    [
      'counters, later',
      {
        keys: known,
        limits: createLimitEnforcer({ counters: { read: async () => unavailable() } }),
      },
      known.mint(),
    ],
  ] as const) {
    const { ask, faults } = createWorld(deps)
    const answer = await ask(chat, credential)
    t.match(readDenial(answer), { http: 503, headers: { 'retry-after': /^\d+$/ } }, title)
    t.notMatch(answer.toString('latin1'), '10.0.0.7', 'the cause is only logged')
    t.match(faults, [{ cause }])
  }
})

test('responses based on cached keys give their age', async (t) => {
  let age: { ageMs?: number } = {}
  const known = createMemoryApiKeys()
  const atOnce: KeyLookup = {
    findByHash(hash) {
      const found = known.records.get(hash)
      return found && { ...found, ...age }
    },
  }
  const late: KeyLookup = { findByHash: async (hash) => atOnce.findByHash(hash) }
  for (const keys of [atOnce, late]) {
    age = { ageMs: 61_000 }
    const { ask } = createWorld({ keys })
    const key = known.mint()
    const ageOf = async (path: string, credential?: string) =>
      /x-tollgate-key-age\W+(\d+)/.exec((await ask(path, credential)).toString('latin1'))?.[1]
    t.equal(await ageOf(chat, key), '61')
    t.equal(await ageOf('/llm/nothing/v1/chat/completions', key), '61', 'also on denials')
    t.equal(await ageOf(chat), undefined, 'not without a key')
    t.equal(await ageOf('/llm/small/v1/models', 'ada-token'), undefined)
    age = {}
    t.equal(await ageOf(chat, key), undefined, 'not while the store is available')
  }
})

test('a response says when a key ends, if that is soon', async (t) => {
  const { ask, keys, clock, use } = createWorld()
  const key = keys.mint({ createdAt: start, expiresAt: start + 10 * minute })
  const forever = keys.mint({ createdAt: start, expiresAt: null })
  const endOf = async (credential: string, path = chat) =>
    /x-tollgate-key-expires\W+(2[-:TZ\d]+)/.exec(
      (await ask(path, credential)).toString('latin1'),
    )?.[1]
  t.equal(await endOf(key), undefined)
  clock.now = start + 9 * minute
  t.equal(await endOf(key), '2026-01-01T00:10:00Z')
  t.equal(await endOf(key, '/llm/nothing/v1/chat/completions'), '2026-01-01T00:10:00Z')
  use('ada', 'llm/small', 200)
  t.equal(await endOf(key), '2026-01-01T00:10:00Z', 'also on a used-up limit')
  t.equal(await endOf(forever), undefined)
  clock.now = start + 10 * minute
  t.equal(await endOf(key), undefined, 'it has ended')
})

test('keys with limits of their own share a template, and each has its own counters', async (t) => {
  const { ask, keys } = createWorld()
  const one = (limit: number) => ({ caps: { tokenRateLimits: [{ limit, window: '1m' }] } })
  const minted = [
    keys.mint({ id: 'a', ...one(10) }),
    keys.mint({ id: 'b', ...one(20) }),
    keys.mint(),
  ]
  const told = await Promise.all(
    minted.map(async (key) => (await ask(chat, key, { 'x-request-id': 'r' })).toString('latin1')),
  )
  const capOf = (answer: string) => /"cap":"([ab] \d+)"/.exec(answer)?.[1]
  t.strictSame(told.map(capOf), ['a 60000', 'b 60000', undefined])
  t.match(told[0], /"1m";q=100;w=60;qu="tokens", "1h";q=150;w=3600;qu="tokens", "key-1m";q=10;w=60/)
  t.match(told[1], /"key-1m";q=20;w=60/)
  t.notMatch(told[2], /key-1m/)
})

test('concurrent requests each give the age of their own key', async (t) => {
  const known = createMemoryApiKeys()
  const old = known.mint({ id: 'old' })
  const fresh = known.mint({ id: 'fresh' })
  const keys: KeyLookup = {
    findByHash(hash) {
      const found = known.records.get(hash)
      return found?.id === 'old' ? { ...found, ageMs: 61_000 } : found
    },
  }
  const gate = Promise.withResolvers<void>()
  const counters: CounterStore = {
    async read(wanted) {
      await gate.promise
      return wanted.map(() => ({ used: 0, resetsAt: start + minute }))
    },
  }
  const { ask } = createWorld({ keys, limits: createLimitEnforcer({ counters }) })
  const answers = [ask(chat, old), ask(chat, fresh), ask(chat, old)]
  gate.resolve()
  const ages = (await Promise.all(answers)).map(
    (answer) => /x-tollgate-key-age\W+(\d+)/.exec(answer.toString('latin1'))?.[1],
  )
  t.strictSame(ages, ['61', undefined, '61'])
})

test('an internal error is 500, never an allow', async (t) => {
  const fault = new TypeError('secret detail')
  const unavailable = (): never => {
    throw fault
  }
  const known = createMemoryApiKeys()
  for (const deps of [
    { keys: { findByHash: unavailable } },
    { keys: { findByHash: async () => unavailable() } },
    { keys: known, snapshot: unavailable },
    { keys: known, limits: createLimitEnforcer({ counters: { read: async () => unavailable() } }) },
  ]) {
    const { ask, faults } = createWorld(deps)
    const answer = await ask(chat, known.mint())
    t.match(readDenial(answer), { http: 500, body: { error: { code: 'internal' } } })
    t.notMatch(answer.toString('latin1'), 'secret')
    t.strictSame(faults, [fault])
  }
})

test('throws a WireError for invalid bytes', async (t) => {
  const { check, faults } = createWorld()
  t.throws(() => check(Buffer.from('ff', 'hex')), WireError)
  t.equal(told(check(Buffer.alloc(0))), '404 not_found', 'an empty message has no path')
  t.strictSame(faults, [])
})

test('cached requests create no promises', async (t) => {
  const { ask, keys } = createWorld()
  const key = keys.mint()
  for (let round = 0; round < 1_000; round += 1) {
    if (!Buffer.isBuffer(ask(chat, key))) t.fail('a promise')
  }
})

test('reports a denial with its details', async (t) => {
  const told: object[] = []
  const { keys, check } = createWorld({
    onRefused: ({ source, ...refused }) => told.push({ ...refused, address: source() }),
  })
  const key = keys.mint()
  const traceparent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00'
  const headers = { authorization: `Bearer ${key}`, 'x-request-id': 'request-1' }
  check(checkOf(chat, headers), traceparent)
  t.strictSame(told, [], 'an allow is not reported')
  check(checkOf('/llm/no-policy/v1/chat/completions', headers), traceparent)
  check(checkOf(chat, { authorization: 'Bearer sk-tg-none' }))
  check(checkOf('/llm/nowhere/v1/chat/completions', headers))
  check(checkOf(chat, {}))
  t.match(told, [
    {
      code: 'model_not_allowed',
      reason: 'no AccessPolicy opens the model to the caller',
      caller: { by: 'key', user: String, keyId: String, subscription: 'basic' },
      model: 'llm/no-policy',
      requestId: 'request-1',
      traceparent,
    },
    {
      code: 'credential_invalid',
      reason: 'unknown credential',
      caller: null,
      model: 'llm/small',
      requestId: undefined,
    },
    { code: 'model_not_allowed', reason: 'no such model', model: 'llm/nowhere' },
    { code: 'credential_invalid', reason: 'no credential', caller: null },
  ])
  t.equal(told.length, 4)
})
