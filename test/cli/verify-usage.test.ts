import {
  appendFileSync,
  copyFileSync,
  readdirSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import { type Test, test } from 'tap'
import { openJournalFolder } from '../../src/journal/journal-folder.ts'
import { migrate } from '../../src/store/postgres/migrate.ts'
import { createLedgerFeed } from '../../src/usage/ledger/feed.ts'
import { sourceNames } from '../../src/usage/ledger/journal-files.ts'
import { ensureJournalName } from '../../src/usage/ledger/journal-name.ts'
import { forgetUser } from '../../src/usage/ledger/postgres/forget.ts'
import { createUsageLedger } from '../../src/usage/ledger/postgres/ledger.ts'
import { runAt } from '../support/command.ts'
import { createDatabase } from '../support/database.ts'
import { createPool } from '../support/key-store.ts'
import { earlierLine, envoyLine, type LineFields, scriptLine } from '../support/line-of.ts'
import { createRandom } from '../support/random.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

const start = Date.UTC(2026, 2, 1, 12, 30)

/** A line of a response that ended this many seconds after the start. */
function line(second: number, fields: LineFields = {}, write = scriptLine): string {
  return write({ start: start + 1_000 * second, ...fields })
}

async function createWorld(t: Test, now = start + 100_000_000) {
  const url = await createDatabase(t)
  const sql = await createPool(t, url)
  await migrate(sql)
  const path = join(temporaryFolder(t), 'usage.jsonl')
  const feed = createLedgerFeed({
    ...{ folder: openJournalFolder(dirname(path)), names: sourceNames(path) },
    ...{ journal: ensureJournalName(path), ledger: createUsageLedger(sql), unusableUsage: 'allow' },
    clock: () => now,
    monotonic: () => 0,
    onGap() {},
  })
  t.teardown(() => feed.reset())
  const env = { DATABASE_URL: url, USAGE_JOURNAL: path }
  const run = (...args: string[]) => runAt({ env }, 'usage', 'verify', ...args)
  return { sql, path, feed, run, env }
}

test('sums of rotated and growing files agree', async (t) => {
  const { path, feed, run, sql } = await createWorld(t)
  const random = createRandom()
  t.comment(`SEED=${random.seed}`)
  const pick = (from: readonly string[]) => from[random.below(from.length)] as string
  const users = ['ann', 'bob', 'x'.repeat(500), '\0']
  const lines = (from: number, count: number, write = scriptLine): string =>
    Array.from({ length: count }, (_, i) => {
      const fields = {
        user: pick(users),
        key: pick(['', 'k1', 'k2']),
        model: pick(['llm/sim', 'llm/other']),
        reported: { prompt_tokens: 1, completion_tokens: 2, total_tokens: random.below(1_000) },
      }
      return line(from + i * 10, fields, write)
    }).join('')
  const envoy = path.replace('.jsonl', '.envoy.jsonl')
  const running = envoyLine({ start: start + 6_000_000, type: 'DownstreamPeriodic' })
  // As an upgrade leaves it: lines of the form before, then of this one.
  writeFileSync(path, lines(0, 200, earlierLine) + lines(2_000, 200))
  await feed.step()
  renameSync(path, `${path}.1772368200000`)
  writeFileSync(path, `${lines(4_000, 400)}{"torn":\n`)
  writeFileSync(envoy, lines(5_000, 100, envoyLine) + running)
  await feed.step()
  appendFileSync(envoy, running + line(0, { metered: false }, envoyLine))
  appendFileSync(`${path}.1772368200000`, '\n{"v":1,"torn')
  t.match((await run()).out, /^\d\d sums agree\.$/, 'the rest is nothing that it adds')
  appendFileSync(path, lines(9_000, 1))
  const { status, out, err } = await run()
  t.match(
    out,
    /^Not finished: the ledger agrees so far \(\d\d sums\), and 1 line of the journal is not in the ledger yet\.$/,
  )
  t.equal(status, 0, 'a line that was not read yet is no difference')
  t.match(err, /^Everything since 2026-03-01T13:00:00Z is kept/m)
  t.match(
    err,
    /^The ledger lags: \d+ bytes of the journal are not in it yet, and were not compared\.$/m,
  )
  t.match(JSON.parse((await run('--json')).out), { unreadBytes: Number, unreadLines: 1 })
  await feed.step()
  t.match((await run()).out, /^\d\d sums agree\.$/)
  t.notMatch((await run()).err, 'lags')
  await forgetUser(sql, 'ann')
  t.match(await run(), { status: 0 }, 'a forgotten name is no difference')
})

test('names the hour, user, key and model of a difference', async (t) => {
  const { sql, path, feed, run } = await createWorld(t)
  writeFileSync(path, line(0) + line(4_000, { key: 'k1' }) + line(4_001, { user: 'bob' }))
  await feed.step()
  await sql`update tollgate_usage_hours set total_tokens = total_tokens + 4 where hour < '2026-03-01T13:00Z'`
  t.match(await run(), { status: 0 }, 'lines of the first hour may be gone')
  const more =
    /^The ledger has more than .*: total of ann, llm\/sim, 2026-03-01T12:00:00Z \(5, not 1\)\.$/m
  t.match(await run(), { out: '2 sums agree.', err: more }, 'which is said')
  await sql`update tollgate_usage_hours set total_tokens = total_tokens - 5 where hour < '2026-03-01T13:00Z'`
  await sql`update tollgate_usage_hours set total_tokens = 9, output_tokens = 3 where key_id = 'k1'`
  await sql`delete from tollgate_usage_hours where username = 'bob'`
  const { status, out } = await run()
  t.equal(status, 1)
  t.strictSame(
    out.split('\n').map((row) => row.split(/ +/)),
    [
      ['HOUR', 'USER', 'KEY', 'MODEL', 'FIGURE', 'LEDGER', 'JOURNAL'],
      ['2026-03-01T12:00:00Z', 'ann', '-', 'llm/sim', 'total', '0', '1'],
      ['2026-03-01T13:00:00Z', 'ann', 'k1', 'llm/sim', 'output', '3', '0'],
      ['2026-03-01T13:00:00Z', 'ann', 'k1', 'llm/sim', 'total', '9', '1'],
      ['2026-03-01T13:00:00Z', 'bob', '-', 'llm/sim', 'answers', '0', '1'],
      ['2026-03-01T13:00:00Z', 'bob', '-', 'llm/sim', 'total', '0', '1'],
    ],
  )
  const { differences, completeFrom } = JSON.parse((await run('--json')).out)
  t.match(differences[0], { group: { hour: '2026-03-01T12:00:00Z', user: 'ann' }, ledger: 0 })
  t.equal(completeFrom, '2026-03-01T13:00:00Z')
  t.match(await run('--from', '2026-03-01T14:00:00Z'), { status: 0, out: '0 sums agree.' })
  t.equal((await run('--to', '2026-03-01T12:59:00Z')).out.split('\n').length, 2)
})

/** Its weighted tokens are fewer than its tokens. */
const cached: LineFields = {
  weights: 'cached=100&write=1000&output=1000',
  reported: {
    ...{ prompt_tokens: 100, completion_tokens: 10, total_tokens: 110 },
    details_cached_tokens: 90,
  },
}

test('deleted lines with weights below 1 are no difference', async (t) => {
  const { path, feed, run } = await createWorld(t)
  writeFileSync(path, line(0, cached) + line(1, cached))
  await feed.step()
  renameSync(path, `${path}.1772368200000`)
  writeFileSync(path, line(2, cached) + line(4_000, cached))
  await feed.step()
  rmSync(`${path}.1772368200000`)
  t.match(await run(), { status: 0, out: /sums agree/ })
})

test('a forgotten user with weights below 1 is no difference', async (t) => {
  const { sql, path, feed, run } = await createWorld(t)
  writeFileSync(path, line(0) + line(4_000, cached))
  await feed.step()
  await forgetUser(sql, 'ann')
  t.match(await run(), { status: 0, out: /sums agree/ })
  appendFileSync(path, line(4_001, cached))
  await feed.step()
  t.match(await run(), { status: 0, out: /sums agree/ }, 'nor is later usage')
  await sql`update tollgate_usage_hours set weight_tokens = weight_tokens - 1
    where username = 'ann'`
  const { status, out } = await run()
  t.equal(status, 1)
  t.match(out, /llm\/sim +counted +28 +58$/m)
  t.notMatch(out, /total|weight/)
})

/** Seconds after the start; the minute after an hour that is kept whole. */
const kept = 4_000
const charged: LineFields = {
  ...{ prices: 'token=0.0000000015', reported: { prompt_tokens: 2, completion_tokens: 1 } },
  limits: [
    'plenty daily cost user day@Europe/Zurich',
    'plenty pool tokens group month1@UTC',
    'plenty burst requests user 60000',
    'Tenant all input installation 86400000',
  ],
  pool: 'research',
}

test('what limits were charged agrees, by limit, whom and window', async (t) => {
  const { sql, path, feed, run } = await createWorld(t)
  const cap = { key_limits: ['key cap tokens key 86400000'] }
  const lines = [
    line(0) + line(kept, charged) + line(kept + 70, charged),
    line(kept + 140, { ...charged, user: 'bob', pool: '', prices: 'token=9000000' }),
    line(kept + 150, { ...cap, key: 'k1' }) + line(kept + 160, { ...cap, key: 'k2' }),
    line(kept + 170, { ...charged, status: 503, metered: false }),
    line(0, { ...charged, limits: ['no limit', 'plenty odd cost user never', ''] }),
  ]
  writeFileSync(path, lines.slice(0, 2).join(''))
  await feed.step()
  appendFileSync(path, lines.slice(2).join(''))
  await feed.step()
  const rows = await sql`
    select resource, name, whom, amount::text as amount,
      to_char(begins_at at time zone 'utc', 'MM-DD HH24:MI') as begins,
      to_char(last_at - first_at, 'MI:SS') as span
    from tollgate_usage_limits where name <> 'all' and name <> 'cap' order by name, whom`
  t.strictSame(JSON.parse(JSON.stringify(rows)), [
    ...[
      ['burst', 'ann', '3', '03-01 13:00', '02:50'],
      ['burst', 'bob', '1', '03-01 13:00', '00:00'],
      ['daily', 'ann', '10', '02-28 23:00', '01:10'],
      ['daily', 'bob', '27000000000000000', '02-28 23:00', '00:00'],
      ['pool', '', '3', '03-01 00:00', '00:00'],
      ['pool', 'research', '6', '03-01 00:00', '01:10'],
    ].map(([name, whom, amount, begins, span]) => {
      return { resource: 'plenty', name, whom, amount, begins, span }
    }),
  ])
  t.match(await run(), { status: 0, out: /^\d+ sums agree\.$/ })
  for (const from of ['2026-03-01T13:37:00Z', '2026-03-01T14:00:00Z']) {
    t.match(await run('--from', from), { status: 0 }, 'of windows that began before a part')
  }
  await sql`update tollgate_usage_limits set amount = amount + 1 where name = 'daily' and whom = 'ann'`
  await sql`delete from tollgate_usage_limits where resource = 'key/k2'`
  const { status, out } = await run()
  t.equal(status, 1)
  t.strictSame(
    out.split('\n').map((row) => row.split(/ {2,}/).toSpliced(4, 1)),
    [
      ['LIMIT', 'OF', 'WHOM', 'WINDOW', 'LEDGER', 'JOURNAL'],
      ['key/k2 cap', 'tokens', 'ann', '86400000', '0', '1'],
      ['plenty daily', 'cost', 'ann', 'day@Europe/Zurich', '0.000000011', '0.00000001'],
    ],
  )
  const { limits } = JSON.parse((await run('--json')).out)
  t.match(limits, [{}, { limit: { per: 'user' }, ledger: '0.000000011', journals: '0.00000001' }])
  t.match(limits[1], { limit: { begin: /^2026-0\d-\d\dT\d\d:00:00Z$/ } })
})

test('windows whose ends a new edition of the zones has moved agree', async (t) => {
  const { sql, path, feed, run } = await createWorld(t, Date.UTC(2026, 3, 1))
  const limits = ['plenty daily tokens user day@Europe/Zurich', 'Tenant all tokens user month1@UTC']
  const write = async (...times: readonly string[]) => {
    const lines = times.map((at) => line((Date.parse(at) - start) / 1_000, { ...charged, limits }))
    appendFileSync(path, lines.join(''))
    await feed.step()
  }
  writeFileSync(path, line(0))
  await write('2026-03-28T22:30:00Z', '2026-03-29T21:30:00Z')
  await write('2026-03-29T22:30:00Z', '2026-03-29T23:30:00Z')
  // An edition without that night's change of clocks has the next day begin an hour later.
  await sql`update tollgate_usage_limits set amount = 6, last_at = '2026-03-29T22:30:00Z'
    where begins_at = '2026-03-28T23:00:00Z'`
  await sql`update tollgate_usage_limits set amount = 3, first_at = '2026-03-29T23:30:00Z',
    begins_at = '2026-03-29T23:00:00Z' where begins_at = '2026-03-29T22:00:00Z'`
  t.match(await run(), { status: 0, out: /sums agree/ })
  await write('2026-03-29T23:40:00Z')
  const [{ count } = { count: 0 }] = await sql<{ count: number }[]>`
    select count(*)::int from tollgate_usage_limits where begins_at > '2026-03-29T12:00:00Z'`
  t.equal(count, 2, 'of one day')
  t.match(await run(), { status: 0, out: /sums agree/ })
  await sql`update tollgate_usage_limits set amount = amount + 1 where begins_at = '2026-03-29T23:00:00Z'`
  t.match(JSON.parse((await run('--json')).out).limits, [{ ledger: 13, journals: 12 }])
  await sql`update tollgate_usage_limits set amount = amount - 1 where begins_at = '2026-03-29T23:00:00Z'`
  await write('2026-03-30T22:30:00Z')
  // By another one it begins an hour earlier.
  await sql`update tollgate_usage_limits set begins_at = '2026-03-30T21:00:00Z', amount = amount + 1
    where begins_at = '2026-03-30T22:00:00Z'`
  await sql`update tollgate_usage_limits set amount = amount - 1 where begins_at = '2026-03-29T23:00:00Z'`
  const { limits: days } = JSON.parse((await run('--json')).out)
  t.match(
    days,
    [
      { ledger: 11, journals: 12 },
      { ledger: 4, journals: 3 },
    ],
    'each day by itself',
  )
})

test('what is too high in the first hour of a journal is said, since its lines may be gone', async (t) => {
  const { sql, path, feed, run } = await createWorld(t)
  writeFileSync(path, line(0, charged) + line(kept, { ...charged, limits: [] }))
  await feed.step()
  t.notMatch(await run(), { err: 'has more' })
  await sql`update tollgate_usage_limits set amount = amount + 4 where name = 'pool'`
  const { status, out, err } = await run()
  t.match({ status, out }, { status: 0, out: '5 sums agree.' })
  t.match(err, /^The ledger has more .* gone: plenty pool of research \(7, not 3\)\.$/m)
  const { limits, beyond } = JSON.parse((await run('--json')).out)
  t.match({ limits, beyond }, { limits: [], beyond: { limits: [{ ledger: 7, journals: 3 }] } })
  const later = await run('--from', '2026-03-01T13:00:00Z')
  t.notMatch(later.err, 'has more', 'of a part of a window nothing is said')
})

test('sums that end where counters do agree', async (t) => {
  const { sql, path, feed, run } = await createWorld(t)
  const huge = { ...charged, prices: 'token=900000000000' }
  writeFileSync(path, line(0) + line(kept, huge))
  await feed.step()
  appendFileSync(path, line(kept + 1, huge) + line(kept + 2, { ...huge, key: 'k1' }))
  await feed.step()
  t.match(await run(), { status: 0, out: /^\d+ sums agree\.$/ })
  await sql`update tollgate_usage_limits set amount = 9007199254740993 where name = 'pool'`
  const { status, out } = await run('--json')
  t.match([status, JSON.parse(out).limits], [1, [{ ledger: '9007199254740993', journals: 9 }]])
})

test('who was forgotten is no difference of a limit', async (t) => {
  const { sql, path, feed, run } = await createWorld(t)
  writeFileSync(path, line(kept, charged) + line(kept + 1, { ...charged, user: 'bob' }))
  await feed.step()
  await forgetUser(sql, 'ann')
  const named = await sql`select 1 from tollgate_usage_limits where whom = 'ann'`
  t.equal(named.length, 0)
  t.match(await run(), { status: 0, out: /sums agree/ })

  appendFileSync(path, line(kept + 2, charged))
  await feed.step()
  t.match(await run(), { status: 0, out: /sums agree/ }, 'who comes back begins anew there')
  const takeOfBob = (amount: number) => sql`
    update tollgate_usage_limits set amount = amount - ${amount} where name = 'daily' and whom = 'bob'`
  await takeOfBob(1)
  t.match(JSON.parse((await run('--json')).out).limits, [{ limit: { whom: 'bob' } }], 'and no more')
  await takeOfBob(-1)
  await forgetUser(sql, 'ann')
  appendFileSync(path, line(kept + 3, charged) + line(kept + 4, charged))
  await feed.step()
  t.match(await run(), { status: 0, out: /sums agree/ }, 'and has several names there')
  await sql`update tollgate_usage_limits set amount = amount - 1 where name = 'daily' and whom = 'ann'`
  t.match(await run(), { status: 1, out: /plenty daily +cost +ann / })
})

test('says what it cannot compare', async (t) => {
  const { sql, path, feed, run } = await createWorld(t)
  writeFileSync(path, line(0))
  await feed.step()
  const ledger = createUsageLedger(sql)
  const { revision } = await ledger.open('0123456789abcdef')
  const gaps = [{ from: start, to: start + 60_000 }]
  const step = { journal: '0123456789abcdef', revision, places: [], rows: [], closes: false }
  await ledger.feed({ ...step, gaps })
  const { status, err } = await run()
  t.equal(status, 0)
  t.match(err, 'No file of the journal 0123456789abcdef was found.')
  t.match(err, 'between 2026-03-01T12:30:00Z and 2026-03-01T12:31:00Z was lost before it was read.')
  t.match(err, 'The journal has no complete hour')
  t.match(JSON.parse((await run('--json')).out), {
    gaps: [{ from: '2026-03-01T12:30:00Z', to: '2026-03-01T12:31:00Z' }],
    completeFrom: '9999-12-31T00:00:00Z',
  })
})

test('a journal that is not there is named, and stays away', async (t) => {
  const url = await createDatabase(t)
  const folder = temporaryFolder(t)
  const env = { DATABASE_URL: url, USAGE_JOURNAL: join(folder, 'other', 'usage.jsonl') }
  const verified = await runAt({ env }, 'usage', 'verify')
  t.match(verified, { status: 1, err: /No service has read a journal at .*USAGE_JOURNAL/ })
  t.strictSame(readdirSync(folder), [])
})

test('invalid arguments say where help is', async (t) => {
  const { run } = await createWorld(t)
  for (const args of [
    ['x'],
    ['--from', 'monday'],
    ['--to', '2026-13-01'],
    ['--from', '2026-03-02', '--to', '2026-03-01'],
  ])
    t.match(await run(...args), { status: 2, err: / See tollgate usage.* --help\.$/ })
})

test('what a restart of the machine has emptied is read from its copy', async (t) => {
  const { path, feed, run, env } = await createWorld(t)
  const data = temporaryFolder(t)
  const name = ensureJournalName(path, data)
  const verify = () => runAt({ env: { ...env, DATA_DIR: data } }, 'usage', 'verify')
  writeFileSync(path, line(0) + line(4_000))
  writeFileSync(path.replace('.jsonl', '.envoy.jsonl'), line(4_001, { user: 'bob' }, envoyLine))
  await feed.step()
  for (const name of readdirSync(dirname(path))) {
    copyFileSync(join(dirname(path), name), join(data, 'journal', name))
  }
  t.match(await verify(), { status: 0, out: '3 sums agree.' }, 'each line once')
  rmSync(dirname(path), { recursive: true })
  t.match(await verify(), { status: 0, out: '3 sums agree.' })
  t.match(await run(), { status: 1, err: 'No service has read a journal' })
  t.equal(ensureJournalName(path, data), name, 'the service goes on under its name')
})
