import { test } from 'tap'
import { userInLines } from '../../../src/ratelimit/rules/counter-key.ts'
import { createNoticeStore } from '../../../src/usage/notices/postgres-notices.ts'
import { accessPolicy, modelRef, snapshotOf, subscription } from '../../support/documents.ts'
import { createKeyApi, type KeyApi, longAdmin } from '../../support/key-api.ts'
import { refused } from '../../support/refusals.ts'

const route = '/v1/limit-requests'
const day = { window: 'day', limit: 100 }
const limited = (...limits: readonly object[]) => ({ spec: { limits } })
const perMinute = { 'llm/small': [[1_000, '1m']] } as const
const snapshot = snapshotOf(
  modelRef('small', {
    limits: [
      { ...day, name: 'fair', per: 'model' },
      { ...day, name: 'each', per: 'subscription' },
    ],
  }),
  accessPolicy('open', ['llm/small'], { users: [longAdmin], groups: ['team-a', 'team-b'] }),
  subscription('premium', { users: [longAdmin], groups: ['team-b', 'team-a'] }, perMinute, {
    ofModels: { billingRate: { perToken: '0.01' } },
    ...limited(
      { ...day, name: 'own' },
      { ...day, name: 'pool', of: 'cost', limit: '50.5', per: 'group' },
      { ...day, name: 'seen', per: 'subscription', enforce: false },
    ),
  }),
  subscription('other', { groups: ['team-b'] }, perMinute, limited({ ...day, name: 'own' })),
  {
    ...{ apiVersion: 'tollgate.dev/v1alpha1', kind: 'Tenant' },
    ...{ metadata: { name: 'default-tenant' } },
    spec: { limits: [{ ...day, name: 'all', per: 'installation' }] },
  },
)
const until = '2026-03-02T12:00:00Z'
const more = { limit: 300, until, reason: 'a deadline' }
const asked = { subscription: 'premium', name: 'own', ...more }
const nothing = 'ffffffff-ffff-4fff-bfff-ffffffffffff'

async function ask(api: KeyApi, as: string, body: object) {
  const answer = await api.ask(`POST ${route}`, { as, body })
  if (answer.statusCode !== 200) throw new Error(answer.body)
  return answer.json()
}

const decide = (api: KeyApi, id: string, verb: string, as = 'admin', body?: object) =>
  api.ask(`POST ${route}/${id}/${verb}`, { as, ...(body && { body }) })

async function list(api: KeyApi, as: string, query = '') {
  return (await api.ask(`GET ${route}${query}`, { as })).json().data
}

async function limitOf(api: KeyApi, as: string, name: string) {
  const { data } = (await api.ask('GET /v1/limits', { as })).json()
  return data.find((each: { name: string }) => each.name === name)
}

async function notices(api: KeyApi) {
  const due = await createNoticeStore(api.sql).take(100, 60_000)
  return due.map(({ body }) => JSON.parse(body)).sort((a, b) => (a.type < b.type ? -1 : 1))
}

