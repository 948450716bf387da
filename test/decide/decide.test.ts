import { test } from 'tap'
import type { AccessRequest } from '../../src/decide/access-request.ts'
import { authorize } from '../../src/decide/decide.ts'
import type { Decision, Denial, Grant } from '../../src/decide/decision.ts'
import { refuseCaller } from '../../src/decide/steps/credential.ts'
import { enforceLimits } from '../../src/decide/steps/limits.ts'
import type { Caller, KeyCaller, TokenCaller } from '../../src/identity/rules/caller.ts'
import { type MeterName, pathRules } from '../../src/operations/operations.ts'
import { parseTarget } from '../../src/operations/request-target.ts'
import { limitStates } from '../../src/ratelimit/rules/limit.ts'
import { accessPolicy, modelRef, snapshotOf, subscription } from '../support/documents.ts'

const now = Date.UTC(2026, 0, 1)
const key: KeyCaller = {
  by: 'key',
  user: 'ada',
  groups: ['team-a'],
  keyId: 'id-1',
  subscription: 'basic',
}
const token: TokenCaller = {
  by: 'token',
  proof: { by: 'file' },
  user: 'ada',
  groups: ['team-a'],
}
const team = { groups: ['team-a'] }

const snapshot = snapshotOf(
  modelRef('small', { backendUrl: 'http://small:8000/base', modelIds: ['org/Small'] }),
  modelRef('uncovered'),
  modelRef('no-policy'),
  modelRef('down', { backendUrl: undefined }),
  modelRef('twin', {}, 'east'),
  modelRef('twin', {}, 'west'),
  modelRef('pair', {}, 'east'),
  modelRef('pair', {}, 'west'),
  modelRef('lone', {}, 'east'),
  modelRef('lone', {}, 'west'),
  accessPolicy(
    'open',
    [
      'llm/small',
      'llm/uncovered',
      'llm/down',
      'east/twin',
      'west/twin',
      'east/pair',
      'west/pair',
      'east/lone',
    ],
    team,
  ),
  subscription('basic', team, {
    'llm/small': [
      [100, '1m'],
      [1_000, '1h'],
    ],
    'llm/down': [[100, '1m']],
    'llm/no-policy': [[100, '1m']],
    'west/twin': [[100, '1m']],
    'east/pair': [[100, '1m']],
    'west/pair': [[100, '1m']],
    'east/lone': [[100, '1m']],
  }),
  subscription('premium', team, { 'llm/small': [[10_000, '1m']] }),
  subscription('foreign', { groups: ['team-b'] }, { 'llm/small': [[100, '1m']] }),
  subscription('leaving', team, { 'llm/small': [[100, '1m']] }, { deleting: true }),
)

function ask(
  path: string,
  caller: Caller | null = key,
  more: Partial<AccessRequest> = {},
  rules = pathRules(),
): Decision {
  const target = parseTarget(path)
  if (target === undefined) throw new Error(`${path} leads to no model`)
  return authorize(
    {
      caller,
      target,
      method: target.operation === '/v1/models' ? 'GET' : 'POST',
      bodyModel: undefined,
      requestedSubscription: undefined,
      ...more,
    },
    snapshot,
    rules,
  )
}

function told(decision: Decision): string {
  if (decision.allowed) return `${decision.model.key} by ${decision.subscription}`
  return decision.selection === undefined
    ? decision.code
    : `${decision.code}: ${decision.selection}`
}

test('a key uses its model under its subscription', async (t) => {
  const decision = ask('/llm/small/v1/chat/completions?a=b')
  t.match(decision, {
    allowed: true,
    caller: key,
    cluster: 'model/llm/small',
    subscription: 'basic',
    metered: true,
    sentName: undefined,
    upstreamPath: '/base/v1/chat/completions?a=b',
    limits: [{ limit: 100 }, { limit: 1_000 }],
  })
})

