import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { pino } from 'pino'
import { type Test, test } from 'tap'
import { isSigned } from '../../../examples/notice-receiver.ts'
import { counterOf } from '../../../src/ratelimit/rules/counter-cache.ts'
import type { CountedLimit } from '../../../src/ratelimit/rules/limit.ts'
import { forgetUser } from '../../../src/usage/ledger/postgres/forget.ts'
import { createNotices } from '../../../src/usage/notices/notices.ts'
import { startNotifier } from '../../../src/usage/notices/notifier.ts'
import { createNoticeStore, expiringKeys } from '../../../src/usage/notices/postgres-notices.ts'
import { createNoticeSender } from '../../../src/usage/notices/send.ts'
import { createTestCounters } from '../../support/counters.ts'
import { modelRef, snapshotOf, subscription } from '../../support/documents.ts'
import { createMigrated } from '../../support/key-store.ts'
import { secret, startReceiver } from '../../support/notice-receiver.ts'
import { poll } from '../../support/poll.ts'

async function createWorld(t: Test) {
  const sql = await createMigrated(t)
  const store = createNoticeStore(sql)
  const loud = subscription('loud', { groups: ['team'] }, { 'llm/small': [[100, '1h']] })
  loud.spec.notify = { at: [50, 100] }
  const quiet = subscription('quiet', { groups: ['team'] }, { 'llm/small': [[100, '1h']] })
  const pooled = subscription(
    'pooled',
    { groups: ['team'], users: ['eve'] },
    { 'llm/small': [[100, '1h']] },
    { ofModels: { billingRate: { perToken: '1' } } },
  )
  pooled.spec.notify = { at: [50, 100] }
  pooled.spec.limits = [
    { name: 'month', per: 'group', of: 'cost', limit: '2.5', window: 'month' },
    { name: 'own', of: 'output', limit: 10, window: '1h', enforce: false },
    { name: 'calls', of: 'requests', limit: 1, window: '1h' },
  ]
  const snapshot = snapshotOf(modelRef('small'), loud, quiet, pooled)
  const counters = createTestCounters()
  const time = { now: Date.now() }
  /** As one process has it. Its clock is off by some milliseconds. */
  const create = (offMs = 0) =>
    createNotices({
      snapshot: () => snapshot,
      readCounters: async (all, now) =>
        (await counters.readFresh(all, now)).map((state) => ({
          ...state,
          resetsAt: state.resetsAt + offMs,
        })),
      store,
      clock: () => time.now,
    })
  const sender = (url: string, failures: string[] = [], clock = Date.now) =>
    createNoticeSender({
      ...{ url, secret: Buffer.alloc(32, 7), store, clock },
      onFailed: (_notice, problem, isLast) => failures.push(`${problem} ${isLast}`),
    })
  const [limit] = snapshot.subscriptions.get('loud')?.limits.get('llm/small') ?? []
  if (limit === undefined) throw new Error('no limit')
  const spend = (user: string, tokens: number) =>
    counters.add([counterOf(limit, user)], tokens, time.now)
  return { sql, store, create, sender, spend, time, snapshot, counters }
}

const use = (user: string, name = 'loud') => ({ user, subscription: name, model: 'llm/small' })