test('a user asks for more, and an administrator approves it (200)', async (t) => {
  const api = await createKeyApi(t, { snapshot })
  const made = await ask(api, 'alice', asked)
  const { id } = made
  const open = {
    ...{ id, user: 'alice', subscription: 'premium', model: null, name: 'own', kind: 'tokens' },
    ...{ scope: 'user', ...more, createdAt: '2026-03-01T12:00:00Z', state: 'open' },
  }
  t.strictSame(made, open)
  const target = { user: 'alice', subscription: 'premium', limit: 'own' }
  t.match(api.audited, [
    { action: 'limit_request.create', outcome: 'intent', actor: { user: 'alice' }, target },
    { action: 'limit_request.create', outcome: 'success', target },
  ])
  t.strictSame(await list(api, 'alice'), [open])
  t.strictSame(await list(api, 'carol'), [])
  t.equal(api.audited.length, 2, 'reading your own has no line')
  t.strictSame(await list(api, 'admin', '?all=true'), [open])
  t.match(api.audited.at(-1), { action: 'limit_request.read', count: 1 })
  t.equal((await limitOf(api, 'alice', 'own')).limit, 100)

  const less = { limit: 200, until: '2026-03-02T00:00:00Z' }
  const approved = await decide(api, id, 'approve', 'admin', less)
  const { increaseId, ...shown } = approved.json()
  t.strictSame(shown, {
    ...{ ...open, state: 'approved', decidedBy: 'admin', decidedAt: '2026-03-01T12:00:00Z' },
    ...{ grantedLimit: 200, grantedUntil: less.until },
    propagation: { state: 'confirmed', replicas: 1, acknowledged: 1 },
  })
  t.match(api.audited.slice(-2), [
    { action: 'limit_request.approve', outcome: 'intent', actor: { user: 'admin' }, target },
    { action: 'limit_request.approve', outcome: 'success', target },
  ])
  t.match(await limitOf(api, 'alice', 'own'), { limit: 200, increasedUntil: less.until })
  t.equal((await limitOf(api, 'carol', 'own')).limit, 100)
  const increases = async () =>
    (await api.ask('GET /v1/admin/increases', { as: 'admin' })).json().data
  t.match(await increases(), [
    { id: increaseId, user: 'alice', limit: 200, reason: 'a deadline', createdBy: 'admin' },
  ])

  const again = await decide(api, id, 'approve')
  t.strictSame(again.json(), approved.json(), 'repeated, it changes nothing')
  t.strictSame((await decide(api, id, 'approve', 'admin', less)).json(), approved.json())
  for (const other of [{ limit: 201 }, { ...less, until }, { until: '2026-03-01T12:00:00Z' }]) {
    const late = await decide(api, id, 'approve', 'admin', other)
    refused(t, late, 400, 'invalid_request', JSON.stringify(other))
    const { message } = late.json().error
    t.match(message, /was approved before, up to 200 until 2026-03-02T00:00:00Z, and a decision/)
  }
  refused(t, await decide(api, id, 'deny'), 400, 'invalid_request')
  t.equal((await increases()).length, 1)
  t.strictSame(await list(api, 'admin', '?all=true'), [])
  t.match(await list(api, 'alice'), [{ id, state: 'approved' }])
  const data = { id, user: 'alice', resource: 'premium', name: 'own', scope: 'user', limit: 300 }
  const told = await notices(api)
  t.match(told, [
    { type: 'limit.request.created', data: { ...data, reason: 'a deadline', until } },
    { type: 'limit.request.decided', data: { ...data, state: 'approved', grantedLimit: 200 } },
  ])
  t.equal(told.length, 2)
  api.now += 31 * 86_400_000
  t.strictSame(await list(api, 'alice'), [])
})

test('the time that is shown can be approved, whatever fraction of a second was requested', async (t) => {
  const api = await createKeyApi(t, { snapshot })
  const fraction = '2026-03-02T12:00:00.500Z'
  const shown = '2026-03-02T12:00:01Z'
  const made = await ask(api, 'alice', { ...asked, until: fraction })
  t.equal(made.until, shown)
  for (const until of [shown, fraction]) {
    const approved = await decide(api, made.id, 'approve', 'admin', { until })
    t.match(approved.json(), { state: 'approved', grantedUntil: shown }, until)
  }
  // The longest time, shown with a later second than that of the clock.
  api.now += 500
  const longest = new Date(api.now + 92 * 86_400_000).toISOString()
  const { id, until } = await ask(api, 'alice', { ...asked, until: longest })
  const approved = await decide(api, id, 'approve', 'admin', { until })
  t.match(approved.json(), { state: 'approved', grantedUntil: until })
})

