import { hash } from 'node:crypto'
import {
  appendFileSync,
  copyFileSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import { type Test, test } from 'tap'
import { openJournalFolder } from '../../../src/journal/journal-folder.ts'
import type { Pool } from '../../../src/store/postgres/postgres.ts'
import { createLedgerFeed } from '../../../src/usage/ledger/feed.ts'
import { sourceNames } from '../../../src/usage/ledger/journal-files.ts'
import { createUsageLedger } from '../../../src/usage/ledger/postgres/ledger.ts'
import type { UsageGap, UsageLedger } from '../../../src/usage/store.ts'
import { createMigrated } from '../../support/key-store.ts'
import { earlierLine, envoyLine, type LineFields, scriptLine } from '../../support/line-of.ts'
import { createRandom } from '../../support/random.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

const start = Date.UTC(2026, 2, 1, 12, 30)

interface World {
  readonly sql: Pool
  readonly path: string
}

async function createWorld(t: Test): Promise<World> {
  return { sql: await createMigrated(t), path: join(temporaryFolder(t), 'usage.jsonl') }
}

/** A reader of the world's journal, as one process has it. */
function createReader(t: Test, { sql, path }: World, ledger?: Partial<UsageLedger>) {
  const clock = { now: start, monotonic: 0 }
  const seen: UsageGap[] = []
  const feed = createLedgerFeed({
    folder: openJournalFolder(dirname(path)),
    names: sourceNames(path),
    journal: 'journal',
    ledger: { ...createUsageLedger(sql), ...ledger },
    unusableUsage: 'allow',
    clock: () => clock.now,
    monotonic: () => clock.monotonic,
    onGap: (gap) => seen.push(gap),
  })
  t.teardown(() => feed.reset())
  /** Steps before and after the time in which a file may just be being moved. */
  async function settle(): Promise<void> {
    await feed.step()
    clock.monotonic += 10_001
    await feed.step()
  }
  return { ...feed, clock, seen, settle }
}

/** A line of a response that ended this many seconds after the start. */
function line(second: number, fields: LineFields = {}, write = scriptLine): string {
  return write({ start: start + 1_000 * second, ...fields })
}

/** A file that was renamed so often. */
function renamed({ path }: World, times = 1): string {
  return `${path}.${1_795_264_000_000 + times}`
}

async function totals({ sql }: World): Promise<Record<string, number>> {
  const rows = await sql<{ user: string; total: number }[]>`
    select username as user, sum(total_tokens)::float8 as total from tollgate_usage_hours
    group by 1 order by 1`
  return Object.fromEntries(rows.map(({ user, total }) => [user, total]))
}

async function placesOf({ sql }: World): Promise<readonly object[]> {
  const rows = await sql<{ places: object[] }[]>`select places from tollgate_usage_journals`
  return rows[0]?.places ?? []
}

/** Seconds after the start. */
async function gapsOf({ sql }: World): Promise<readonly (readonly [number, number])[]> {
  const rows = await sql<{ from: Date; to: Date }[]>`
    select from_time as from, to_time as to from tollgate_usage_gaps order by 1`
  return rows.map(({ from, to }) => [(+from - start) / 1_000, (+to - start) / 1_000])
}

test('a response is a sum of its hour and its payer', async (t) => {
  const world = await createWorld(t)
  const { step } = createReader(t, world)
  const reported = {
    total_tokens: 17,
    prompt_tokens: 7,
    completion_tokens: 10,
    details_cached_tokens: 3,
    details_reasoning_tokens: 4,
  }
  const paid = { key: 'id-1', payer: 'organization=acme&cost_center=42&rate=0.000002', reported }
  const dear = { ...paid, payer: 'organization=acme&cost_center=42&rate=0.5' }
  writeFileSync(
    world.path,
    [
      line(0, paid) + line(1, paid) + line(2, dear),
      line(3_600, paid),
      line(4, { status: 500 }) + line(5, { reported: null }),
      line(6, { reported: { input_tokens: 5, output_tokens: 6 } }),
    ].join(''),
  )
  await step()
  t.strictSame(
    JSON.parse(
      JSON.stringify(
        await world.sql`
          select to_char(hour at time zone 'utc', 'HH24') as hour, key_id, organization, cost_center,
            rate::text, answers::int, input_tokens::int as input, output_tokens::int as output,
            cached_tokens::int as cached, reasoning_tokens::int as reasoning,
            total_tokens::int as total, estimated_tokens::int as estimated
          from tollgate_usage_hours order by hour, key_id desc, rate`,
      ),
    ),
    [
      ['12', '0.000002', 2],
      ['12', '0.5', 1],
      ['12', null, 2],
      ['13', '0.000002', 1],
    ].map(([hour, rate, answers]) =>
      rate === null
        ? {
            ...{ hour, key_id: '', organization: '', cost_center: '', rate, answers },
            ...{ input: 5, output: 6, cached: 0, reasoning: 0, total: 11, estimated: 0 },
          }
        : {
            ...{ hour, key_id: 'id-1', organization: 'acme', cost_center: '42', rate, answers },
            ...{ input: 7 * Number(answers), output: 10 * Number(answers) },
            ...{ cached: 3 * Number(answers), reasoning: 4 * Number(answers) },
            ...{ total: 17 * Number(answers), estimated: 0 },
          },
    ),
  )
})

test('hostile names and figures are sums too', async (t) => {
  const world = await createWorld(t)
  const { step } = createReader(t, world)
  const huge = { total_tokens: Number.MAX_SAFE_INTEGER }
  const payer = `organization=${'x'.repeat(9_000)}%00&rate=1e999`
  for (const user of ['\0', '\ud800', 'x'.repeat(20_000), "'; drop table api_keys; --", ''])
    appendFileSync(world.path, line(0, { user, payer, reported: huge }))
  appendFileSync(world.path, line(1, { user: '', payer, reported: huge }))
  appendFileSync(world.path, line(0, { start: 999_999_999_999_999, ms: 8e15 }))
  appendFileSync(world.path, line(0, { start: 0 }))
  await step()
  const found = await totals(world)
  t.equal(Object.keys(found).length, 5, 'databases store neither NUL nor lone surrogates')
  for (const [user, total] of Object.entries(found))
    t.equal(total, user === 'ann' ? 2 : Number.MAX_SAFE_INTEGER, user.slice(0, 20))
})

test('readers that step, fail and die at any moment add each line once', async (t) => {
  const random = createRandom()
  t.comment(`SEED=${random.seed}`)
  const world = await createWorld(t)
  const real = createUsageLedger(world.sql)
  const flaky: Partial<UsageLedger> = {
    async feed(step) {
      if (random.below(4) === 0) throw new Error('before')
      const isOurs = await real.feed(step)
      if (random.below(4) === 0) throw new Error('after')
      return isOurs
    },
  }
  let readers = [createReader(t, world, flaky), createReader(t, world, flaky)]
  const expected: Record<string, number> = {}
  let files = 0
  for (let round = 0; round < 60; round += 1) {
    for (let i = random.below(5); i >= 0; i -= 1) {
      const user = `user-${random.below(3)}`
      const tokens = random.below(1_000)
      appendFileSync(world.path, line(round, { user, reported: { total_tokens: tokens } }))
      expected[user] = (expected[user] ?? 0) + tokens
    }
    if (random.below(6) === 0) {
      files += 1
      renameSync(world.path, renamed(world, files))
      writeFileSync(world.path, '')
    }
    // A process that is killed has no time to close anything.
    if (random.below(6) === 0) readers = [createReader(t, world, flaky), ...readers.slice(0, 1)]
    await Promise.all(readers.map(({ step }) => step().catch(() => {})))
  }
  const last = createReader(t, world)
  await last.step()
  await last.step()
  t.strictSame(await totals(world), expected)
  t.strictSame(await gapsOf(world), [])
})

test('a reader that another one has overtaken goes on where that one is', async (t) => {
  const world = await createWorld(t)
  const [one, other] = [createReader(t, world), createReader(t, world)]
  for (const { step } of [one, other]) await step()
  appendFileSync(world.path, line(0))
  await other.step()
  appendFileSync(world.path, line(1))
  await one.step()
  appendFileSync(world.path, line(2))
  await one.step()
  t.strictSame(await totals(world), { ann: 3 })
})

test('a copy of a file is not read again', async (t) => {
  const world = await createWorld(t)
  const { step } = createReader(t, world)
  writeFileSync(world.path, line(0) + line(1))
  await step()
  appendFileSync(world.path, line(2))
  copyFileSync(world.path, renamed(world))
  truncateSync(world.path)
  appendFileSync(world.path, line(3))
  await step()
  await step()
  t.strictSame(await totals(world), { ann: 4 })
  const later = createReader(t, world)
  await later.settle()
  t.strictSame(await totals(world), { ann: 4 }, 'by another process')
  t.strictSame(await gapsOf(world), [])
})

test('a file that is gone before it was read is a gap', async (t) => {
  const world = await createWorld(t)
  const first = createReader(t, world)
  writeFileSync(world.path, line(0) + line(10))
  await first.step()
  first.reset()
  appendFileSync(world.path, line(20))
  rmSync(world.path)
  writeFileSync(world.path, line(70) + line(80))
  const second = createReader(t, world)
  await second.step()
  t.strictSame(await gapsOf(world), [], 'it may just be being renamed')
  await second.settle()
  t.strictSame(await gapsOf(world), [[10, 70]])
  t.strictSame(await totals(world), { ann: 4 })
  await second.settle()
  await createReader(t, world).settle()
  t.strictSame(await gapsOf(world), [[10, 70]], 'once')
})

test('a rotated file that was read may go', async (t) => {
  const world = await createWorld(t)
  const { step, settle, isDone } = createReader(t, world)
  writeFileSync(world.path, line(0))
  await step()
  renameSync(world.path, renamed(world))
  writeFileSync(world.path, line(1))
  const size = line(0).length
  await step()
  t.ok(isDone({ inode: inodeOf(renamed(world)), size }))
  t.notOk(isDone({ inode: inodeOf(renamed(world)), size: size + 1 }))
  t.notOk(isDone({ inode: 'another', size: 1 }))
  rmSync(renamed(world))
  await settle()
  await settle()
  await createReader(t, world).settle()
  t.strictSame(await gapsOf(world), [])
  t.strictSame(await totals(world), { ann: 2 })
})

test('a file that returns after it was gone is not added again', async (t) => {
  const world = await createWorld(t)
  const { step, settle, clock } = createReader(t, world)
  writeFileSync(world.path, line(0) + line(10))
  await step()
  renameSync(world.path, renamed(world))
  writeFileSync(world.path, line(20))
  await step()
  const elsewhere = `${world.path}-elsewhere`
  renameSync(renamed(world), elsewhere)
  await step()
  // The reader keeps the removed file open for a minute, because others may still write to it.
  clock.now += 60_001
  await settle()
  renameSync(elsewhere, renamed(world))
  await settle()
  t.strictSame(await totals(world), { ann: 3 }, 'read to its end')
  renameSync(renamed(world), elsewhere)
  appendFileSync(elsewhere, line(15))
  const next = createReader(t, world)
  await next.settle()
  renameSync(elsewhere, renamed(world))
  await createReader(t, world).settle()
  t.strictSame(await totals(world), { ann: 4 }, 'what was added to it meanwhile is read')
  t.strictSame(await gapsOf(world), [])
})

test('a file that was gone with unread lines and returns is added once', async (t) => {
  const world = await createWorld(t)
  const { step } = createReader(t, world)
  writeFileSync(world.path, line(0) + line(10))
  await step()
  appendFileSync(world.path, line(20))
  const elsewhere = `${world.path}-elsewhere`
  renameSync(world.path, elsewhere)
  writeFileSync(world.path, line(70))
  const next = createReader(t, world)
  await next.settle()
  t.strictSame(await gapsOf(world), [[10, 70]])
  renameSync(elsewhere, renamed(world))
  await createReader(t, world).settle()
  t.strictSame(await totals(world), { ann: 4 })
})

test('only the latest places of missing files are stored', async (t) => {
  const world = await createWorld(t)
  const { step, clock } = createReader(t, world)
  for (let i = 0; i < 50; i += 1) {
    writeFileSync(world.path, line(i))
    await step()
    rmSync(world.path)
    clock.now += 60_001
    await step()
  }
  writeFileSync(world.path, line(50))
  await step()
  const [{ count } = { count: 0 }] = await world.sql<{ count: number }[]>`
    select jsonb_array_length(places) as count from tollgate_usage_journals`
  t.ok(count > 20 && count < 40, `${count} places`)
})

test('a file from an old backup is not added again', async (t) => {
  const world = await createWorld(t)
  const reader = createReader(t, world)
  const rotated = (second: number) => `${world.path}.${start + 1_000 * second + 999}`
  const backup = `${world.path}-backup`
  for (let i = 0; i < 50; i += 1) {
    writeFileSync(world.path, line(i))
    await reader.step()
    renameSync(world.path, rotated(i))
    await reader.step()
    if (i === 0) copyFileSync(rotated(0), backup)
    rmSync(rotated(i))
    reader.clock.now += 60_001
    await reader.step()
  }
  copyFileSync(backup, rotated(0))
  await reader.settle()
  await createReader(t, world).settle()
  t.strictSame(await totals(world), { ann: 50 })
  writeFileSync(rotated(60), line(60))
  await createReader(t, world).settle()
  t.strictSame(await totals(world), { ann: 51 }, 'but one that was written since is')
  t.strictSame(await gapsOf(world), [])
})

test('a file that was written after a clock was set back is added', async (t) => {
  const world = await createWorld(t)
  const reader = createReader(t, world)
  for (let i = 0; i < 50; i += 1) {
    writeFileSync(world.path, line(3_600 + i))
    await reader.step()
    renameSync(world.path, renamed(world, i))
    await reader.step()
    rmSync(renamed(world, i))
    reader.clock.now += 60_001
    await reader.step()
  }
  // It was rotated before the ledger read it, as in an outage of the database.
  const rotatedAt = start + 60_000
  writeFileSync(`${world.path}.${rotatedAt}`, line(50))
  const later = createReader(t, world)
  later.clock.now = rotatedAt + 1_000
  await later.settle()
  t.strictSame(await totals(world), { ann: 51 })
})

test('a torn line is a gap, and the others are read', async (t) => {
  for (const [write, end] of [
    [earlierLine, '.jsonl'],
    [envoyLine, '.envoy.jsonl'],
  ] as const) {
    const world = await createWorld(t)
    const { step } = createReader(t, world)
    const each = (second: number) => line(second, {}, write)
    const torn = each(1).slice(0, 120)
    const path = world.path.replace('.jsonl', end)
    writeFileSync(path, `${each(0) + torn}\n${each(5)}${torn}${each(9)}`)
    await step()
    t.strictSame(await totals(world), { ann: 3 }, end)
    t.strictSame(
      await gapsOf(world),
      [
        [0, 5],
        [5, 9],
      ],
      end,
    )
  }
})

test('what the script could not write whole, Envoy has', async (t) => {
  const world = await createWorld(t)
  const { step, seen } = createReader(t, world)
  writeFileSync(world.path, line(0) + line(1).slice(0, 120) + line(2))
  writeFileSync(world.path.replace('.jsonl', '.envoy.jsonl'), line(1, {}, envoyLine))
  await step()
  t.strictSame(await totals(world), { ann: 3 })
  t.strictSame(seen, [])
})

test('a torn line at the end of a renamed file is no reason to keep it', async (t) => {
  const world = await createWorld(t)
  const { step, isDone } = createReader(t, world)
  writeFileSync(world.path, line(0) + line(1).slice(0, 100))
  await step()
  const size = statSync(world.path).size
  t.notOk(isDone({ inode: inodeOf(world.path), size }), 'while it may still be written')
  renameSync(world.path, renamed(world))
  await step()
  t.ok(isDone({ inode: inodeOf(renamed(world)), size }))
  t.ok(isDone({ inode: 'empty', size: 0 }))
})

test('only what is metered and has ended is added', async (t) => {
  const world = await createWorld(t)
  const { settle, isDone } = createReader(t, world)
  const runs = (second: number) =>
    envoyLine({ start: start + 1_000 * second, type: 'DownstreamPeriodic' })
  const envoy = world.path.replace('.jsonl', '.envoy.jsonl')
  writeFileSync(world.path, line(0) + line(1, { metered: false }))
  writeFileSync(envoy, runs(2) + line(3, { user: 'bob' }, envoyLine) + runs(4))
  await settle()
  t.strictSame(await totals(world), { ann: 1, bob: 1 })
  for (const path of [world.path, envoy]) {
    t.ok(isDone({ inode: inodeOf(path), size: statSync(path).size }), 'but all of it is read')
  }
  const place = { offset: statSync(envoy).size, endedAt: start + 4_000, done: false }
  t.match(await placesOf(world), [{}, place])
})

test('an older state of a file is a gap, and is not added again', async (t) => {
  const world = await createWorld(t)
  const first = createReader(t, world)
  writeFileSync(world.path, line(0) + line(10))
  const older = readFileSync(world.path)
  appendFileSync(world.path, line(20))
  await first.step()
  first.reset()
  // A volume that was restored from a snapshot; Envoy appends to it.
  writeFileSync(world.path, older)
  const second = createReader(t, world)
  second.clock.now += 25_000
  await second.step()
  appendFileSync(world.path, line(30))
  await second.step()
  t.strictSame(await totals(world), { ann: 4 })
  t.strictSame(await gapsOf(world), [[20, 25]])
})

test('a ledger from a backup reads what it lacks, or says so', async (t) => {
  const world = await createWorld(t)
  const first = createReader(t, world)
  writeFileSync(world.path, line(0))
  await first.step()
  const tables = ['hours', 'journals', 'gaps'].map((name) => `tollgate_usage_${name}`)
  for (const name of tables) {
    await world.sql.unsafe(`create table backup_${name} as table ${name}`)
  }
  appendFileSync(world.path, line(1))
  await first.step()
  renameSync(world.path, renamed(world))
  writeFileSync(world.path, line(2))
  await first.step()
  first.reset()
  const restore = async () => {
    for (const name of tables)
      await world.sql.unsafe(`truncate ${name}; insert into ${name} select * from backup_${name}`)
  }
  await restore()
  t.strictSame(await totals(world), { ann: 1 })
  await createReader(t, world).settle()
  t.strictSame(await totals(world), { ann: 3 })
  t.strictSame(await gapsOf(world), [])
  await restore()
  rmSync(renamed(world))
  await createReader(t, world).settle()
  t.strictSame(await totals(world), { ann: 2 })
  t.strictSame(await gapsOf(world), [[0, 2]])
})

test('of a file that came and went since the backup it says so, too', async (t) => {
  const world = await createWorld(t)
  const first = createReader(t, world)
  writeFileSync(world.path, line(0))
  await first.step()
  renameSync(world.path, renamed(world))
  writeFileSync(world.path, '')
  await first.step()
  const tables = ['hours', 'journals', 'gaps'].map((name) => `tollgate_usage_${name}`)
  for (const name of tables) {
    await world.sql.unsafe(`create table backup_${name} as table ${name}`)
  }
  const restore = async () => {
    for (const name of tables)
      await world.sql.unsafe(`truncate ${name}; insert into ${name} select * from backup_${name}`)
  }
  const remove = async (path: string, second: number) => {
    rmSync(path)
    appendFileSync(world.path, line(second))
    await first.step()
  }
  await remove(renamed(world), 1)
  first.reset()
  await restore()
  // As another program may leave it.
  const noted = `${world.path}.fed`
  t.match(readFileSync(noted, 'utf8'), /^[1-9]\d*$/)
  writeFileSync(noted, 'torn')
  await createReader(t, world).settle()
  t.strictSame(await totals(world), { ann: 2 })
  t.strictSame(await gapsOf(world), [], 'the next file is left')
  t.match(readFileSync(noted, 'utf8'), /^\d+$/, 'it is written again')
  renameSync(world.path, renamed(world, 2))
  writeFileSync(world.path, line(2))
  await first.step()
  await remove(renamed(world, 2), 3)
  first.reset()
  await restore()
  const next = createReader(t, world)
  await next.settle()
  t.strictSame(await totals(world), { ann: 3 })
  t.strictSame(await gapsOf(world), [[0, 2]])
  await next.settle()
  await createReader(t, world).settle()
  t.strictSame(await gapsOf(world), [[0, 2]], 'once')
})

function inodeOf(path: string): string {
  return String(statSync(path, { bigint: true }).ino)
}

test('files are told apart by the id of their first response', async (t) => {
  const world = await createWorld(t)
  const { step, settle } = createReader(t, world)
  for (const path of [renamed(world, 1), renamed(world, 2), world.path]) {
    // As Envoy sorted the fields: all before the id may be the same in any number of files.
    const { bytes, group, id, ...rest } = JSON.parse(earlierLine({ group: 'g'.repeat(300), start }))
    const first = { bytes, cap: null, estimate: null, group, id, ...rest }
    writeFileSync(path, `${JSON.stringify(first)}\n${line(1)}`)
  }
  await step()
  await settle()
  t.strictSame(await totals(world), { ann: 6 })
  t.strictSame(await gapsOf(world), [])
})

test('a place that an earlier version has stored is found again', async (t) => {
  const world = await createWorld(t)
  const sorted = (id: string) => {
    const { group, ...rest } = JSON.parse(earlierLine({ start, group: 'g'.repeat(300) }))
    return `${JSON.stringify({ group, ...rest, id })}\n`
  }
  const first = sorted('first')
  // A longer digest of the first line.
  const digest = hash('sha256', first.slice(0, -1), 'hex').slice(0, 32)
  const earlier = line(1, {}, earlierLine)
  writeFileSync(world.path, first + earlier)
  const before = createReader(t, world)
  await before.settle()
  t.strictSame(await totals(world), { ann: 2 })
  before.reset()
  await world.sql`
    update tollgate_usage_journals set places = jsonb_set(places, '{0,head}', to_jsonb(${digest}::text))`
  renameSync(world.path, renamed(world))
  appendFileSync(renamed(world), line(2))
  // Another file that begins with the same bytes.
  writeFileSync(world.path, sorted('second') + line(3))
  const { settle } = createReader(t, world)
  await settle()
  await settle()
  t.strictSame(await totals(world), { ann: 5 })
  t.strictSame(await gapsOf(world), [])
  t.match(await placesOf(world), [{ head: digest }, {}], 'a process of that version finds it, too')
})

test('of two places of one file the later one counts', async (t) => {
  const world = await createWorld(t)
  writeFileSync(world.path, line(1) + line(2))
  const before = createReader(t, world)
  await before.settle()
  before.reset()
  const [place] = (await placesOf(world)) as readonly { head: string }[]
  // An earlier version has read the file again under its own head.
  const other = { ...place, head: `${place?.head}${'0'.repeat(16)}`, offset: 1 }
  await world.sql`
    update tollgate_usage_journals set places = ${JSON.stringify([place, other])}::jsonb`
  const { settle } = createReader(t, world)
  appendFileSync(world.path, line(3))
  await settle()
  t.strictSame(await totals(world), { ann: 3 })
})
