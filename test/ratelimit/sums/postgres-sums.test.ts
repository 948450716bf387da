import { test } from 'tap'
import { createKeptResets } from '../../../src/ratelimit/sums/kept-resets.ts'
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
      { id: other, end, used: 2 ** 53 - 1 },
    ])
    await sums.save('g2', [{ id: day, end, used: 7 }])
    await sums.save('g1', [{ id: day, end, used: 12 }])
    const [found, none, long] = await sums.load([day, 'pool\nday@2026-11-06', other])
    t.strictSame(Object.fromEntries(found ?? []), { g1: 40, g2: 7 })
    t.strictSame(none, new Map())
    t.strictSame(long, new Map([['g1', 2 ** 53 - 1]]))
  })

  await t.test('a row ends a day after its window', async (t) => {
    const hour = 3_600_000
    await sums.save('g1', [
      { id: 'a@1', end: Date.now() - 23 * hour, used: 1 },
      { id: 'b@1', end: Date.now() - 25 * hour, used: 1 },
    ])
    await sums.save('g1', [{ id: day, end, used: 41 }])
    t.strictSame(await sums.load(['a@1', 'b@1']), [new Map([['g1', 1]]), new Map()])
  })

  await t.test('of each counter the last reset is kept', async (t) => {
    const resets = createKeptResets(sql)
    const at = Date.now()
    await resets.write(['a', 'b'], at, 500)
    await resets.write(['b'], at + 1)
    await resets.write(['a'], at - 1, 9)
    const found = (await resets.read()).toSorted((x, y) => x.key.localeCompare(y.key))
    const latest = Math.max(...found.map(({ writtenAt }) => writtenAt))
    t.match(found, [
      { key: 'a', at, used: 500 },
      { key: 'b', at: at + 1, used: 0 },
    ])
    t.equal((await resets.read(latest + 59_000)).length, 2, 'one may be late')
    t.equal((await resets.read(latest + 61_000)).length, 0)
  })

  await t.test('every gateway hears of a reset', async (t) => {
    const resets = createKeptResets(sql)
    const heard = new Map<string, number>()
    const feed = createResetFeed(resets, (error) => t.fail(String(error)))
    t.teardown(() => feed.stop())
    t.match(
      (await feed.read()).filter(({ key }) => key === 'a'),
      [{ used: 500 }],
      'also of those before its start',
    )
    feed.start((key, { used }) => heard.set(key, used))
    await resets.write(['c'], Date.now(), 3)
    feed.ring()
    await poll(() => heard.get('c') === 3, 'it is heard of')
  })
})