test('an administrator denies it (200)', async (t) => {
  const api = await createKeyApi(t, { snapshot })
  const { id } = await ask(api, 'alice', asked)
  const denied = await decide(api, id, 'deny', 'admin', { reason: 'not now' })
  t.match(denied.json(), { state: 'denied', decidedBy: 'admin', decisionReason: 'not now' })
  for (const same of [undefined, { reason: 'not now' }])
    t.strictSame((await decide(api, id, 'deny', 'admin', same)).json(), denied.json())
  refused(t, await decide(api, id, 'deny', 'admin', { reason: 'never' }), 400, 'invalid_request')
  const late = await decide(api, id, 'approve')
  refused(t, late, 400, 'invalid_request')
  t.match(late.json().error.message, /was denied before/)
  t.equal((await limitOf(api, 'alice', 'own')).limit, 100)
  const told = await notices(api)
  t.match(told[1], { type: 'limit.request.decided', data: { state: 'denied' } })
  t.equal(told.length, 2)
})

test('of those who decide at a time one is first', async (t) => {
  const api = await createKeyApi(t, { snapshot })
  const { id } = await ask(api, 'alice', asked)
  // Each has found it open before any decides.
  const verbs = ['approve', 'deny', 'approve', 'deny', 'approve']
  let finding = verbs.length
  const { promise, resolve } = Promise.withResolvers<void>()
  const requests = api.limitRequests
  const { find } = requests
  requests.find = async (...asked) => {
    const found = await find(...asked)
    finding -= 1
    if (finding === 0) resolve()
    await promise
    return found
  }
  const answers = await Promise.all(verbs.map((verb) => decide(api, id, verb)))
  const [{ state }] = await list(api, 'alice')
  t.strictSame(
    answers.map(({ statusCode }) => statusCode),
    (state === 'approved' ? [1, 0, 1, 0, 1] : [0, 1, 0, 1, 0]).map((is) => (is ? 200 : 400)),
  )
  const [{ count }] = await api.sql<[{ count: number }]>`
    select count(*)::int as count from tollgate_increases`
  t.equal(count, state === 'approved' ? 1 : 0)
  t.equal((await notices(api)).length, 2)
})

test('of different figures at a time one is taken, and the others are refused (400)', async (t) => {
  const api = await createKeyApi(t, { snapshot })
  const { id } = await ask(api, 'alice', asked)
  const limits = [150, 200, 250, 300]
  const answers = await Promise.all(
    limits.map((limit) => decide(api, id, 'approve', 'admin', { limit })),
  )
  const [{ grantedLimit }] = await list(api, 'alice')
  t.strictSame(
    answers.map(({ statusCode }) => statusCode),
    limits.map((limit) => (limit === grantedLimit ? 200 : 400)),
  )
})

test('nobody decides for themselves, or without being an administrator (403)', async (t) => {
  const api = await createKeyApi(t, { snapshot })
  const { id } = await ask(api, 'admin', asked)
  const { key } = await api.createKey('alice', { subscription: 'premium' })
  for (const verb of ['approve', 'deny'])
    for (const as of ['admin', 'alice', key])
      refused(t, await decide(api, id, verb, as), 403, 'admin_required', `${verb} ${as}`)
  t.match(await list(api, 'admin'), [{ state: 'open' }])
  refused(t, await api.ask(`GET ${route}?all=true`, { as: 'alice' }), 403, 'admin_required')
  t.match(api.audited.at(-1), { action: 'limit_request.read', outcome: 'refused' })
  for (const asks of [`POST ${route}`, `GET ${route}`]) {
    const body = asks.startsWith('POST') && { body: asked }
    refused(t, await api.ask(asks, { as: key, ...body }), 403, 'identity_token_required')
  }
})

test('nobody decides for their own counter under the name in lines either (403)', async (t) => {
  const api = await createKeyApi(t, { snapshot })
  for (const user of [longAdmin, userInLines(longAdmin)]) {
    const { id } = await ask(api, user, asked)
    for (const verb of ['approve', 'deny'])
      refused(t, await decide(api, id, verb, longAdmin), 403, 'admin_required', verb)
    t.equal((await decide(api, id, 'approve')).statusCode, 200)
  }
})

