import { test } from 'tap'
import { readPastUsage, TooManyResponses } from '../../../src/usage/ledger/past.ts'
import { createUsageLedger } from '../../../src/usage/ledger/postgres/ledger.ts'
import { readPastSums } from '../../../src/usage/ledger/postgres/state.ts'
import { createMigrated } from '../../support/key-store.ts'
import { earlierLine, envoyLine, scriptLine } from '../../support/line-of.ts'
import { unpriced } from '../../support/unpriced.ts'

const hour = 3_600_000
const start = Date.UTC(2026, 2, 1)
const span = { from: start, to: start + 24 * hour }
const group = { user: 'ann', subscription: 'plenty', model: 'llm/sim' }

/** A file with a line of each hour, and with what is no usage. */
async function* fileAt(write: typeof scriptLine, ...hours: readonly number[]) {
  async function* lines() {
    for (const each of hours) {
      const times = { start: start + each * hour, ms: 1_000 }
      yield write(times)
      yield scriptLine({ ...times, metered: false })
      yield envoyLine({ ...times, type: 'DownstreamPeriodic' })
    }
  }
  yield { source: 'script', isCurrent: true, lines: lines() } as const
}

const rowOf = (each: number, answers: number) => ({
  ...{ ...group, hour: start + each * hour, answers, total: 10 * answers, refusals: 0 },
})

test('only hours of which all lines are kept are told by lines', async (t) => {
  const kept = [
    { journal: 'one', files: fileAt(scriptLine, 0, 1, 1, 2, 30) },
    { journal: 'two', files: fileAt(earlierLine, 2) },
  ]
  const rows = [rowOf(0, 1), rowOf(1, 3), rowOf(2, 2), rowOf(3, 1), rowOf(4, 0)]
  const past = await readPastUsage({ span, rows, kept, unusableUsage: 'allow', maxResponses: 5 })
  t.strictSame(past.summed, [
    { from: start + hour, to: start + 2 * hour },
    { from: start + 3 * hour, to: start + 4 * hour },
  ])
  t.strictSame(
    past.usage.map(({ startedAt, answers, tokens }) => [
      (startedAt - start) / hour,
      answers,
      tokens,
    ]),
    [
      [0, undefined, 1],
      [2, undefined, 1],
      [2, undefined, 1],
      [1, 3, 30],
      [3, 1, 10],
    ],
  )
  t.equal(new Set(past.usage.map(({ spender }) => spender)).size, 1, 'one object for each spender')
})

test('too much to be held is refused', async (t) => {
  const kept = [{ journal: 'one', files: fileAt(envoyLine, 0, 1, 2) }]
  const asked = { span, rows: [], kept, unusableUsage: 'allow', maxResponses: 2 } as const
  t.ok((await readPastUsage(asked).catch((error: unknown) => error)) instanceof TooManyResponses)

  const sql = await createMigrated(t)
  const ledger = createUsageLedger(sql)
  const { revision, places } = await ledger.open('one')
  const sums = { input: 0, output: 0, cached: 0, reasoning: 0, estimated: 0, ...unpriced }
  const rows = [rowOf(0, 1), rowOf(1, 1), rowOf(25, 1)].map(({ refusals: _, ...row }) => ({
    ...{ ...sums, ...row, keyId: '', payer: '' },
  }))
  await ledger.feed({ journal: 'one', revision, places, rows, gaps: [], closes: false })
  t.equal((await readPastSums(sql, span.from, span.to, 2)).rows.length, 2)
  await t.rejects(readPastSums(sql, span.from, span.to, 1), { code: 'usage_timeout' })
})
