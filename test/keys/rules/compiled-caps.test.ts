import { test } from 'tap'
import type { AccessRequest } from '../../../src/decide/access-request.ts'
import { type StepName, traceDecision } from '../../../src/decide/decide.ts'
import type { Decision, Grant } from '../../../src/decide/decision.ts'
import { explain } from '../../../src/decide/explain.ts'
import { denialMessage } from '../../../src/decide/refusal-message.ts'
import { createLimitEnforcer } from '../../../src/extauthz/check-limits.ts'
import type { KeyCaller } from '../../../src/identity/rules/caller.ts'
import { compileCaps, keyCountersOf } from '../../../src/keys/rules/compiled-caps.ts'
import type { KeyCaps } from '../../../src/keys/rules/key-caps.ts'
import { pathRules } from '../../../src/operations/operations.ts'
import { parseTarget, type RequestTarget } from '../../../src/operations/request-target.ts'
import { hashTags } from '../../../src/ratelimit/redis/keys.ts'
import { counterOf } from '../../../src/ratelimit/rules/counter-cache.ts'
import { formatSubject } from '../../../src/usage/rules/line-head.ts'
import { createTestCounters } from '../../support/counters.ts'
import { accessPolicy, modelRef, snapshotOf, subscription } from '../../support/documents.ts'
import { readHead, writeLineHead } from '../../support/line-head.ts'
import { endOf } from '../../support/window-ends.ts'

const now = Date.UTC(2026, 0, 1)
const team = { groups: ['team-a'] }
const chat = (model: string) => `/llm/${model}/v1/chat/completions`
const snapshot = snapshotOf(
  modelRef('small'),
  modelRef('large'),
  modelRef('closed'),
  modelRef('twin', {}, 'east'),
  modelRef('twin', {}, 'west'),
  accessPolicy('open', ['llm/small', 'llm/large', 'east/twin', 'west/twin'], team),
  subscription('basic', team, {
    'llm/small': [[100, '1m']],
    'llm/large': [[100, '1m']],
    'east/twin': [[100, '1m']],
    'west/twin': [[100, '1m']],
  }),
)

function keyWith(caps: KeyCaps): KeyCaller {
  const compiled = compileCaps({ id: 'id-1', user: 'ada', subscription: 'basic', caps })
  return {
    ...({
      by: 'key',
      user: 'ada',
      groups: ['team-a'],
      keyId: 'id-1',
      subscription: 'basic',
    } as const),
    ...(compiled && { caps: compiled }),
  }
}

/** Decides with counters that stay; returns the steps too. */
function createWorld(of = snapshot) {
  const counters = createTestCounters()
  const steps: StepName[] = []
  return {
    counters,
    steps,
    ask(path: string, caller: KeyCaller, more: Partial<AccessRequest> = {}): Decision {
      steps.length = 0
      const target = parseTarget(path) as RequestTarget
      const method = target.operation === '/v1/models' ? 'GET' : 'POST'
      const request = {
        ...{ caller, target, method, bodyModel: undefined, requestedSubscription: undefined },
        ...more,
      }
      const traced = traceDecision(request, of, pathRules())
      const granted = traced.decision
      const decision = granted.allowed
        ? (createLimitEnforcer({ counters })(granted, request, now) as Decision)
        : granted
      steps.push(...explain(request, traced, decision, of).steps)
      return decision
    },
  }
}

const small = { namespace: 'llm', name: 'small' }
const models = {
  models: [small, { namespace: 'west', name: 'twin' }],
}

test('a key without caps has none of their steps', async (t) => {
  const { ask, steps } = createWorld()
  t.equal(compileCaps({ id: 'a', user: 'u', subscription: 'b', caps: {} }), undefined)
  t.ok(ask('/llm/small/v1/chat/completions', keyWith({}), { address: null }).allowed)
  t.notOk(steps.includes('address') || steps.includes('cap'))
})

test('only the models of the key pass, by path and by body', async (t) => {
  const { ask, steps } = createWorld()
  const key = keyWith(models)
  t.ok(ask('/llm/small/v1/chat/completions', key).allowed)
  t.ok(steps.includes('cap'))
  for (const refused of [
    ask('/llm/large/v1/chat/completions', key),
    ask('/v1/chat/completions', key, { bodyModel: 'large' }),
  ]) {
    t.match(refused, { code: 'model_not_allowed', detail: { about: 'key_models' } })
    t.equal(steps.at(-1), 'cap', 'the step that refused')
    if (!refused.allowed)
      t.match(
        denialMessage(refused, now),
        /^The API key may not call the model "(llm\/)?large", which is not among its models/,
      )
  }
  t.match(ask('/llm/large/v1/models', key), { code: 'model_not_allowed' }, 'lists too')
  t.match(ask('/llm/closed/v1/chat/completions', key), {
    code: 'model_not_allowed',
    detail: { about: 'model' },
  })
  t.match(
    ask('/llm/nothing/v1/chat/completions', key),
    { detail: { about: 'model' } },
    'closed and unknown stay one answer',
  )
  const twin = ask('/v1/chat/completions', key, { bodyModel: 'twin' })
  t.match(twin, { allowed: true, model: { key: 'west/twin' } }, 'a name means the model of the key')
})

