import { type Test, test } from 'tap'
import { createIncreaseStore } from '../../src/ratelimit/increases/postgres-increases.ts'
import { userInLines } from '../../src/ratelimit/rules/counter-key.ts'
import { createResetStore } from '../../src/ratelimit/sums/postgres-resets.ts'
import { migrate } from '../../src/store/postgres/migrate.ts'
import { createUsageLedger } from '../../src/usage/ledger/postgres/ledger.ts'
import { createLimitRequests } from '../../src/usage/limit-requests/postgres-limit-requests.ts'
import { runAt } from '../support/command.ts'
import { createDatabase } from '../support/database.ts'
import { createPool } from '../support/key-store.ts'
import { unpriced } from '../support/unpriced.ts'

async function start(t: Test) {
  const url = await createDatabase(t)
  const sql = await createPool(t, url)
  await migrate(sql)
  const ledger = createUsageLedger(sql)
  async function fill(users: readonly string[]): Promise<void> {
    const { revision } = await ledger.open('journal')
    const rows = users.map((user) => ({
      ...{ user, hour: 0, subscription: 'basic', model: 'llm/small', keyId: '', payer: '' },
      ...{ answers: 1, input: 0, output: 0, cached: 0, reasoning: 0, total: 5, estimated: 0 },
      ...unpriced,
    }))
    const step = { journal: 'journal', revision, places: [], gaps: [], closes: false }
    await ledger.feed({ ...step, rows })
  }
  const run = (answer: string | undefined, ...args: string[]) =>
    runAt({ env: { DATABASE_URL: url }, answer }, 'usage', 'forget', ...args)
  const read = async () => {
    const rows = await sql<{ user: string; id: string; total: number }[]>`
      select username as user, id, total_tokens::int as total from tollgate_usage_hours order by 1`
    return rows.map(({ user, id, total }) => ({ user, id, total }))
  }
  return { sql, fill, run, read }
}

test("replaces a user's name, and keeps the sums", async (t) => {
  const { sql, fill, run, read } = await start(t)
  const long = 'x'.repeat(1_000)
  await fill(['ann', 'bob', long])
  const { write, read: resets } = createResetStore(sql)
  const counters = ['ann', 'joann', 'bob'].map((user) => `basic\nllm/small\n60000\n${user}`)
  await write(counters, Date.now())
  const increases = createIncreaseStore(sql)
  const createdAt = Date.now()
  const more = { limit: 9, until: createdAt + 60_000, createdAt, reason: 'a test' }
  for (const counter of counters)
    await increases.add({ ...more, counter, per: 'user', createdBy: 'ann' })
  const ofKey = ['ann', userInLines(long)].map((user) => `basic\n@id#daily\ntokens-1\n${user}`)
  for (const counter of ofKey)
    await increases.add({ ...more, counter, per: 'key', createdBy: 'bob' })
  const requests = createLimitRequests(sql, true)
  const [mine = '', , others = ''] = counters
  await requests.add({ ...more, counter: mine, per: 'user', user: 'ann' })
  const other = await requests.add({ ...more, counter: others, per: 'user', user: 'bob' })
  const verdict = { by: 'ann', at: createdAt, reason: null, grant: undefined }
  await requests.decide(other?.id as string, verdict)
  const before = await read()
  t.equal((await run('n', 'ann')).status, 1)
  t.strictSame(await read(), before, 'not without a yes')
  const done = await run('y', 'ann')
  t.match(done, { status: 0, out: /^Renamed ann to forgotten-[0-9a-f-]{36} in 1 rows\.$/ })
  const after = await read()
  t.strictSame(
    after.map(({ user, total }) => [user.slice(0, 9), total]),
    [
      ['bob', 5],
      ['forgotten', 5],
      ['xxxxxxxxx', 5],
    ],
  )
  t.not(after[1]?.id, before[0]?.id, 'the digest of the name is gone too')
  t.strictSame((await resets()).map(({ key }) => key).toSorted(), counters.slice(1).toSorted())
  const raised = await increases.read(createdAt)
  const left = [...counters.slice(1), ...ofKey.slice(1)].toSorted()
  t.strictSame(raised.map(({ counter }) => counter).toSorted(), left)
  for (const { per, createdBy } of raised) t.match(createdBy, per === 'key' ? 'bob' : /^forgotten-/)
  const page = { limit: 9, offset: 0 }
  t.strictSame(await requests.list('ann', createdAt, page), [])
  t.match(await requests.list('bob', createdAt, page), [{ decidedBy: /^forgotten-/ }])
  const notices = await sql<{ body: string }[]>`select body from tollgate_notices`
  t.match(notices, [{ body: /limit\.request\.created.*"user":"bob"/ }])
  t.equal(notices.length, 1)
  t.equal((await run('y', long)).status, 0, 'a name that was cut')
  t.equal((await increases.read(createdAt)).length, 2)
  t.match(await run(undefined, 'ann', '--yes'), {
    status: 1,
    err: 'The ledger has no usage of ann.',
  })
  await fill(['ann'])
  t.equal((await read()).filter(({ user }) => user === 'ann').length, 1, 'later usage is new')
})

test('a pool of the same name is not of the user', async (t) => {
  const { sql, run, fill } = await start(t)
  await fill(['ann'])
  const ledger = createUsageLedger(sql)
  const { revision } = await ledger.open('journal')
  const step = { journal: 'journal', revision, places: [], gaps: [], closes: false, rows: [] }
  const [window, kind, whom] = ['month1@UTC', 'cost', 'ann'] as const
  const charge = { resource: 'team', kind, whom, window, begin: 0, amount: 5, first: 0, last: 0 }
  const limits = [
    { ...charge, name: 'each', per: 'user' },
    { ...charge, name: 'pool', per: 'group' },
  ] as const
  await ledger.feed({ ...step, limits })
  const counters = limits.map(({ name }) => `team\n#${name}\n${kind}-${window}\n${whom}`)
  const { write, read } = createResetStore(sql)
  await write(counters, Date.now())
  t.equal((await run('y', 'ann')).status, 0)
  t.strictSame(
    (await read()).map(({ key }) => key),
    counters.slice(1),
  )
})

test('a user without usage is forgotten elsewhere', async (t) => {
  const { sql, run } = await start(t)
  const increases = createIncreaseStore(sql)
  const now = Date.now()
  const counter = 'basic\nllm/small\n60000\nann'
  const increase = { counter, limit: 9, until: now + 60_000, createdAt: now, reason: 'a test' }
  await increases.add({ ...increase, per: 'user', createdBy: 'bob' })
  const first = await run(undefined, 'ann', '--yes', '--json')
  t.equal(first.status, 0)
  t.match(JSON.parse(first.out), { rows: 0, name: /^forgotten-/ })
  t.strictSame(await increases.read(now), [])
  await increases.add({ ...increase, per: 'user', createdBy: 'bob' })
  t.match(await run(undefined, 'ann', '--yes'), {
    status: 0,
    out: /^Removed ann, who has no usage, from .* names forgotten-/,
  })
  t.equal((await run(undefined, 'ann', '--yes')).status, 1, 'once')
})

test('invalid arguments say where help is', async (t) => {
  const { run } = await start(t)
  for (const args of [[], ['a', 'b'], ['a', '--all']])
    t.match(await run('y', ...args), { status: 2, err: / See tollgate usage forget --help\.$/ })
})
