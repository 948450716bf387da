import { test } from 'tap'
import { userInLines } from '../../../src/ratelimit/rules/counter-key.ts'
import { advisoryLocks } from '../../../src/store/postgres/advisory-locks.ts'
import { accessPolicy, modelRef, snapshotOf, subscription } from '../../support/documents.ts'
import { createKeyApi, type KeyApi, longAdmin } from '../../support/key-api.ts'
import { poll } from '../../support/poll.ts'
import { refused } from '../../support/refusals.ts'

const route = '/v1/admin/increases'
const day = { window: 'day', limit: 100 }
const withOwn = (own: object) =>
  snapshotOf(
    modelRef('small', {
      limits: [
        { ...day, name: 'fair', per: 'model' },
        { ...day, name: 'each', per: 'subscription' },
      ],
    }),
    accessPolicy('open', ['llm/small'], { groups: ['team-a', 'team-b'] }),
    subscription(
      'premium',
      { groups: ['team-b', 'team-a'], users: ['dora'] },
      { 'llm/small': [[1_000, '1m']] },
      {
        ofModels: { billingRate: { perToken: '0.01' } },
        spec: {
          limits: [
            { ...day, name: 'own', ...own },
            { ...day, name: 'pool', of: 'cost', limit: '50.5', per: 'group' },
            { ...day, name: 'seen', per: 'subscription', enforce: false },
          ],
        },
      },
    ),
    {
      ...{ apiVersion: 'tollgate.dev/v1alpha1', kind: 'Tenant' },
      ...{ metadata: { name: 'default-tenant' } },
      spec: { limits: [{ ...day, name: 'all', per: 'installation' }] },
    },
  )
const snapshot = withOwn({})
const own = { subscription: 'premium', name: 'own', user: 'alice' }
const confirmed = { state: 'confirmed', replicas: 1, acknowledged: 1 }
const asked = { ...own, limit: 300, until: '2026-03-02T12:00:00Z', reason: 'a deadline' }

async function create(api: KeyApi, body: object) {
  const answer = await api.ask(`POST ${route}`, { as: 'admin', body })
  if (answer.statusCode !== 200) throw new Error(answer.body)
  return answer.json()
}

async function list(api: KeyApi) {
  return (await api.ask(`GET ${route}`, { as: 'admin' })).json()
}

async function limitOf(api: KeyApi, as: string, name: string) {
  const { data } = (await api.ask('GET /v1/limits', { as })).json()
  return data.find((each: { name: string }) => each.name === name)
}

test('an administrator increases a limit of a user, for a while (200)', async (t) => {
  const api = await createKeyApi(t, { snapshot })
  const made = await create(api, asked)
  const { reason, until } = asked
  const shown = {
    ...{ id: made.id, subscription: 'premium', model: null, name: 'own', kind: 'tokens' },
    ...{ scope: 'user', user: 'alice', limit: 300, until, reason },
    ...{ createdBy: 'admin', createdAt: '2026-03-01T12:00:00Z' },
  }
  t.strictSame(made, { ...shown, propagation: confirmed })
  const target = { user: 'alice', subscription: 'premium', limit: 'own' }
  t.match(api.audited, [
    { action: 'increase.create', outcome: 'intent', actor: { user: 'admin' }, target },
    { action: 'increase.create', outcome: 'success', target },
  ])
  t.strictSame(await list(api), { object: 'list', data: [{ ...shown, effective: true }] })
  t.match(api.audited.at(-1), { action: 'increase.read', count: 1 })
  refused(t, await api.ask(`GET ${route}`, { as: 'alice' }), 403, 'admin_required')
  const refusal = { action: 'increase.read', outcome: 'refused', actor: { user: 'alice' } }
  t.match(api.audited.at(-1), refusal)
  const raised = { limit: 300, remaining: 300, increasedUntil: until }
  t.match(await limitOf(api, 'alice', 'own'), raised)
  t.equal((await limitOf(api, 'carol', 'own')).limit, 100)
  t.notOk('increasedUntil' in (await limitOf(api, 'carol', 'own')))
  const question = { user: 'alice', groups: ['team-a'], model: 'small', subscription: 'premium' }
  const explain = async (more: object) => {
    const body = { ...question, ...more }
    const { limits } = (await api.ask('POST /v1/explain', { as: 'admin', body })).json()
    return limits.find((each: { name: string }) => each.name === 'own')
  }
  t.match(await explain({}), { limit: 300, increasedUntil: until })
  t.match(await explain({ at: '2026-03-02T11:00:00Z' }), { limit: 300 })
  t.equal((await explain({ at: until })).limit, 100)

  api.now = Date.parse(until)
  t.equal((await limitOf(api, 'alice', 'own')).limit, 100, 'it ends by itself')
  t.strictSame((await list(api)).data, [])
  refused(t, await api.ask(`DELETE ${route}/${made.id}`, { as: 'admin' }), 404, 'not_found')
})

