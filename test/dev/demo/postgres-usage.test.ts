import { test } from 'tap'
import { removeDemoUsage, writeDemoUsage } from '../../../dev/demo/postgres-usage.ts'
import { createUsageLedger } from '../../../src/usage/ledger/postgres/ledger.ts'
import { createUsageReader } from '../../../src/usage/ledger/postgres/reader.ts'
import { readLedgerState, readPastSums } from '../../../src/usage/ledger/postgres/state.ts'
import { createMigrated } from '../../support/key-store.ts'
import { unpriced } from '../../support/unpriced.ts'

const dayMs = 86_400_000
const today = Date.UTC(2026, 2, 3)
const row = (hour: number) => ({
  ...{ hour, user: 'demo-one', subscription: 'premium', model: 'llm/sim', keyId: '' },
  ...{ payer: 'rate=0.000002', answers: 2, input: 3, output: 4, cached: 1, reasoning: 1 },
  ...{ total: 7, estimated: 0, refusals: 5, ...unpriced },
})
const days = (first: number) =>
  new Map([first, first + dayMs].map((day) => [day, [row(day), row(day + 3_600_000)]]))
const span = { from: today - 9 * dayMs, to: today + 9 * dayMs }

test('made-up usage is read, and in no bill, comparison or simulation', async (t) => {
  const sql = await createMigrated(t)
  const { refusals, ...real } = { ...row(today), total: 1_000 }
  const ledger = createUsageLedger(sql)
  const { revision } = await ledger.open('journal')
  const feed = { journal: 'journal', places: [], gaps: [], closes: false, rows: [real] }
  await ledger.feed({ ...feed, revision })
  const read = async (onlyReal: boolean) => {
    const query = { ...span, unit: undefined, by: ['user'] as const, only: {}, after: undefined }
    const [sum] = await createUsageReader(sql).read({ ...query, onlyReal, limit: 9 })
    return [sum?.total, sum?.refusals]
  }
  const written: number[] = []
  await writeDemoUsage(sql, days(today - dayMs), (number) => written.push(number))
  t.strictSame(written, [1, 2])
  t.strictSame(await read(false), [1_028, 20])
  t.strictSame(await read(true), [1_000, 0])
  const { rows } = await readLedgerState(sql, span.from, span.to)
  t.match(rows, [{ total: 1_000 }])
  t.equal(rows.length, 1)
  t.match((await readPastSums(sql, span.from, span.to, 9)).rows, [{ total: 1_000 }])

  await Promise.all([1, 2].map(() => writeDemoUsage(sql, days(today - dayMs), () => {})))
  t.strictSame(await read(false), [1_028, 20], 'two more at once change nothing')
  await writeDemoUsage(sql, days(today), () => {})
  t.strictSame(await read(false), [1_028, 20], 'what is of an earlier day goes')
  await ledger.feed({ ...feed, revision: revision + 1 })
  t.strictSame(await read(true), [2_000, 0], 'what the same user really has is no part of it')
  t.equal(await removeDemoUsage(sql), 4)
  t.equal(await removeDemoUsage(sql), 0)
  const counted =
    await sql`select answers::int as answers, total_tokens::int as total, demo from tollgate_usage_hours`
  t.strictSame(counted, [{ answers: 4, total: 2_000, demo: false }])
})
