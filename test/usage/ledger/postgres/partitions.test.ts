import { test } from 'tap'
import { createUsageLedger } from '../../../../src/usage/ledger/postgres/ledger.ts'
import { maintainPartitions } from '../../../../src/usage/ledger/postgres/partitions.ts'
import type { LimitRow, UsageRow } from '../../../../src/usage/store.ts'
import { createMigrated } from '../../../support/key-store.ts'
import { unpriced } from '../../../support/unpriced.ts'

const day = 86_400_000
const now = Date.UTC(2026, 11, 15)

function rowAt(hour: number): UsageRow {
  const group = { hour, user: 'ann', subscription: 'basic', model: 'llm/sim', keyId: '', payer: '' }
  const tokens = { input: 0, output: 0, cached: 0, reasoning: 0, estimated: 0, ...unpriced }
  return { ...group, ...tokens, answers: 1, total: 1 }
}

function limitAt(begin: number): LimitRow {
  const limit = { resource: 'basic', name: 'daily', kind: 'cost', per: 'user', whom: 'ann' }
  return { ...limit, window: 'day@UTC', begin, amount: 5, first: begin, last: begin }
}

test('months have partitions before they begin', async (t) => {
  const sql = await createMigrated(t)
  const { made, dropped } = await maintainPartitions(sql, now, 400 * day)
  t.strictSame(made, [
    ...['tollgate_usage_hours_2026_12', 'tollgate_usage_hours_2027_01'],
    ...['tollgate_usage_limits_2026_12', 'tollgate_usage_limits_2027_01'],
  ])
  t.strictSame(dropped, [])
  t.strictSame(await maintainPartitions(sql, now, 400 * day), { made: [], dropped: [] })
  const all = Array.from({ length: 4 }, () => maintainPartitions(sql, now + 31 * day, 400 * day))
  const later = (await Promise.all(all)).flatMap((each) => each.made)
  const names = ['tollgate_usage_hours_2027_02', 'tollgate_usage_limits_2027_02']
  t.strictSame(later, names, 'once, by whichever process')
})

test('rows of other months get a partition, and old ones are dropped as a whole', async (t) => {
  const sql = await createMigrated(t)
  const ledger = createUsageLedger(sql)
  const hours = [now, now - 31 * day, now - 500 * day, now + 62 * day, 0]
  const { revision } = await ledger.open('journal')
  const step = { journal: 'journal', revision, places: [], gaps: [], closes: false }
  const limits = [limitAt(now - 520 * day), limitAt(now)]
  t.ok(await ledger.feed({ ...step, rows: hours.map(rowAt), limits }))
  const { made, dropped } = await maintainPartitions(sql, now, 400 * day)
  t.equal(made.filter((name) => name.startsWith('tollgate_usage_hours')).length, 6)
  t.strictSame(dropped.toSorted(), [
    ...['tollgate_usage_hours_1970_01', 'tollgate_usage_hours_2025_08'],
    'tollgate_usage_limits_2025_07',
  ])
  const [rest] = await sql`
    select count(*)::int as total,
      (select count(*)::int from tollgate_usage_hours_default) as misplaced,
      (select count(*)::int from tollgate_usage_limits) as limits
    from tollgate_usage_hours`
  t.strictSame({ ...rest }, { total: 3, misplaced: 0, limits: 1 })
  t.notOk(await ledger.feed({ ...step, rows: hours.map(rowAt) }), 'the position has moved')
})

test('a window longer than the retention keeps its charges until they are old', async (t) => {
  const sql = await createMigrated(t)
  const ledger = createUsageLedger(sql)
  // Before the database's clock, which decides, too.
  const past = now - 365 * day
  const quarter = { ...limitAt(past - 75 * day), name: 'quarter', window: `${90 * day}` }
  const charge = async (last: number) => {
    const { revision } = await ledger.open('journal')
    const step = { journal: 'journal', revision, places: [], gaps: [], closes: false, rows: [] }
    t.ok(await ledger.feed({ ...step, limits: [{ ...quarter, last }] }))
  }
  const tend = (at: number) => maintainPartitions(sql, at, 31 * day)
  const name = 'tollgate_usage_limits_2025_10'
  await charge(past - 60 * day)
  await charge(past - day)
  t.strictSame((await tend(past)).dropped, [])
  t.strictSame(await tend(past), { made: [], dropped: [] }, 'nor at the next call')
  const rows = await sql`select amount::int as sum from ${sql.identifier(name)}`
  t.strictSame(
    rows.map(({ sum }) => sum),
    [10],
  )
  t.strictSame((await tend(past + 29 * day)).dropped, [])
  t.strictSame((await tend(past + 31 * day)).dropped, [name])
})

test('a process whose clock is years ahead drops nothing', async (t) => {
  const sql = await createMigrated(t)
  const ledger = createUsageLedger(sql)
  const { revision } = await ledger.open('journal')
  const step = { journal: 'journal', revision, places: [], gaps: [], closes: false }
  const present = Date.now()
  await maintainPartitions(sql, present, 400 * day)
  t.ok(await ledger.feed({ ...step, rows: [rowAt(present), rowAt(present - 390 * day)] }))
  const { dropped } = await maintainPartitions(sql, present + 5 * 365 * day, 400 * day)
  t.strictSame(dropped, [])
  const [{ total } = {}] = await sql<{ total: number }[]>`
    select count(*)::int as total from tollgate_usage_hours`
  t.equal(total, 2)
  t.match(await ledger.open('journal'), { revision: revision + 1 }, 'nor its place')
})

test('without the right to create tables the default partition serves', async (t) => {
  const sql = await createMigrated(t)
  const [database] = await sql<{ name: string }[]>`select current_database() as name`
  const role = `reader_${database?.name}`
  await sql.unsafe(`create role ${role};
    grant select, insert, update, delete on all tables in schema public to ${role}`)
  t.teardown(() => sql.unsafe(`drop owned by ${role}; drop role ${role}`))
  const own = await sql.begin(async (transaction) => {
    await transaction.unsafe(`set local role ${role}`)
    const ledger = createUsageLedger(transaction)
    const { revision } = await ledger.open('journal')
    const step = { journal: 'journal', revision, places: [], gaps: [], closes: false }
    return await ledger.feed({ ...step, rows: [rowAt(now)] })
  })
  t.ok(own)
})
