import { type Test, test } from 'tap'
import type { Counter } from '../../../src/ratelimit/rules/counter.ts'
import { counterOf } from '../../../src/ratelimit/rules/counter-cache.ts'
import { runAt } from '../../support/command.ts'
import { createTestCounters } from '../../support/counters.ts'
import { modelRef, snapshotOf, subscription } from '../../support/documents.ts'
import { createKeyApi, type KeyApiOptions } from '../../support/key-api.ts'
import { refused } from '../../support/refusals.ts'
import { shownEnd } from '../../support/window-ends.ts'

const minute = [100, '1m'] as const
const day = [5_000, '24h'] as const
const teamA = { groups: ['team-a'] }
const snapshot = snapshotOf(
  modelRef('small'),
  modelRef('big'),
  subscription('premium', teamA, { 'llm/small': [day, minute], 'llm/big': [minute] }),
  subscription('basic', teamA, { 'llm/small': [minute] }),
)

function countersOf(user: string, name: string, model: string): readonly Counter[] {
  const limits = snapshot.subscriptions.get(name)?.limits.get(model) ?? []
  return limits.map((limit) => counterOf(limit, user))
}

/** alice has used both limits of premium for llm/small, and basic; bob has too. */
async function start(t: Test, options: KeyApiOptions = {}) {
  const counters = createTestCounters()
  const api = await createKeyApi(t, {
    snapshot,
    readCounters: counters.readFresh,
    resetCounters: counters.reset,
    ...options,
  })
  for (const user of ['alice', 'bob']) {
    counters.add(countersOf(user, 'premium', 'llm/small'), 120, api.now)
    counters.add(countersOf(user, 'basic', 'llm/small'), 7, api.now)
  }
  return { api, counters }
}

const noon = Date.UTC(2026, 2, 1, 12)
const basic = {
  ...{ subscription: 'basic', model: 'llm/small', name: null, kind: 'tokens', scope: 'user' },
  window: '1m',
  ...{ limit: 100, used: 7 },
  resetsAt: shownEnd('1m', 'alice', noon),
}
const premium = { ...basic, subscription: 'premium', used: 120 }
const daily = { ...premium, window: '24h', limit: 5_000, resetsAt: shownEnd('24h', 'alice', noon) }

test('an administrator sees the counters of a user (200)', async (t) => {
  const { api } = await start(t)
  const read = async (query: string) =>
    (await api.ask(`GET /v1/counters?${query}`, { as: 'admin' })).json()
  t.strictSame(await read('user=alice'), {
    object: 'list',
    user: 'alice',
    data: [basic, premium, daily],
  })
  t.strictSame((await read('user=alice&subscription=basic')).data, [basic])
  t.strictSame((await read('user=alice&window=24h&model=llm/small')).data, [daily])
  t.strictSame((await read('user=alice&model=llm/big')).data, [])
  t.strictSame((await read('user=nobody&subscription=none')).data, [])
  t.equal(
    (await read(`user=${'u'.repeat(2_048)}`)).user?.length,
    2_048,
    'as long as an owner of keys',
  )
  t.match(api.audited[0], { action: 'counter.read', target: { user: 'alice' }, count: 3 })
})

test('an administrator resets what is selected, and only that (200)', async (t) => {
  const { api, counters } = await start(t)
  const body = { user: 'alice', subscription: 'premium' }
  const answer = await api.ask('POST /v1/counters/reset', { as: 'admin', body })
  t.strictSame(answer.json(), {
    user: 'alice',
    at: '2026-03-01T12:00:00Z',
    reset: [premium, daily],
  })
  const used = async (user: string) => {
    const all = [
      ...countersOf(user, 'premium', 'llm/small'),
      ...countersOf(user, 'basic', 'llm/small'),
    ]
    return (await counters.read(all, api.now)).map((state) => state.used)
  }
  api.now += 1
  t.strictSame(await used('alice'), [0, 0, 7])
  t.strictSame(await used('bob'), [120, 120, 7])
  t.match(api.audited, [
    { action: 'counter.reset', outcome: 'intent', actor: { user: 'admin' }, target: body },
    { action: 'counter.reset', outcome: 'success', target: body, count: 2 },
  ])
  const again = await api.ask('POST /v1/counters/reset', { as: 'admin', body })
  t.strictSame(again.json().reset, [])
})

test('the counters of a key are its own (200)', async (t) => {
  const { api, counters } = await start(t)
  const tokenRateLimits = [{ limit: 50, window: '1m' }]
  const { id } = await api.createKey('alice', { subscription: 'basic', tokenRateLimits })
  const own = { key: `basic\n@${id}\n60000\nalice`, owner: id, window: { ms: 60_000 } }
  counters.add([own], 20, api.now)
  const resetsAt = shownEnd('1m', id, noon)
  const row = { ...basic, model: null, scope: 'key', limit: 50, used: 20, resetsAt }
  const read = async (query = '') =>
    (await api.ask(`GET /v1/counters?key_id=${id}${query}`, { as: 'admin' })).json()
  t.strictSame(await read(), { object: 'list', user: 'alice', key_id: id, data: [row] })
  t.strictSame((await read('&window=1h')).data, [])
  t.strictSame((await read('&subscription=premium')).data, [])
  t.strictSame((await read('&subscription=basic&window=1m')).data, [row])

  api.audited.length = 0
  const body = { key_id: id }
  const reset = await api.ask('POST /v1/counters/reset', { as: 'admin', body })
  t.match(reset.json(), { user: 'alice', key_id: id, reset: [row] })
  const target = { keyId: id, user: 'alice' }
  t.match(api.audited, [
    { action: 'counter.reset', outcome: 'intent', target },
    { action: 'counter.reset', outcome: 'success', target, count: 1 },
  ])
  api.now += 1
  t.strictSame((await read()).data, [])
  t.match(await counters.read(countersOf('alice', 'basic', 'llm/small'), api.now), [{ used: 7 }])
  const other = 'GET /v1/counters?key_id=00000000-0000-4000-8000-000000000000'
  refused(t, await api.ask(other, { as: 'admin' }), 404)
  for (const query of [`key_id=${id}&user=alice`, `key_id=${id}&model=llm/small`]) {
    refused(t, await api.ask(`GET /v1/counters?${query}`, { as: 'admin' }), 400)
  }
  refused(t, await api.ask(`GET /v1/counters?key_id=${id}`, { as: 'alice' }), 403, 'admin_required')
})

