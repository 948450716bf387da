import { test } from 'tap'
import { maxTurn } from '../../../../bench/measure.ts'
import { createUsageLedger } from '../../../../src/usage/ledger/postgres/ledger.ts'
import { createUsageSums } from '../../../../src/usage/ledger/sums.ts'
import { chargeOf, type Usage } from '../../../../src/usage/rules/usage.ts'
import { createMigrated } from '../../../support/key-store.ts'

test('lines do not wait until thousands of rows are written', async (t) => {
  const sql = await createMigrated(t)
  const ledger = createUsageLedger(sql)
  const { revision } = await ledger.open('busy')
  const sums = createUsageSums()
  for (let i = 0; i < 4_000; i += 1) {
    const usage = { user: `user-${i}`, subscription: 'plenty', model: 'llm/sim', status: 200 }
    const reported = new Map([['total_tokens', 7]])
    const charge = { tokens: 7, unusable: false, estimated: 0 }
    sums.add({ ...usage, bytes: 100, reported }, charge, Date.now())
  }
  const rows = sums.drain()
  const begun = process.threadCpuUsage()
  const longest = await maxTurn(() =>
    ledger.feed({ journal: 'busy', revision, places: [], rows, gaps: [], closes: false }),
  )
  const { user, system } = process.threadCpuUsage(begun)
  const all = (user + system) / 1_000
  t.ok(longest < all / 4, `${longest} of ${all} ms in one turn`)
  const [found] = await sql`select count(*)::int as rows from tollgate_usage_hours`
  t.strictSame(found, { rows: 4_000 })
})

test('absurd figures with weights below 1 do not stop the ledger', async (t) => {
  const sql = await createMigrated(t)
  const ledger = createUsageLedger(sql)
  const most = Number.MAX_SAFE_INTEGER
  const usage: Usage = {
    ...{ user: 'alice', subscription: 'plenty', model: 'llm/sim', status: 200, bytes: 1 },
    reported: new Map(Object.entries({ prompt_tokens: 0, completion_tokens: most })),
    weights: 'output=0',
  }
  let { revision } = await ledger.open('absurd')
  const feed = async (lines: number) => {
    const sums = createUsageSums()
    for (let i = 0; i < lines; i += 1) sums.add(usage, chargeOf(usage, 'allow'), Date.now())
    const rows = sums.drain()
    await ledger.feed({ journal: 'absurd', revision, places: [], rows, gaps: [], closes: false })
    revision += 1
  }
  await feed(1_100)
  await feed(2)
  const read = () => sql<object[]>`
    select total_tokens::text as total, weight_tokens::text as weight from tollgate_usage_hours`
  t.strictSame(await read(), [{ total: `${most}`, weight: `${-most}` }])
  await sql`update tollgate_usage_hours set weight_tokens = -9223372036854775808`
  await feed(1)
  t.match(await read(), [{ weight: `${-most}` }], 'nor do sums that earlier versions did not cap')
})