test('limits that several share are increased for whom is named (200)', async (t) => {
  const api = await createKeyApi(t, { snapshot })
  const { until, reason } = asked
  const more = { limit: 300, until, reason }
  const pool = { subscription: 'premium', name: 'pool', limit: '60.5', until, reason }
  t.match(await create(api, { ...pool, whom: 'team-a' }), { whom: 'team-a', limit: '60.5' })
  t.match(await create(api, { ...pool, whom: 'users' }), { whom: 'users', scope: 'group' })
  const fair = { subscription: null, model: 'llm/small', name: 'fair', scope: 'model' }
  t.match(await create(api, { ...more, model: 'llm/small', name: 'fair' }), fair)
  const each = { model: 'llm/small', name: 'each', whom: 'premium' }
  t.match(await create(api, { ...more, ...each }), { ...each, subscription: null })
  t.match(await create(api, { ...more, name: 'all' }), { subscription: null, model: null })
  t.match(api.audited.at(-1), { target: { resource: 'Tenant', limit: 'all' } })
  const { data } = (await api.ask('GET /v1/admin/limits', { as: 'admin' })).json()
  const shown = data.map(
    ({ name, whom = '', limit, increasedUntil = '' }: Record<string, string>) =>
      [name, whom, limit, increasedUntil && 'raised'].join(' '),
  )
  t.strictSame(shown.sort(), [
    'all  300 raised',
    'each premium 300 raised',
    'fair  300 raised',
    'pool team-a 60.5 raised',
    'pool team-b 50.5 ',
    'pool users 60.5 raised',
    'seen  100 ',
  ])
  t.match(await limitOf(api, 'alice', 'pool'), { limit: '60.5', increasedUntil: until })
  t.match(await limitOf(api, 'bob', 'pool'), { limit: '50.5' })
  t.match(await limitOf(api, 'bob', 'all'), { limit: null, increasedUntil: until })
})

test('an increase is ended early (200), once (404)', async (t) => {
  const api = await createKeyApi(t, { snapshot })
  const { id } = await create(api, asked)
  await create(api, { ...asked, limit: 200 })
  const ended = await api.ask(`DELETE ${route}/${id}`, { as: 'admin' })
  t.match(ended.json(), { id, user: 'alice', limit: 300, propagation: confirmed })
  const target = { user: 'alice', subscription: 'premium', limit: 'own' }
  t.match(api.audited.slice(-2), [
    { action: 'increase.end', outcome: 'intent' },
    { action: 'increase.end', outcome: 'success', target },
  ])
  t.equal((await limitOf(api, 'alice', 'own')).limit, 200, 'the other one stays')
  t.equal((await list(api)).data.length, 1)
  for (const gone of [id, 'none'])
    refused(t, await api.ask(`DELETE ${route}/${gone}`, { as: 'admin' }), 404, 'not_found')
})

