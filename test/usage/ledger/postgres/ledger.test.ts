import { test } from 'tap'
import { maxTurn } from '../../../../bench/measure.ts'
import { createUsageLedger } from '../../../../src/usage/ledger/postgres/ledger.ts'
import { createUsageSums } from '../../../../src/usage/ledger/sums.ts'
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