test('the first check that fails determines the refusal', async (t) => {
  const stranger: KeyCaller = { ...key, user: 'eve', groups: [] }
  const unbound: KeyCaller = { ...key, subscription: 'none' }
  for (const [path, caller, expected] of [
    ['/llm/none/v1/chat/completions/', null, 'credential_invalid'],
    ['/llm/none/v1/chat/completions/', token, 'credential_invalid'],
    ['/llm/none/v1/chat/completions/', key, 'not_found'],
    ['/llm/none/v1/chat/completions', unbound, 'model_not_allowed'],
    ['/llm/small/v1/chat/completions', { ...stranger, subscription: 'none' }, 'model_not_allowed'],
    ['/llm/small/v1/chat/completions', unbound, 'subscription_not_allowed: not_found'],
    ['/llm/down/v1/chat/completions', unbound, 'subscription_not_allowed: not_found'],
    ['/llm/down/v1/chat/completions', key, 'model_unavailable'],
    ['/llm/small/v1/chat/completions', key, 'llm/small by basic'],
  ] as const) {
    t.equal(told(ask(path, caller)), expected, `${path} ${caller?.by}`)
  }
})

test('unknown and forbidden models get the same answer', async (t) => {
  const answers = [
    '/llm/none/v1/chat/completions',
    '/llm/no-policy/v1/chat/completions',
    '/none/small/v1/chat/completions',
    '/llm/Small/v1/chat/completions',
    '/llm/small%20/v1/chat/completions',
    '//small/v1/chat/completions',
    '/llm/constructor/v1/chat/completions',
  ].map((path) => ask(path))
  const bodies = [
    'none',
    'no-policy',
    '',
    'small\n',
    'llm/small',
    '__proto__',
    'x'.repeat(100_000),
  ].map((bodyModel) => ask('/v1/chat/completions', key, { bodyModel }))
  for (const decision of [...answers, ...bodies]) {
    const { detail, ...rest } = decision as Denial
    t.strictSame(rest, { allowed: false, code: 'model_not_allowed' })
    t.strictSame(Object.keys(detail ?? {}), ['about', 'name'], 'and the name that was asked for')
  }
})

test('the subscription of the key is charged, whatever the header says', async (t) => {
  const path = '/llm/small/v1/chat/completions'
  for (const [subscriptionName, expected] of [
    ['basic', 'llm/small by basic'],
    ['premium', 'llm/small by premium'],
    ['none', 'subscription_not_allowed: not_found'],
    ['', 'subscription_not_allowed: not_found'],
    ['foreign', 'subscription_not_allowed: access_denied'],
    ['leaving', 'subscription_not_allowed: model_unhealthy'],
  ] as const) {
    const caller: KeyCaller = { ...key, subscription: subscriptionName }
    for (const requestedSubscription of [undefined, 'premium', 'foreign']) {
      t.equal(told(ask(path, caller, { requestedSubscription })), expected, subscriptionName)
    }
  }
  t.equal(
    told(ask('/llm/uncovered/v1/completions')),
    'subscription_not_allowed: model_not_in_subscription',
  )
})

test('an identity token may only list models', async (t) => {
  for (const path of [
    '/llm/small/v1/chat/completions',
    '/llm/small/v1/completions',
    '/llm/small/v1/embeddings',
    '/llm/small/v1',
    '/llm/small/v1/models/',
    '/llm/small/v1/models/small',
    '/llm/small/v1/Models',
    '/llm/small/v1/x/v1/models',
    '/llm/small/v1/chat/completions?x=/v1/models',
    '/llm/small/v1/chat/completions?/v1/models',
    '/llm/small/v1/chat/completions;/v1/models',
    '/llm/small/v1/chat/completions/v1/models',
    '/llm/v1/v1/chat/completions',
    '/v1/models/v1/chat/completions',
  ]) {
    t.match(
      ask(path, token, { bodyModel: 'small' }),
      { allowed: false, code: 'credential_invalid' },
      path,
    )
  }
  const requestedSubscription = 'basic'
  t.match(ask('/llm/small/v1/models', null), { code: 'credential_invalid' })
  const listing = ask('/llm/small/v1/models', token, { requestedSubscription })
  t.equal(told(listing), 'llm/small by basic')
  t.match(ask('/llm/small/v1/models?x=y', token, { requestedSubscription }), {
    sentName: undefined,
    upstreamPath: '/base/v1/models?x=y',
  })
})