const wrong: readonly (readonly [object, number, RegExp])[] = [
  [
    { subscription: 'none' },
    404,
    /^subscription: Subscription none is not in force, .* others with a limit of this name: /,
  ],
  [{ name: 'none' }, 404, /^name: Subscription premium has no limit of this name, only /],
  [{ subscription: undefined, name: 'none' }, 404, /^name: no limit of this name is in force/],
  [
    { subscription: undefined },
    404,
    /^name: the Tenant .* others with a limit of this name: Subscription .* \(per user\)/,
  ],
  [{ model: 'llm/small' }, 400, /either subscription or model/],
  [{ user: undefined }, 400, /^user is needed: the limit is per user/],
  [{ whom: 'team-a' }, 400, /^whom: the limit is per user/],
  [{ name: 'pool', limit: '60' }, 400, /^user: the limit is per group/],
  [{ name: 'pool', user: undefined, limit: '60' }, 400, /^whom is needed: the limit is per group/],
  [{ name: 'pool', user: undefined, whom: 'x', limit: '60' }, 400, /^whom: no group/],
  [
    { name: 'pool', user: undefined, whom: 'team-a', limit: '60,5' },
    400,
    /^limit must be an amount/,
  ],
  [{ name: 'pool', user: undefined, whom: 'team-a', limit: '50.5' }, 400, /^limit .* 50\.5\.$/],
  [{ name: 'seen', user: undefined }, 400, /^name: the limit is only counted/],
  [{ limit: 100 }, 400, /^limit must be above that of the resource, 100/],
  [{ limit: '300' }, 400, /^limit must be an integer/],
  [{ limit: 10 ** 15 + 1 }, 400, /^limit must be an integer/],
  [{ limit: 300.5 }, 400, /limit/],
  [{ until: '2026-03-01T12:00:00Z' }, 400, /^until is over/],
  [{ until: '2026-06-01T12:00:01Z' }, 400, /^until must be within 92 days/],
  [{ until: 'tomorrow' }, 400, /^until must be/],
  [{ reason: '' }, 400, /reason/],
  [{ reason: 'x'.repeat(257) }, 400, /reason/],
  [{ reason: 'x\0' }, 400, /^reason must not hold NUL/],
  [{ keyId: 'x' }, 400, /^user: keyId says whose/],
  [{ keyId: 'x', user: undefined }, 404, /no such API key/],
  [{ user: 'admin' }, 403, /^Nobody increases their own limit/],
]

test('refusals name the field and the mend (400, 404)', async (t) => {
  const api = await createKeyApi(t, { snapshot })
  for (const [more, status, message] of wrong) {
    const body = { ...asked, ...more }
    const answer = await api.ask(`POST ${route}`, { as: 'admin', body })
    refused(t, answer, status, undefined, JSON.stringify(more).slice(0, 80))
    t.match(answer.json().error.message, message)
  }
  t.strictSame((await list(api)).data, [])
  t.match(api.audited[0], {
    action: 'increase.create',
    outcome: 'refused',
    target: { limit: 'own' },
  })
})

test('nobody increases their own limit under the name in lines either (403)', async (t) => {
  const api = await createKeyApi(t, { snapshot })
  for (const user of [longAdmin, userInLines(longAdmin)]) {
    const answer = await api.ask(`POST ${route}`, { as: longAdmin, body: { ...asked, user } })
    refused(t, answer, 403, 'admin_required')
  }
})

test('nobody else may (403)', async (t) => {
  const api = await createKeyApi(t, { snapshot })
  const { key } = await api.createKey('admin', { subscription: 'premium' })
  for (const as of ['alice', key])
    for (const asks of [`POST ${route}`, `GET ${route}`, `DELETE ${route}/x`])
      refused(t, await api.ask(asks, { as, ...(asks.startsWith('POST') && { body: asked }) }), 403)
})

async function fill(api: KeyApi, count: number): Promise<void> {
  await api.sql`
    insert into tollgate_increases (counter, per, amount, until, reason, created_by, created_at)
    select 'Tenant' || chr(10) || '#x' || chr(10) || 'tokens-1' || chr(10), 'user', 1, '2026-03-09', '', '', now()
    from generate_series(1, ${count}::int)`
}