test('one notice for each user, window and percent, whichever process sees it', async (t) => {
  const { create, sender, spend, time } = await createWorld(t)
  const receiver = await startReceiver(t)
  const processes = [create(), create(40), create(-40)]
  const step = async (): Promise<void> => {
    for (const each of processes) for (const user of ['ann', 'bob']) each.note(use(user))
    await Promise.all(processes.map((each) => each.step()))
    await Promise.all([sender(receiver.url)(), sender(receiver.url)()])
  }
  spend('ann', 49)
  await step()
  t.equal(receiver.received.length, 0)
  spend('ann', 1)
  await step()
  await step()
  t.strictSame(
    receiver.received.map(({ body }) => [body.data.user, body.data.percent, body.data.used]),
    [['ann', 50, 50]],
  )
  spend('ann', 200)
  spend('bob', 1_000)
  await step()
  const percents = receiver.received.map(({ body }) => `${body.data.user} ${body.data.percent}`)
  t.strictSame(percents.sort(), ['ann 100', 'ann 50', 'bob 100', 'bob 50'])
  const ids = receiver.received.map(({ headers }) => headers['webhook-id'])
  t.equal(new Set(ids).size, 4)
  time.now += 3_600_001
  spend('ann', 60)
  await step()
  t.equal(receiver.received.length, 5, 'the next window')
  const [{ headers, text: body } = { headers: {}, text: '' }] = receiver.received
  t.ok(isSigned(secret, headers, body))
  t.notOk(isSigned(secret, headers, `${body} `), 'another body')
  t.notOk(isSigned(secret, headers, body, Date.now() + 600_000), 'an old one')
  t.notOk(isSigned(secret, { ...headers, 'webhook-id': 'x' }, body), 'another id')
  t.match(receiver.received[0]?.body, {
    type: 'limit.reached',
    data: { subscription: 'loud', model: 'llm/small', window: '1h', limit: 100 },
  })
})

test('a pool has one notice for all who share it, and money is exact', async (t) => {
  const { create, sender, time, snapshot, counters } = await createWorld(t)
  const receiver = await startReceiver(t)
  const found = snapshot.subscriptions.get('pooled')
  const observed = found?.terms.get('llm/small')?.observed ?? []
  const all = [...(found?.limits.get('llm/small') ?? []), ...observed]
  const add = (name: string, user: string, pool: string, amount: number) => {
    const limit = all.find(({ limitName }) => limitName === name) as CountedLimit
    return counters.add([counterOf(limit, user, pool)], amount, time.now)
  }
  const processes = [create(), create()]
  const step = async (): Promise<void> => {
    for (const each of processes) {
      for (const user of ['ann', 'bob']) each.note({ ...use(user, 'pooled'), pool: 'team' })
      each.note({ ...use('eve', 'pooled'), pool: '' })
    }
    await Promise.all(processes.map((each) => each.step()))
    await sender(receiver.url)()
  }
  await add('month', '', 'team', 1_249_999_999)
  await add('calls', 'ann', '', 1)
  await step()
  t.equal(receiver.received.length, 0, 'not of requests')
  await add('month', '', 'team', 2)
  await add('month', '', '', 2_500_000_000)
  await add('own', 'bob', '', 12)
  await step()
  await step()
  const told = receiver.received.map(({ body: { data } }) => {
    const { name, whom, user = '-', percent, used } = data
    return `${name} ${whom} ${user} ${percent} ${used}`
  })
  t.strictSame(told.sort(), [
    'month team - 50 1.250000001',
    'month users - 100 2.5',
    'month users - 50 2.5',
    'own undefined bob 100 12',
    'own undefined bob 50 12',
  ])
  const month = receiver.received.find(({ body }) => body.data.whom === 'team')
  t.strictSame(Object.keys(month?.body.data ?? {}), [
    ...[
      'whom',
      'resource',
      'name',
      'scope',
      'kind',
      'window',
      'limit',
      'used',
      'percent',
      'resetsAt',
    ],
  ])
  t.match(month?.body.data, { resource: 'pooled', scope: 'group', kind: 'cost', limit: '2.5' })
})

test('a subscription that asks for none has none', async (t) => {
  const { create, store } = await createWorld(t)
  const notices = create()
  notices.note(use('ann', 'quiet'))
  notices.note(use('ann', 'gone'))
  await notices.step()
  t.strictSame(await store.take(10, 0), [])
})