test('the header selects the subscription of an identity token', async (t) => {
  for (const [requestedSubscription, expected] of [
    ['basic', 'llm/small by basic'],
    ['models-as-a-service/premium', 'llm/small by premium'],
    [undefined, 'subscription_not_allowed: multiple_subscriptions'],
    ['foreign', 'subscription_not_allowed: access_denied'],
    ['none', 'subscription_not_allowed: access_denied'],
    ['leaving', 'subscription_not_allowed: model_unhealthy'],
  ] as const) {
    t.equal(
      told(ask('/llm/small/v1/models', token, { requestedSubscription })),
      expected,
      String(requestedSubscription),
    )
  }
  t.strictSame(
    ask('/llm/small/v1/models', token, { requestedSubscription: 'foreign' }),
    ask('/llm/small/v1/models', token, { requestedSubscription: 'none' }),
    'the answer does not reveal which subscriptions exist',
  )
  t.equal(
    told(ask('/east/lone/v1/models', token)),
    'east/lone by basic',
    'a single subscription need not be named',
  )
})

test('only chat completions are metered, and listing needs no limits', async (t) => {
  for (const [operation, metered, limits] of [
    ['/v1/chat/completions', true, 2],
    ['/v1/completions', false, 2],
    ['/v1/embeddings', false, 2],
    ['/v1/messages', false, 2],
    ['/v1/models/small', false, 2],
    ['/v1/models', false, 0],
  ] as const) {
    const method = operation.startsWith('/v1/models') ? 'GET' : 'POST'
    const grant = ask(`/llm/small${operation}`, key, { method }) as Grant
    t.match(grant, { allowed: true, metered }, operation)
    t.equal(grant.uncounted, !metered && method === 'POST', operation)
    t.equal(grant.limits.length, limits, operation)
  }
})

test('an invalid body is reported only to an authenticated caller', async (t) => {
  const path = '/v1/chat/completions'
  const more = { bodyProblem: 'it is broken', bodyModel: 'small' }
  t.match(ask(path, key, more), {
    code: 'invalid_body',
    detail: { about: 'body', problem: 'it is broken' },
  })
  t.match(ask(path, null, more), { code: 'credential_invalid' })
})

test('the field background is a problem only where responses are counted', async (t) => {
  const more = { bodyProblem: 'fields background', bodyModel: 'org/Small' }
  const at = (names: readonly MeterName[]) => ask('/v1/responses', key, more, pathRules(names))
  t.match(at(['chat']), { allowed: true, metered: false })
  t.match(at(['chat', 'responses']), {
    code: 'invalid_body',
    detail: { about: 'body', problem: /^background must be false/ },
  })
})

test('uploads must name their model in the path', async (t) => {
  t.match(ask('/v1/audio/transcriptions'), {
    code: 'model_path_needed',
    detail: { about: 'path_needed', operation: '/v1/audio/transcriptions' },
  })
  t.match(ask('/v1/files/file-1', null), { code: 'credential_invalid' })
  t.match(ask('/llm/small/v1/audio/transcriptions'), { allowed: true, metered: false })
})

test('a method without a body needs the model in the path', async (t) => {
  const operation = '/v1/chat/completions'
  for (const method of ['GET', 'HEAD']) {
    t.match(ask(operation, key, { method }), {
      code: 'model_path_needed',
      detail: { about: 'path_needed', operation, method },
    })
  }
  t.match(ask(operation, key, { method: 'POST' }), { code: 'invalid_body' })
  const broken = { method: 'GET', bodyProblem: 'this method takes none' }
  t.match(ask(operation, key, broken), { code: 'invalid_body' })
})