test('as many as every process remembers are in force (400)', async (t) => {
  const api = await createKeyApi(t, { snapshot })
  await fill(api, 1_000)
  const answer = await api.ask(`POST ${route}`, { as: 'admin', body: asked })
  refused(t, answer, 400, 'invalid_request')
  t.equal((await list(api)).data.length, 1_000)
})

test('of concurrent requests none exceeds the number of increases', async (t) => {
  const api = await createKeyApi(t, { snapshot })
  await fill(api, 999)
  const ask = () => api.ask(`POST ${route}`, { as: 'admin', body: asked })
  const countWaiting = () => api.sql<{ count: number }[]>`
    select count(*)::int as count from pg_stat_activity
    where datname = current_database() and wait_event_type = 'Lock'`
  // The trigger that announces an increase waits for this lock, so that all of them have begun.
  const asking = await api.sql.begin(async (transaction) => {
    await transaction`lock table tollgate_revocations in share mode`
    const begun = [ask(), ask(), ask(), ask()]
    await poll(async () => (await countWaiting())[0]?.count === begun.length, 'all wait')
    return begun
  })
  const answers = await Promise.all(asking)
  t.equal(answers.filter(({ statusCode }) => statusCode === 200).length, 1)
  t.equal((await list(api)).data.length, 1_000)
})

test('another process that stops while it adds one delays others for a second (503)', async (t) => {
  const api = await createKeyApi(t, { snapshot })
  await api.sql.begin(async (stopped) => {
    await stopped`select pg_advisory_xact_lock(${advisoryLocks.increases})`
    const answer = await api.ask(`POST ${route}`, { as: 'admin', body: asked })
    refused(t, answer, 503, 'store_locked')
  })
  const { statusCode } = await api.ask(`POST ${route}`, { as: 'admin', body: asked })
  t.equal(statusCode, 200)
})

test('without the database none is made, listed or ended (503)', async (t) => {
  const api = await createKeyApi(t, { snapshot })
  await api.sql.end()
  const id = 'ffffffff-ffff-4fff-bfff-ffffffffffff'
  for (const asks of [`POST ${route}`, `GET ${route}`, `DELETE ${route}/${id}`]) {
    const body = asks.startsWith('POST') && { body: asked }
    refused(t, await api.ask(asks, { as: 'admin', ...body }), 503, 'store_unavailable')
  }
})

const perKey = { limits: [{ name: 'daily', limit: 50, window: 'day' }] }