test('the address is checked, and fails closed', async (t) => {
  const { ask, steps } = createWorld()
  const key = keyWith({ allowedAddresses: ['192.0.2.0/24', '2001:db8::/32'] })
  const from = (address: string | undefined, path = '/llm/small/v1/chat/completions') =>
    ask(path, key, { address: address ?? null })
  t.ok(from('192.0.2.9').allowed)
  t.ok(from('2001:db8::9').allowed)
  const refused = from('198.51.100.1')
  t.match(refused, { code: 'address_not_allowed' })
  t.strictSame(steps, ['credential', 'address'], 'before anything is said about the model')
  if (!refused.allowed) t.match(denialMessage(refused, now), /may not be used from "198.51.100.1"/)
  t.match(from(undefined), { code: 'address_not_allowed' }, 'a client without an address')
  t.match(from('nonsense'), { code: 'address_not_allowed' })
  const list = (address: string) =>
    ask('/llm/small/v1/models', key, { method: 'GET', address: address ?? null })
  t.ok(list('192.0.2.9').allowed)
  t.match(list('198.51.100.1'), { code: 'address_not_allowed' }, 'of a list too')
  t.ok(ask('/llm/small/v1/chat/completions', key).allowed, 'unless nobody gives an address')
})

test('limits of the key hold beside those of the user, over all models', async (t) => {
  const { ask, counters } = createWorld()
  const key = keyWith({
    tokenRateLimits: [
      { limit: 60, window: '1m' },
      { limit: 70, window: '1h' },
    ],
  })
  const use = (path: string, tokens: number) => {
    const grant = ask(path, key)
    if (!grant.allowed) throw new Error(grant.code)
    const [, model = ''] = /^\/(llm\/\w+)/.exec(path) ?? []
    const own = snapshot.subscriptions.get('basic')?.limits.get(model) ?? []
    const hit = [
      ...own.map((limit) => counterOf(limit, 'ada')),
      ...keyCountersOf(grant.keyLimits?.counted, 'basic', 'ada'),
    ]
    t.strictSame(
      hit.map(({ key }) => key),
      grant.limits.map((limit) => counterOf(limit, 'ada').key),
      'what is read is what is counted',
    )
    t.equal(
      new Set(hit.map((each) => hashTags(true).tagOf(each.key))).size,
      1,
      'on one node of a Cluster',
    )
    counters.add(hit, tokens, now)
  }
  use('/llm/small/v1/chat/completions', 40)
  use('/llm/large/v1/chat/completions', 20)
  const refused = ask('/llm/small/v1/chat/completions', key)
  t.match(refused, { code: 'token_limit_exceeded', retryAt: endOf('1m', key.keyId, now) })
  if (!refused.allowed) {
    t.match(
      denialMessage(refused, now),
      /^The token limit of this API key is used up: 60 of 60 tokens in 1m/,
    )
  }
  t.ok(ask('/llm/small/v1/chat/completions', keyWith({})).allowed, 'the user may go on')
  t.ok(ask('/llm/small/v1/models', key).allowed, 'lists are not limited')
})

const priced = { ofModels: { billingRate: { perToken: '0.001' } } }

/** The same models in a Subscription of its own, of which one has a price. */
function pricedSnapshot(spec: object = {}) {
  const paying = subscription('basic', team, { 'llm/small': [[100, '1m']] }, priced)
  const free = subscription('free', team, { 'llm/large': [[100, '1m']] })
  const [unpriced] = free.spec.modelRefs as object[]
  const modelRefs = [...(paying.spec.modelRefs as object[]), unpriced]
  return snapshotOf(
    modelRef('small'),
    modelRef('large'),
    accessPolicy('open', ['llm/small', 'llm/large'], team),
    { ...paying, spec: { ...paying.spec, modelRefs, ...spec } },
  )
}

const limits: NonNullable<KeyCaps['limits']> = [
  { name: 'daily', of: 'cost', limit: '0.5', window: 'day', models: [small] },
  { name: 'hourly', limit: 40, window: '1h' },
  { name: 'seen', of: 'requests', limit: 1, window: 'month', enforce: false },
]