test('a refused subscription names the way out, but not to a key with caps', async (t) => {
  const path = '/llm/small/v1/chat/completions'
  const lone = '/east/lone/v1/chat/completions'
  const detail = (named: object | undefined, error: string, other: string | undefined) => ({
    detail: { about: 'subscription', error, named, other },
  })
  const bound = (subscription: string): KeyCaller => ({ ...key, subscription })
  const by = (name: string) => ({ by: 'key', name })
  t.match(ask(lone, bound('premium')), detail(by('premium'), 'model_not_in_subscription', 'basic'))
  t.match(ask(path, bound('foreign')), detail(by('foreign'), 'access_denied', 'premium'))
  t.match(ask(path, bound('gone')), detail(by('gone'), 'not_found', 'premium'))
  t.match(ask(path, bound('leaving')), detail(by('leaving'), 'model_unhealthy', 'premium'))
  for (const subscription of ['premium', 'foreign', 'gone']) {
    const caps = { models: undefined, networks: undefined, limitsOn: undefined }
    const decision = ask(lone, { ...bound(subscription), caps })
    t.match(decision, { code: 'subscription_not_allowed', detail: undefined }, subscription)
  }
  const foreign = ask(path, token, { tokensOpen: true, requestedSubscription: 'foreign' })
  const unknown = ask(path, token, { tokensOpen: true, requestedSubscription: 'none' })
  t.match(foreign, detail({ by: 'token' }, 'access_denied', 'premium'))
  t.match(unknown, detail({ by: 'token' }, 'access_denied', 'premium'))
})

test('only an API key allows inference', async (t) => {
  t.equal(refuseCaller(key), undefined)
  t.match(refuseCaller(token), { allowed: false, code: 'credential_invalid' })
  t.match(refuseCaller(null), { allowed: false, code: 'credential_invalid' })
})

test('identity tokens allow inference if the setting permits it', async (t) => {
  const open = { tokensOpen: true }
  const path = '/llm/small/v1/chat/completions'
  t.equal(refuseCaller(token, true), undefined)
  t.match(refuseCaller(null, true), { code: 'credential_invalid' })
  const named = ask(path, token, { ...open, requestedSubscription: 'basic' })
  const byKey = ask(path, { ...key, ...token, by: 'key', subscription: 'basic' })
  t.strictSame({ ...named, caller: null }, { ...byKey, caller: null }, 'as for a key of that user')
  t.match(ask(path, token, open), {
    code: 'subscription_not_allowed',
    selection: 'multiple_subscriptions',
    detail: { about: 'several' },
  })
  for (const requestedSubscription of ['foreign', 'none']) {
    t.match(ask(path, token, { ...open, requestedSubscription }), { selection: 'access_denied' })
  }
  t.equal(told(ask('/east/lone/v1/chat/completions', token, open)), 'east/lone by basic')
})

test('messages are metered if the setting says so', async (t) => {
  const withMessages = pathRules(['chat', 'messages'])
  for (const [operation, metered] of [
    ['/v1/messages', true],
    ['/v1/chat/completions', true],
    ['/v1/messages/count_tokens', false],
    ['/v1/completions', false],
  ] as const) {
    t.match(ask(`/llm/small${operation}`, key, {}, withMessages), { allowed: true, metered })
  }
  const ofCount = '/llm/small/v1/messages/count_tokens'
  t.match(ask(ofCount, key, {}, withMessages), { meteredIfReported: true })
  t.match(ask(ofCount), { meteredIfReported: false })
  t.match(ask('/llm/small/v1/messages', key, {}, withMessages), { meteredIfReported: false })
  t.match(ask('/llm/small/v1/messages/', key, {}, withMessages), {
    allowed: false,
    code: 'not_found',
    detail: { about: 'spelling', path: '/v1/messages' },
  })
  t.match(ask('/llm/small/v1/messages'), { allowed: true, metered: false })
  t.match(ask('/llm/small/v1/messages/'), { allowed: false, code: 'not_found' })
})