test('five of a user are open at most, also if they are asked at a time (400)', async (t) => {
  const api = await createKeyApi(t, { snapshot })
  const answers = await Promise.all(
    Array.from({ length: 8 }, () => api.ask(`POST ${route}`, { as: 'alice', body: asked })),
  )
  const statuses = answers.map(({ statusCode }) => statusCode).sort()
  t.strictSame(statuses, [200, 200, 200, 200, 200, 400, 400, 400])
  await ask(api, 'carol', asked)
  const [{ id }] = await list(api, 'alice')
  await decide(api, id, 'deny')
  await ask(api, 'alice', asked)
  refused(t, await api.ask(`POST ${route}`, { as: 'alice', body: asked }), 400, 'invalid_request')
  t.equal((await list(api, 'admin', '?all=true&limit=4')).length, 4)
  api.now = Date.parse(until)
  t.strictSame(await list(api, 'admin', '?all=true'), [], 'nobody has decided them in time')
  refused(t, await decide(api, id, 'approve'), 400, 'invalid_request', 'this one is denied')
  await ask(api, 'alice', { ...asked, until: '2026-03-03T12:00:00Z' })
})

test('a foreign limit is as unknown (404), and no figure of others is told', async (t) => {
  const api = await createKeyApi(t, { snapshot })
  const unknown = await api.ask(`POST ${route}`, { as: 'alice', body: { ...asked, name: 'x' } })
  for (const [as, body] of [
    ['alice', { ...asked, subscription: 'other' }],
    ['alice', { ...asked, subscription: 'none' }],
    ['alice', { ...asked, subscription: undefined }],
    ['alice', { ...asked, name: 'pool', whom: 'team-b', limit: '60' }],
    ['alice', { ...asked, whom: 'carol' }],
    ['alice', { model: 'llm/none', name: 'fair', ...more }],
    ['alice', { model: 'llm/small', name: 'each', whom: 'other', ...more }],
    ['stranger', { model: 'llm/small', name: 'fair', ...more }],
    ['stranger', { name: 'all', ...more }],
    ['stranger', asked],
  ] as const) {
    const answer = await api.ask(`POST ${route}`, { as, body })
    refused(t, answer, 404, 'not_found', JSON.stringify(body))
    t.strictSame(answer.json(), unknown.json())
  }
  // Figures below what is in force are not told apart from higher ones.
  for (const name of ['fair', 'each']) {
    const { id } = await ask(api, 'alice', { model: 'llm/small', name, ...more, limit: 50 })
    const answer = await decide(api, id, 'approve')
    refused(t, answer, 400, 'invalid_request')
    t.match(answer.json().error.message, /^The limit is 100 without an increase.* deny/)
  }
  const { id } = await ask(api, 'alice', { name: 'all', ...more, limit: 50 })
  refused(t, await decide(api, id, 'approve', 'admin', { limit: 51 }), 400)
  t.match(await list(api, 'alice'), [{ state: 'open', limit: 50 }])
})

test('limits that several share are meant by whom the caller shares them with', async (t) => {
  const api = await createKeyApi(t, { snapshot })
  const pool = { ...asked, name: 'pool', limit: '60.5' }
  const { id, ...made } = await ask(api, 'alice', pool)
  t.match(made, { scope: 'group', whom: 'team-a', limit: '60.5', kind: 'cost' })
  t.match((await decide(api, id, 'approve')).json(), { grantedLimit: '60.5' })
  t.match(await limitOf(api, 'carol', 'pool'), { limit: '60.5', increasedUntil: until })
  const each = { model: 'llm/small', name: 'each', ...more }
  t.match(await ask(api, 'alice', each), { whom: 'premium', model: 'llm/small' })
  const vague = await api.ask(`POST ${route}`, { as: 'bob', body: each })
  refused(t, vague, 400, 'invalid_request')
  t.match(vague.json().error.message, /^whom is needed/)
  const all = await ask(api, 'bob', { ...each, whom: 'other' })
  t.match((await decide(api, all.id, 'approve')).json(), { whom: 'other', state: 'approved' })
})