test('nobody else may, with a key neither (401, 403)', async (t) => {
  const { api } = await start(t)
  const { key } = await api.createKey('admin')
  for (const as of ['alice', key]) {
    refused(t, await api.ask('GET /v1/counters?user=alice', { as }), 403, 'admin_required')
    const reset = { as, body: { user: 'alice' } }
    refused(t, await api.ask('POST /v1/counters/reset', reset), 403, 'admin_required')
  }
  refused(t, await api.ask('GET /v1/counters?user=alice'), 401)
  const before = api.audited.length
  const wrong = { as: 'alice', body: { usr: 'bob', user: 7 } }
  refused(t, await api.ask('POST /v1/counters/reset', wrong), 403, 'admin_required')
  refused(t, await api.ask('GET /v1/counters?usr=bob', { as: 'alice' }), 403, 'admin_required')
  t.match(api.audited.splice(before), [
    { action: 'counter.reset', outcome: 'refused', target: {} },
    { action: 'counter.read', outcome: 'refused' },
  ])
  t.match(
    api.audited.filter(({ action }) => action !== 'key.create'),
    [
      { action: 'counter.read', outcome: 'refused' },
      { action: 'counter.reset', outcome: 'refused', target: { user: 'alice' } },
      {},
      {},
    ],
  )
})

test('a selection must be exact, and not too large (400)', async (t) => {
  const { api } = await start(t)
  const names = Array.from({ length: 70 }, (_, i) => `s${i}`)
  const many = snapshotOf(
    modelRef('small'),
    ...names.map((name) => subscription(name, teamA, { 'llm/small': [minute] })),
  )
  for (const query of ['', 'user=a&usr=b', 'user=%00', 'user=']) {
    refused(t, await api.ask(`GET /v1/counters?${query}`, { as: 'admin' }), 400)
  }
  for (const body of [{}, { user: 'alice', modle: 'x' }, { user: 7 }, { user: 'a\0' }]) {
    refused(t, await api.ask('POST /v1/counters/reset', { as: 'admin', body }), 400)
  }
  const ofMany = createTestCounters()
  const large = await start(t, {
    snapshot: many,
    readCounters: ofMany.readFresh,
    resetCounters: ofMany.reset,
  })
  for (const { limits } of many.subscriptions.values()) {
    const [limit] = limits.get('llm/small') ?? []
    if (limit) ofMany.add([counterOf(limit, 'alice')], 1, large.api.now)
  }
  const all = { as: 'admin', body: { user: 'alice' } }
  refused(t, await large.api.ask('POST /v1/counters/reset', all), 400)
  const one = { as: 'admin', body: { user: 'alice', subscription: 's1' } }
  t.equal((await large.api.ask('POST /v1/counters/reset', one)).json().reset.length, 1)
})

test('without its line in the trail nothing is reset (503)', async (t) => {
  const { api, counters } = await start(t, { auditRequired: true })
  api.auditWorks = false
  const reset = { as: 'admin', body: { user: 'alice' } }
  refused(t, await api.ask('POST /v1/counters/reset', reset), 503)
  const [state] = await counters.read(countersOf('alice', 'basic', 'llm/small'), api.now)
  t.equal(state?.used, 7)
})

test('the command shows, asks and resets', async (t) => {
  const { api } = await start(t)
  const url = await api.external.listen({ host: '127.0.0.1', port: 0 })
  const env = { TOLLGATE_URL: url, TOLLGATE_TOKEN: 'admin-token' }
  const run = (answer: string | undefined, ...args: string[]) =>
    runAt({ env, answer }, 'limits', ...args)
  const select = ['--user', 'alice', '--subscription', 'basic']
  const shown = await run(undefined, ...select)
  t.match(shown.out, /^basic +llm\/small +tokens +1m +7 +100 +2026-03-01T12:0\d:\d\dZ$/m)
  t.equal((await run('n', 'reset', ...select)).status, 1)
  t.equal((await run(undefined, 'reset', ...select)).status, 1, 'without a terminal')
  t.match(await run('y', 'reset', ...select), { status: 0, err: /These were reset\.$/ })
  api.now += 1
  t.match(await run('y', 'reset', ...select), { status: 0, err: /^Nothing is used\.$/ })
  const nope = ['--user', 'alice', '--subscription', 'nope'] as const
  const nowhere = /^There is no Subscription nope in force\.$/
  t.match(await run(undefined, ...nope), { status: 0, out: '', err: nowhere })
  t.match(await run('y', 'reset', ...nope, '--model', 'x/y'), {
    err: /nope in force\. .* model x\/y /,
  })
  const all = await run(undefined, 'reset', '--user', 'alice', '--yes', '--json')
  t.equal(JSON.parse(all.out).reset.length, 2)
  const twice = ['--user', 'alice', '--key', 'x']
  for (const args of [
    twice,
    ['reset', ...twice],
    ['reset'],
    ['forget', '--user', 'a'],
    ['x', '--user', 'a'],
  ]) {
    t.match(await run(undefined, ...args), { status: 2, err: / See tollgate limits.* --help\.$/ })
  }
})