test('a receiver that is away, fails or redirects gets it later', async (t) => {
  const { create, sender, spend, sql } = await createWorld(t)
  const receiver = await startReceiver(t)
  const elsewhere = await startReceiver(t)
  const failures: string[] = []
  const notices = create()
  spend('ann', 50)
  notices.note(use('ann'))
  await notices.step()
  await sender('http://127.0.0.1:1/', failures)()
  const again = async () =>
    await sql`update tollgate_notices set due_at = now() where due_at is not null`
  for (const [status, location] of [
    [503, ''],
    [307, elsewhere.url],
  ] as const) {
    Object.assign(receiver, { status, location })
    await again()
    await sender(receiver.url, failures)()
  }
  t.match(failures, [/false$/, 'it answered 503 false', 'it answered 307 false'])
  t.equal(elsewhere.received.length, 0)
  receiver.status = 200
  await poll(async () => {
    await sender(receiver.url, failures)()
    return receiver.received.length === 3
  }, 'it is sent again by itself')
  const ids = receiver.received.map(({ headers }) => headers['webhook-id'])
  t.equal(new Set(ids).size, 1, 'the same notice')
  await again()
  await sender(receiver.url)()
  t.equal(receiver.received.length, 3, 'once')
  await sql`update tollgate_notices set due_at = now(), created_at = now() - interval '2 days'`
  receiver.status = 500
  await sender(receiver.url, failures)()
  t.match(failures.at(-1), 'it answered 500 true')
  await again()
  await sender(receiver.url)()
  t.equal(receiver.received.length, 4, 'given up')
})

test('a sender whose clock is ahead does not abandon a new notice', async (t) => {
  const { create, sender, spend } = await createWorld(t)
  const receiver = await startReceiver(t)
  const notices = create()
  spend('ann', 50)
  notices.note(use('ann'))
  await notices.step()
  receiver.status = 500
  const failures: string[] = []
  await sender(receiver.url, failures, () => Date.now() + 2 * 86_400_000)()
  t.strictSame(failures, ['it answered 500 false'])
})

test('a notice of a process that was killed while it sent is sent by another', async (t) => {
  const { create, sender, spend, store, sql } = await createWorld(t)
  const receiver = await startReceiver(t)
  const notices = create()
  spend('ann', 50)
  notices.note(use('ann'))
  await notices.step()
  const [taken] = await store.take(1, 3_600_000)
  await sender(receiver.url)()
  t.equal(receiver.received.length, 0, 'it may still be sent by the first')
  await sql`update tollgate_notices set due_at = now()`
  await sender(receiver.url)()
  t.equal(receiver.received[0]?.headers['webhook-id'], taken?.id)
})

test('a step ends while responses are noted', async (t) => {
  const { store, snapshot } = await createWorld(t)
  const read: number[] = []
  const notices = createNotices({
    ...{ snapshot: () => snapshot, store, clock: Date.now },
    async readCounters(all, now) {
      read.push(all.length)
      if (read.length < 20) notices.note(use(`user-${read.length}`))
      return all.map(() => ({ used: 0, resetsAt: now + 1_000 }))
    },
  })
  for (let i = 0; i < 600; i += 1) notices.note(use(`early-${i}`))
  await notices.step()
  t.strictSame(read, [500, 100])
  await notices.step()
  t.strictSame(read, [500, 100, 2])
})

test('a process that stops does not wait for a receiver that hangs', async (t) => {
  const { sql, store, snapshot, create, spend } = await createWorld(t)
  const hanging = createServer(() => {})
  t.teardown(() => hanging.close().closeAllConnections())
  await new Promise<void>((listening) => hanging.listen(0, '127.0.0.1', listening))
  const { port } = hanging.address() as AddressInfo
  const logged: string[] = []
  const notifier = startNotifier({
    ...{ url: `http://127.0.0.1:${port}`, secret: Buffer.alloc(32, 7), store, clock: Date.now },
    snapshot: () => snapshot,
    readCounters: async () => [],
    log: pino({}, { write: (line: string) => void logged.push(line) }),
  })
  const first = create()
  for (let i = 0; i < 30; i += 1) {
    spend(`user-${i}`, 100)
    first.note(use(`user-${i}`))
  }
  await first.step()
  const attempts = async () =>
    Number((await sql`select sum(attempts)::int as n from tollgate_notices`)[0]?.n)
  await poll(async () => (await attempts()) > 0, 'it sends')
  const sent = await attempts()
  const begun = performance.now()
  await notifier.stop()
  t.ok(performance.now() - begun < 2_000, 'it does not wait for a time-out')
  t.equal(await attempts(), sent, 'and takes no more')
  t.strictSame(logged, [], 'nothing is wrong with the receiver')
})

