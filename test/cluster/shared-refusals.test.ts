import { randomUUID } from 'node:crypto'
import { deflateRawSync } from 'node:zlib'
import { type Test, test } from 'tap'
import { createOthersRefusals } from '../../src/cluster/shared-refusals.ts'
import { isRefusalOf, type PastRefusal, type PastRefusals } from '../../src/decide/past-refusal.ts'
import { toCountedLimits } from '../../src/ratelimit/rules/counted-limits.ts'
import type { CountedLimit } from '../../src/ratelimit/rules/limit.ts'
import { startNotificationListener } from '../../src/store/postgres/listener.ts'
import { migrate } from '../../src/store/postgres/migrate.ts'
import { openPool } from '../../src/store/postgres/postgres.ts'
import { createDatabase } from '../support/database.ts'
import { poll } from '../support/poll.ts'
import { startTcpProxy } from '../support/tcp-proxy.ts'

const at = 1_000_000

const [price] = toCountedLimits('plenty', 'llm/sim', [
  { limit: 100, window: '1h', windowMs: 3_600_000 },
]) as [CountedLimit]
/** Beyond 2^53. */
const most = 9_000_000_000n * 10n ** 9n
const spent = { limit: { ...price, limit: most }, used: most, remaining: 0, resetsAt: at }

function refusalOf(requestId: string, user = 'bob'): PastRefusal {
  return {
    ...{ requestId, at, status: 403, code: 'model_not_allowed', message: 'no', method: 'POST' },
    ...{ path: '/v1/chat/completions', bodyModel: '🦉'.repeat(100), reason: undefined },
    ...{ states: [], address: undefined, requestedSubscription: undefined },
    caller: {
      ...{ by: 'key', user, groups: ['team'], keyId: 'id', subscription: 'plenty' },
      caps: {
        ...{ models: new Set(['llm/sim']), networks: undefined, limitsOn: undefined },
      },
    },
  }
}

/** A memory of these refusals. */
function remembering(refusals: readonly PastRefusal[]): PastRefusals {
  return {
    find: (requestId, user, now) =>
      refusals.find(
        (each) =>
          now === at &&
          each.requestId === requestId &&
          (user === undefined || each.caller?.user === user),
      ),
    recent: (limit, _now, whose) =>
      refusals.filter((each) => whose === undefined || isRefusalOf(each, whose)).slice(0, limit),
    since: () => undefined,
  }
}

async function createWorld(t: Test) {
  const url = await createDatabase(t)
  const sql = openPool({ url, connections: 4 })
  t.teardown(() => sql.end())
  await migrate(sql)

  async function start(name: string, refusals: readonly PastRefusal[], own = url) {
    const id = randomUUID()
    await sql`insert into tollgate_replicas (id, name, place, seen_at, serves_until, acknowledged)
      values (${id}, ${name}, 'here', now(), now() + interval '1 hour', 0)`
    const pool = own === url ? sql : openPool({ url: own, connections: 1 })
    if (pool !== sql) t.teardown(() => pool.end())
    const others = createOthersRefusals({
      ...{ sql: pool, id, own: remembering(refusals), clock: () => at },
      onFault: (error) => t.fail(String(error)),
    })
    const listener = startNotificationListener({
      url: own,
      channels: others.channels,
      onNotification: (notification) => notification && others.hear(notification),
    })
    t.teardown(listener.stop)
    return { ...others, id }
  }
  return { url, sql, start }
}

test('each process is told what the others remember', async (t) => {
  const { start } = await createWorld(t)
  const many = Array.from({ length: 500 }, (_, i) => refusalOf(randomUUID(), `user-${i}`))
  const [one] = [
    await start('one', [{ ...refusalOf('of-one'), states: [spent], pool: 'team' }]),
    await start('two', many),
  ]
  const three = await start('three', [])
  await poll(async () => (await one.recent(1)).silent?.length === 0, 'all listen')
  const { refusals, silent } = await three.recent(400)
  t.strictSame(silent, [])
  t.strictSame(
    new Set(refusals.map(({ requestId }) => requestId)),
    new Set(['of-one', ...many.slice(0, 400).map(({ requestId }) => requestId)]),
  )
  t.equal(refusals.at(-1)?.bodyModel, '🦉'.repeat(100))
  const [found] = (await three.find('of-one', 'bob')).refusals
  t.match(found, { requestId: 'of-one', caller: { by: 'key', user: 'bob', keyId: 'id' } })
  t.strictSame([found?.states[0]?.used, found?.states[0]?.limit.limit], [most, most])
  t.equal(found?.pool, 'team')
  t.notOk(found && 'caps' in (found.caller ?? {}), 'caps are read with the key')
  t.strictSame(await three.find('of-one', 'alice'), { refusals: [], silent: [] })
  t.strictSame(await three.find('unknown', undefined), { refusals: [], silent: [] })
})