test('the own limit of a key is increased by its id (200)', async (t) => {
  const api = await createKeyApi(t, { snapshot })
  const { id, key } = await api.createKey('alice', { subscription: 'premium', ...perKey })
  const { until, reason } = asked
  const more = { keyId: id, name: 'daily', limit: 80, until, reason }
  const whose = { subscription: 'premium', model: null, scope: 'key', user: 'alice', keyId: id }
  const made = await create(api, more)
  t.match(made, { ...whose, name: 'daily', limit: 80, propagation: confirmed })
  const target = { user: 'alice', keyId: id, limit: 'daily' }
  const { target: noted } = api.audited.at(-1) as { target: object }
  t.strictSame(noted, target)
  t.match((await list(api)).data, [{ ...whose, effective: true }])
  t.match(await limitOf(api, key, 'daily'), { scope: 'key', limit: 80, increasedUntil: until })
  const question = { model: 'small', keyId: id }
  const { limits } = (await api.ask('POST /v1/explain', { as: 'admin', body: question })).json()
  t.match(limits.at(-1), { name: 'daily', limit: 80, increasedUntil: until })
  const counters = await api.ask(`GET /v1/counters?key_id=${id}`, { as: 'admin' })
  t.equal(counters.statusCode, 200)
  const ended = await api.ask(`DELETE ${route}/${made.id}`, { as: 'admin' })
  t.match(ended.json(), whose)
  t.match(api.audited.at(-1), { action: 'increase.end', target: { keyId: id, user: 'alice' } })
  t.match(await limitOf(api, key, 'daily'), { limit: 50 })

  const own = await api.createKey('admin', { subscription: 'premium', ...perKey })
  const seen = { limits: [{ ...perKey.limits[0], enforce: false }] }
  const counted = await api.createKey('alice', { subscription: 'premium', ...seen })
  const refusals: readonly (readonly [object, number, RegExp])[] = [
    [{ name: 'own' }, 404, /^The key has no limit of this name/],
    [{ subscription: 'other' }, 400, /^subscription: the key's is premium/],
    [{ model: 'llm/small' }, 400, /^model: keyId says whose/],
    [{ user: 'alice' }, 400, /^user: keyId says whose/],
    [{ whom: 'team-a' }, 400, /^whom: keyId says whose/],
    [{ limit: 50 }, 400, /^limit must be above .* 50/],
    [{ keyId: counted.id }, 400, /^name: the limit is only counted/],
    [{ keyId: own.id }, 403, /^Nobody increases their own limit/],
    [{ keyId: id.replace(/./g, (each) => (each === '-' ? '-' : 'f')) }, 404, /no such API key/],
  ]
  for (const [other, status, message] of refusals) {
    const answer = await api.ask(`POST ${route}`, { as: 'admin', body: { ...more, ...other } })
    refused(t, answer, status, undefined, JSON.stringify(other))
    t.match(answer.json().error.message, message)
  }
  await create(api, { ...more, subscription: 'premium' })
  await api.ask(`DELETE /v1/api-keys/${id}`, { as: 'alice' })
  t.match((await list(api)).data, [{ ...whose, effective: false }], 'listed without effect')
  const late = await api.ask(`POST ${route}`, { as: 'admin', body: more })
  refused(t, late, 400)
  t.match(late.json().error.message, /^keyId: the key is revoked/)
})

test('the higher holds, also after the resource has changed', async (t) => {
  let now = snapshot
  const api = await createKeyApi(t, { snapshot: () => now })
  await create(api, asked)
  await create(api, { ...asked, limit: 200, until: '2026-03-09T12:00:00Z' })
  t.match(await limitOf(api, 'alice', 'own'), { limit: 300 })
  const effective = async () =>
    (await list(api)).data.map((each: { effective: boolean }) => each.effective)
  t.strictSame(await effective(), [true, true])
  now = withOwn({ limit: 250 })
  t.strictSame(await effective(), [true, false])
  now = withOwn({ limit: 500 })
  const higher = await limitOf(api, 'alice', 'own')
  t.equal(higher.limit, 500)
  t.notOk('increasedUntil' in higher)
  t.strictSame(await effective(), [false, false])
  for (const other of [{ of: 'output' }, { window: '1h' }]) {
    now = withOwn(other)
    t.equal((await limitOf(api, 'alice', 'own')).limit, 100, 'another counter')
    t.strictSame(await effective(), [false, false])
  }
  now = withOwn({ name: 'renamed' })
  t.equal((await limitOf(api, 'alice', 'renamed')).limit, 100)
  t.strictSame(await effective(), [false, false])
  now = withOwn({ enforce: false })
  t.strictSame(await effective(), [false, false])
  now = snapshot
  t.match(await limitOf(api, 'alice', 'own'), { limit: 300 }, 'the counter of before')
})

test('a process whose clock is ahead deletes no increases that are in force', async (t) => {
  const api = await createKeyApi(t, { snapshot })
  const ahead = await createKeyApi(t, { snapshot, url: api.url })
  const present = Date.now()
  api.now = present
  const later = (days: number) => new Date(present + days * 86_400_000).toISOString()
  const { id } = await create(api, { ...asked, until: later(2) })
  ahead.now = present + 60 * 86_400_000
  await create(ahead, { ...asked, user: 'carol', until: later(61) })
  const ids = (await list(api)).data.map((each: { id: string }) => each.id)
  t.ok(ids.includes(id))
})