test('a key that expires soon is named once, and again when it expires later', async (t) => {
  const { create, sql, sender } = await createWorld(t)
  const receiver = await startReceiver(t)
  const add = (id: string, life: string, left: string, ephemeral = false, status = 'active') => sql`
    insert into api_keys (id, username, name, key_hash, user_groups, subscription, ephemeral, status,
      created_at, expires_at)
    values (${id}, 'ann', 'laptop', ${id}, '{}', 'loud', ${ephemeral}, ${status},
      now() + ${left}::interval - ${life}::interval, now() + ${left}::interval)`
  await add('soon', '90 days', '6 days')
  await add('later', '90 days', '8 days')
  await add('short', '10 hours', '59 minutes')
  await add('fresh', '10 hours', '61 minutes')
  await add('over', '90 days', '-1 days')
  await add('ephemeral', '1 hour', '1 minute', true)
  await add('revoked', '90 days', '1 day', false, 'revoked')
  const notices = create()
  for (let i = 0; i < 2; i += 1) {
    await Promise.all([notices.lookAtKeys(), create().lookAtKeys()])
    await sender(receiver.url)()
  }
  const ids = () => receiver.received.map(({ body }) => body.data.id)
  t.strictSame(ids().sort(), ['short', 'soon'])
  t.match(receiver.received[0]?.body, {
    type: 'key.expiring',
    data: { name: 'laptop', user: 'ann' },
  })
  await sql`update api_keys set expires_at = expires_at + interval '12 hours' where id = 'soon'`
  await notices.lookAtKeys()
  await sender(receiver.url)()
  t.equal(ids().filter((id) => id === 'soon').length, 2)
})

test('keys that expire soon are found by index', async (t) => {
  const sql = await createMigrated(t)
  await sql`
    insert into api_keys (id, username, name, key_hash, user_groups, subscription, created_at, expires_at)
    select 'key-' || i, 'ann', 'k', 'hash-' || i, array['a'], 'premium', now() - interval '80 days',
      now() + make_interval(hours => i)
    from generate_series(1, 20000) i`
  await sql`analyze api_keys`
  const [row] = await sql<Record<'QUERY PLAN', string>[]>`
    explain (format json) ${expiringKeys(sql, 500)}`
  t.match(JSON.stringify(row), '"Index Name":"api_keys_active_expires_at"')
})

test('a user with many expiring keys does not keep others from being told', async (t) => {
  const sql = await createMigrated(t)
  await sql`
    insert into api_keys (id, username, name, key_hash, user_groups, subscription, created_at, expires_at)
    select name || i, name, 'k', name || i, '{}', 'premium', now() - interval '80 days',
      now() + make_interval(mins => i + late)
    from (values ('many', 1000, 0), ('ann', 2, 5000), ('bob', 1, 6000)) as users (name, keys, late),
      generate_series(1, keys) i`
  const due = await expiringKeys(sql, 5)
  t.strictSame(
    due.map(({ id }) => id),
    ['many1', 'ann1', 'bob1', 'many2', 'ann2'],
  )
})

test('forgetting a user removes the notices that name them', async (t) => {
  const sql = await createMigrated(t)
  const add = (user: string) => sql`
    insert into tollgate_notices (subject, percent, ends_at, body)
    values (gen_random_uuid(), 80, now(), ${JSON.stringify({ data: { user } })})`
  for (const user of ['ann', 'bob', 'a"nn']) await add(user)
  await forgetUser(sql, 'ann')
  const left = await sql<{ body: string }[]>`select body from tollgate_notices order by body`
  t.strictSame(
    left.map(({ body }) => JSON.parse(body).data.user),
    ['a"nn', 'bob'],
  )
})