const wrong: readonly (readonly [object, RegExp])[] = [
  [{ model: 'llm/small' }, /either subscription or model/],
  [{ name: 'seen' }, /^name: the limit is only counted/],
  [{ name: 'pool', limit: '60,5' }, /^limit must be an amount/],
  [{ limit: 100 }, /^limit must be above that of the resource, 100/],
  [{ until: '2026-03-01T12:00:00Z' }, /^until is over/],
  [{ until: '2026-06-01T12:00:01Z' }, /^until must be within 92 days/],
  [{ reason: '' }, /reason/],
  [{ reason: 'x'.repeat(257) }, /reason/],
  [{ reason: 'x\0' }, /^reason must not hold NUL/],
  [{ user: 'carol' }, /user/],
]

test('refusals name the field and the mend (400, 404)', async (t) => {
  const api = await createKeyApi(t, { snapshot })
  for (const [other, message] of wrong) {
    const answer = await api.ask(`POST ${route}`, { as: 'alice', body: { ...asked, ...other } })
    refused(t, answer, 400, undefined, JSON.stringify(other).slice(0, 80))
    t.match(answer.json().error.message, message)
  }
  const { id } = await ask(api, 'alice', asked)
  for (const [body, message] of [
    [{ limit: 301 }, /^limit must not be beyond/],
    [{ limit: 100 }, /^limit must be above that of the resource/],
    [{ until: '2026-03-02T12:00:01Z' }, /^until must not be beyond/],
    [{ until: '2026-03-01T12:00:00Z' }, /^until is over/],
  ] as const) {
    const answer = await decide(api, id, 'approve', 'admin', body)
    refused(t, answer, 400, 'invalid_request')
    t.match(answer.json().error.message, message)
  }
  for (const verb of ['approve', 'deny'])
    for (const gone of [nothing, 'none'])
      refused(t, await decide(api, gone, verb), 404, 'not_found')
  refused(t, await decide(api, id, 'deny', 'admin', { reason: '' }), 400)
  refused(t, await decide(api, id, 'deny', 'admin', { reason: 'x\0' }), 400)
  await api.sql`
    insert into tollgate_increases (counter, per, amount, until, reason, created_by, created_at)
    select 'Tenant' || chr(10) || '#x' || chr(10) || 'tokens-1' || chr(10), 'user', 1, '2026-03-09', '', '', now()
    from generate_series(1, 1000)`
  refused(t, await decide(api, id, 'approve'), 400, 'invalid_request')
  t.match(await list(api, 'alice'), [{ state: 'open' }])
})

test('without the database nothing is asked, listed or decided (503)', async (t) => {
  const api = await createKeyApi(t, { snapshot })
  await api.sql.end()
  const id = nothing
  for (const asks of [
    `POST ${route}`,
    `GET ${route}`,
    `POST ${route}/${id}/approve`,
    `POST ${route}/${id}/deny`,
  ]) {
    const body = asks === `POST ${route}` && { body: asked }
    refused(t, await api.ask(asks, { as: 'admin', ...body }), 503, 'store_unavailable', asks)
  }
})

test('a process whose clock is ahead deletes no requests of others', async (t) => {
  const api = await createKeyApi(t, { snapshot })
  const ahead = await createKeyApi(t, { snapshot, url: api.url })
  const present = Date.now()
  api.now = present
  const later = (days: number) => new Date(present + days * 86_400_000).toISOString()
  const { id } = await ask(api, 'alice', { ...asked, until: later(3) })
  await decide(api, id, 'deny')
  api.now = present + 1_000
  await ask(api, 'alice', { ...asked, until: later(2) })
  ahead.now = present + 60 * 86_400_000
  await ask(ahead, 'carol', { ...asked, until: later(61) })
  const states = (await list(api, 'alice')).map(({ state }: { state: string }) => state)
  t.strictSame(states, ['open', 'denied'])
})
