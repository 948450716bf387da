import { test } from 'tap'
import { type ExactInt, maxExactInt } from '../../../src/formats/exact.ts'
import { createResetStore } from '../../../src/ratelimit/sums/postgres-resets.ts'
import { createPostgresSums } from '../../../src/ratelimit/sums/postgres-sums.ts'
import { createResetFeed } from '../../../src/ratelimit/sums/reset-feed.ts'
import { migrate } from '../../../src/store/postgres/migrate.ts'
import { openPool } from '../../../src/store/postgres/postgres.ts'
import { createDatabase } from '../../support/database.ts'
import { poll } from '../../support/poll.ts'

test('long windows and resets are kept in Postgres', async (t) => {
  const sql = openPool({ url: await createDatabase(t), connections: 2, statementTimeoutMs: 10_000 })
  t.teardown(() => sql.end())
  await migrate(sql)
  const sums = createPostgresSums(sql)
  const end = Date.now() + 3_600_000
  const [day, other] = ['pool\nday@2026-11-05', `${'x'.repeat(9_000)}@1`]

  await t.test('of each gateway the higher sum is kept', async (t) => {
    t.strictSame(await sums.load([day]), [new Map()])
    await sums.save('g1', [
      { id: day, end, used: 40 },
      { id: other, end, used: 2n ** 53n + 1n },
    ])
    await sums.save('g2', [
      { id: day, end, used: 7 },
      { id: other, end, used: maxExactInt },
    ])
    await sums.save('g1', [{ id: other, end, used: 2 ** 53 - 1 }])
    await sums.save('g1', [{ id: day, end, used: 12 }])
    const [found, none, long] = await sums.load([day, 'pool\nday@2026-11-06', other])
    t.strictSame(Object.fromEntries(found ?? []), { g1: 40, g2: 7 })
    t.strictSame(none, new Map())
    t.strictSame(Object.fromEntries(long ?? []), { g1: 2n ** 53n + 1n, g2: maxExactInt })
  })

  await t.test('a row ends a day after its window', async (t) => {
    const hour = 3_600_000
    await sums.save('g1', [
      { id: 'a@1', end: Date.now() - 23 * hour, used: 1 },
      { id: 'b@1', end: Date.now() - 25 * hour, used: 1 },
    ])
    // Another edition of the zones' rules knows that it ends later.
    await sums.save('g1', [
      { id: 'c@1', end: Date.now() - 25 * hour, used: 1 },
      { id: 'd@1', end, used: 1 },
    ])
    await sums.save('g1', [
      { id: 'c@1', end, used: 1 },
      { id: 'd@1', end: Date.now() - 25 * hour, used: 1 },
    ])
    await sums.save('g1', [{ id: day, end, used: 41 }])
    const found = await sums.load(['a', 'b', 'c', 'd'].map((name) => `${name}@1`))
    t.strictSame(
      found.map(({ size }) => size),
      [1, 0, 1, 1],
    )
  })

  await t.test('of each counter the last reset is kept', async (t) => {
    const resets = createResetStore(sql)
    const at = Date.now()
    await resets.write(['a', 'b'], at, 2n ** 53n + 1n)
    await resets.write(['b'], at + 1)
    await resets.write(['a'], at - 1, 9)
    const found = (await resets.read()).toSorted((x, y) => x.key.localeCompare(y.key))
    const latest = Math.max(...found.map(({ writtenAt }) => writtenAt))
    t.match(found, [
      { key: 'a', at, used: 2n ** 53n + 1n },
      { key: 'b', at: at + 1, used: 0 },
    ])
    t.equal((await resets.read(latest + 59_000)).length, 2, 'one may be late')
    t.equal((await resets.read(latest + 61_000)).length, 0)
  })

  await t.test('every gateway hears of a reset', async (t) => {
    const resets = createResetStore(sql)
    const heard = new Map<string, ExactInt>()
    const feed = createResetFeed(resets, (error) => t.fail(String(error)))
    t.teardown(() => feed.stop())
    t.match(
      (await feed.read()).filter(({ key }) => key === 'a'),
      [{ used: 2n ** 53n + 1n }],
      'also of those before its start',
    )
    feed.start((key, { used }) => heard.set(key, used))
    await resets.write(['c'], Date.now(), 3)
    feed.ring()
    await poll(() => heard.get('c') === 3, 'it is heard of')
  })
})