test('those of one user or key are asked for alone', async (t) => {
  const { start, sql, url } = await createWorld(t)
  const many = Array.from({ length: 20 }, (_, i) =>
    refusalOf(`${i}`, i % 10 === 0 ? 'alice' : 'bob'),
  )
  const one = await start('one', [])
  await start('two', many)
  await poll(async () => (await one.recent(1)).silent?.length === 0, 'all listen')
  const ids = async (...asked: Parameters<typeof one.recent>) =>
    (await one.recent(...asked)).refusals.map(({ requestId }) => requestId)
  t.strictSame(await ids(5, { user: 'alice' }), ['0', '10'], 'the limit is of them')
  t.strictSame(await ids(5, { user: 'alice', keyId: 'id' }), ['0', '10'])
  t.strictSame(await ids(5, { user: 'alice', keyId: 'another' }), [])
  t.strictSame(await ids(5, { user: 'carol' }), [])

  // One of a version that knows neither user nor key sends what anybody was refused.
  const old = randomUUID()
  await sql`insert into tollgate_replicas (id, name, place, seen_at, serves_until, acknowledged)
    values (${old}, 'old', 'here', now(), now() + interval '1 hour', 0)`
  const listener = startNotificationListener({
    url,
    channels: ['tollgate_refusals'],
    onNotification(notification) {
      const { id, by, limit } = JSON.parse(notification?.payload || '{}')
      if (limit === undefined) return
      const text = deflateRawSync(JSON.stringify(many.slice(0, limit))).toString('base64')
      const part = JSON.stringify({ id, from: old, at: 0, of: 1, text })
      void sql`select pg_notify(${`tollgate_refusals_${by}`}, ${part})`.run()
    },
  })
  t.teardown(listener.stop)
  await poll(async () => (await one.recent(1)).silent?.length === 0, 'it listens too')
  t.strictSame(new Set(await ids(20, { user: 'alice' })), new Set(['0', '10']))
})

test('a process that does not answer is named', async (t) => {
  const { url, sql, start } = await createWorld(t)
  const one = await start('one', [])
  t.strictSame(await one.recent(1), { refusals: [], silent: [] }, 'the only one')
  const proxy = await startTcpProxy(t, Number(new URL(url).port))
  const two = await start('two', [refusalOf('of-two')], proxy.through(url))
  await poll(async () => (await one.recent(1)).refusals.length === 1, 'both listen')
  proxy.refuse()
  t.strictSame(await one.find('of-two', undefined), { refusals: [], silent: ['two'] })
  t.strictSame(await two.recent(1), { refusals: [], silent: undefined }, 'without a database')
  await sql`update tollgate_replicas set seen_at = now() - interval '1 minute' where id = ${two.id}`
  // Waiting takes a second each time; a busy machine may be late once.
  const isNotWaitedFor = async () => {
    const begin = performance.now()
    t.strictSame((await one.recent(1)).silent, ['two'])
    return performance.now() - begin < 1_000
  }
  await poll(isNotWaitedFor, 'one that is silent for long is not waited for')
})

test('what is no message of ours is passed over', async (t) => {
  const { sql, start } = await createWorld(t)
  const one = await start('one', [])
  await start('two', [refusalOf('of-two')])
  await poll(async () => (await one.recent(1)).refusals.length === 1, 'both listen')
  for (const text of ['', '{', 'null', '[]', '{"id":1}']) {
    for (const channel of ['tollgate_refusals', `tollgate_refusals_${one.id}`]) {
      await sql`select pg_notify(${channel}, ${text})`
    }
  }
  t.strictSame((await one.recent(1)).silent, [])
})