test('limits by name hold on their models, in the calendar of the Subscription', async (t) => {
  const { ask } = createWorld(pricedSnapshot({ calendar: { timeZone: 'Asia/Tokyo' } }))
  const key = keyWith({ tokenRateLimits: [{ limit: 60, window: '1m' }], limits })
  const namesOn = (path: string) => {
    const grant = ask(path, key)
    if (!grant.allowed) throw new Error(grant.code)
    return [grant.limits.filter(({ scope }) => scope === 'key').map(({ name }) => name), grant]
  }
  const [onSmall, grant] = namesOn(chat('small')) as [string[], Grant]
  t.strictSame(onSmall, ['key-1m', 'key-daily', 'key-hourly'])
  t.strictSame((namesOn(chat('large')) as [string[], Grant])[0], ['key-1m', 'key-hourly'])
  t.strictSame(grant.limits.map((limit) => counterOf(limit, 'ada').key).slice(1), [
    'basic\n@id-1\n60000\nada',
    'basic\n@id-1#daily\ncost-day@Asia/Tokyo\nada',
    'basic\n@id-1#hourly\ntokens-3600000\nada',
  ])
  t.match(grant.keyLimits, {
    policies: '"key-1m";q=60;w=60;qu="tokens", "key-hourly";q=40;w=3600;qu="tokens"',
    observed: [{ limitName: 'seen' }],
    hasCostLimit: true,
  })
  t.ok(grant.isByTariff, 'it is asked each time')
  const moved = pricedSnapshot({ calendar: { timeZone: 'Asia/Tokyo', monthStartsOn: 15 } })
  const later = createWorld(moved).ask(chat('small'), key) as Grant
  t.match(later.keyLimits?.charged, /"key seen requests key month15@Asia\/Tokyo"/)
  t.equal(later.keyLimits, (createWorld(moved).ask(chat('small'), key) as Grant).keyLimits)
})

test('under a cost limit of the key nothing is free', async (t) => {
  const { ask, steps } = createWorld(pricedSnapshot())
  const daily = (more: object) =>
    keyWith({ limits: [{ name: 'daily', of: 'cost', limit: '0.5', window: 'day', ...more }] })
  const key = daily({})
  const headOf = (caller: KeyCaller) => {
    const { keyLimits, tariff } = ask(chat('small'), caller) as Grant
    const subject = { subscription: 'basic', model: 'llm/small', payer: undefined }
    const asked = { startedAt: now, id: 'r', by: 'check', user: 'ada', keyId: 'id-1' } as const
    const more = { keyCounters: undefined, keyLimits: keyLimits?.charged, held: undefined }
    const text = formatSubject({ ...subject, group: undefined, tariff })
    return readHead(writeLineHead({ ...asked, ...more }, text))
  }
  t.match(headOf(key), {
    ...{ prices: 'token=0.001', limits: ['key daily cost key day@UTC'], hasCostLimit: true },
  })
  t.equal(headOf(daily({ enforce: false }))?.hasCostLimit, undefined)
  const refused = ask(chat('large'), key)
  t.match(refused, { code: 'subscription_not_allowed', detail: { about: 'unpriced' } })
  t.equal(steps.at(-1), 'budget')
  if (!refused.allowed)
    t.match(denialMessage(refused, now), /limit on cost, and "basic" has no billing/)
  t.ok(ask('/llm/large/v1/models', key).allowed, 'lists cost nothing')
  const speech = '/llm/small/v1/audio/transcriptions'
  t.ok(ask(speech, keyWith({})).allowed)
  t.match(ask(speech, key), { code: 'path_closed' })
  for (const free of [daily({ models: [small] }), daily({ enforce: false })]) {
    t.ok(ask(chat('large'), free).allowed)
  }
})

test('only what was written as counters is counted', async (t) => {
  t.strictSame(keyCountersOf(undefined, 'basic', 'ada'), [])
  for (const odd of [
    '',
    'id',
    'id ',
    'id 1,',
    'id 0',
    'id 60000,0',
    'id x',
    'a b 1',
    'id 1,2,3,4,5,6,7,8,9',
    `id ${'9'.repeat(13)}`,
  ]) {
    t.strictSame(keyCountersOf(odd, 'basic', 'ada'), [], odd)
  }
  t.match(keyCountersOf('id 60000', 'basic', 'a\nb'), [
    { key: 'basic\n@id\n60000\na\nb', owner: 'id', window: { ms: 60_000 } },
  ])
})