test('a misspelled chat path is refused', async (t) => {
  for (const operation of [
    '/v1/chat/completions/',
    '/v1//chat/completions',
    '/v1/Chat/completions',
    '/v1/chat/completions;x',
  ]) {
    t.match(ask(`/llm/small${operation}`), {
      allowed: false,
      code: 'not_found',
      detail: { about: 'spelling', path: '/v1/chat/completions' },
    })
    // Without a model, the path is none of ours; `v1` is not a namespace either.
    t.equal(parseTarget(operation), undefined)
  }
})

test('on a shared path the body names the model', async (t) => {
  for (const [bodyModel, expected] of [
    ['small', 'llm/small by basic'],
    ['org/Small', 'llm/small by basic'],
    [undefined, 'invalid_body'],
    ['twin', 'west/twin by basic'],
    ['lone', 'east/lone by basic'],
    // The subscription covers both, so the earlier one serves.
    ['pair', 'east/pair by basic'],
  ] as const) {
    t.equal(told(ask('/v1/chat/completions', key, { bodyModel })), expected, String(bodyModel))
  }
  for (const [bodyModel, expected, isAllowed] of [
    [undefined, 'small\torg/Small', true],
    ['small', undefined, true],
    ['org/Small', undefined, true],
    ['twin', undefined, false],
    ['small\torg/Small', undefined, false],
  ] as const) {
    const decision = ask('/llm/small/v1/chat/completions', key, { bodyModel })
    t.equal(decision.allowed, isAllowed, `the path takes precedence over ${bodyModel}`)
    if (decision.allowed) t.equal(decision.bodyNames, expected, 'only if it is not known')
    else
      t.match(decision, { code: 'model_not_allowed', detail: { about: 'model', name: bodyModel } })
  }
  const unread = { bodyModel: 'small', isUnread: true }
  t.match(ask('/llm/small/v1/chat/completions', key, unread), { bodyNames: 'small\torg/Small' })
  t.equal(told(ask('/v1/chat/completions', null, { bodyModel: 'small' })), 'credential_invalid')
})

test('a name of several models that are not covered is answered with their paths', async (t) => {
  const paths = ['/east/twin/v1/chat/completions', '/west/twin/v1/chat/completions']
  const elsewhere: KeyCaller = { ...key, subscription: 'premium' }
  t.strictSame(ask('/v1/chat/completions', elsewhere, { bodyModel: 'twin' }), {
    allowed: false,
    code: 'model_ambiguous',
    detail: { about: 'ambiguous', paths, areMore: false, isListed: false },
  })
})

test('an ambiguous name reveals no model that the caller may not use', async (t) => {
  const eve: KeyCaller = { ...key, user: 'eve', groups: [] }
  t.strictSame(ask('/v1/chat/completions', eve, { bodyModel: 'pair' }), {
    allowed: false,
    code: 'model_not_allowed',
    detail: { about: 'model', name: 'pair' },
  })
})

test('every limit is checked', async (t) => {
  const grant = ask('/llm/small/v1/chat/completions') as Grant
  const soon = now + 5_000
  const unused = { used: 0, resetsAt: soon }
  t.match(enforceLimits(grant, [unused, unused], now), { allowed: true, states: [unused, unused] })
  const left = [
    { used: 99, resetsAt: soon },
    { used: 999, resetsAt: soon },
  ]
  t.strictSame(enforceLimits(grant, left, now), {
    ...grant,
    states: limitStates(grant.limits, left, now),
  })
  for (const counters of [
    [
      { used: 100, resetsAt: soon },
      { used: 999, resetsAt: soon + 1 },
    ],
    [
      { used: 99, resetsAt: soon + 1 },
      { used: 1_007, resetsAt: soon },
    ],
  ]) {
    const states = limitStates(grant.limits, counters, now)
    t.strictSame(enforceLimits(grant, counters, now), {
      allowed: false,
      code: 'token_limit_exceeded',
      retryAt: soon,
      refusing: states.find(({ remaining }) => remaining === 0),
      states,
      grant,
    })
  }
})
