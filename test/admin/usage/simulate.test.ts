import { writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { type Test, test } from 'tap'
import { openJournalFolder } from '../../../src/journal/journal-folder.ts'
import { createLedgerFeed } from '../../../src/usage/ledger/feed.ts'
import { sourceNames } from '../../../src/usage/ledger/journal-files.ts'
import { ensureJournalName } from '../../../src/usage/ledger/journal-name.ts'
import { createUsageLedger } from '../../../src/usage/ledger/postgres/ledger.ts'
import { readPastSums } from '../../../src/usage/ledger/postgres/state.ts'
import { createSimulator } from '../../../src/usage/ledger/simulation.ts'
import { runAt } from '../../support/command.ts'
import { accessPolicy, modelRef, subscription } from '../../support/documents.ts'
import { createKeyApi } from '../../support/key-api.ts'
import { scriptLine } from '../../support/line-of.ts'
import { refused } from '../../support/refusals.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'
import { unpriced } from '../../support/unpriced.ts'
import { endOf } from '../../support/window-ends.ts'

const route = 'POST /v1/simulate'
const hour = 3_600_000
/** The API's clock is at 12:00 of this day. */
const today = Date.UTC(2026, 2, 1)
const at = (time: number) => new Date(time - (time % 1_000)).toISOString().replace('.000Z', 'Z')

type Limits = readonly (readonly [number, string])[]

/** Resources with these limits of the subscription `plenty`; `more`: of its models, `spec`: of itself. */
function bundle(limits: Limits, more: object = {}, spec: object = {}): string {
  return [
    modelRef('sim'),
    accessPolicy('open', ['llm/sim'], { groups: ['team'] }),
    subscription('plenty', { groups: ['team'] }, { 'llm/sim': limits }, { ofModels: more, spec }),
  ]
    .map((document) => JSON.stringify(document))
    .join('\n---\n')
}

/** A response of 100 tokens, this long after the start of the day. */
interface Past {
  readonly ms: number
  readonly user?: string
  readonly took?: number
  readonly fields?: object
}

/** The API with a journal of these responses, which are in its ledger. */
async function start(t: Test, responses: readonly Past[]) {
  const path = join(temporaryFolder(t), 'usage.jsonl')
  const lines = responses.map(({ ms, took = 1_000, user = 'ann', fields }) =>
    scriptLine({
      ...{ start: today + ms - took, ms: took, user, reported: { total_tokens: 100 } },
      ...fields,
    }),
  )
  writeFileSync(path, lines.join(''))
  const api = await createKeyApi(t, { journal: path })
  const ledger = createUsageLedger(api.sql)
  const feed = createLedgerFeed({
    ...{ folder: openJournalFolder(dirname(path)), names: sourceNames(path) },
    ...{ journal: ensureJournalName(path), ledger, unusableUsage: 'allow' },
    ...{ clock: () => api.now, monotonic: () => 0, onGap() {} },
  })
  await feed.step()
  feed.reset()
  const ask = (resources: string, more: object = {}, as = 'admin') =>
    api.ask(route, { as, body: { resources, ...more } })
  return { api, ledger, path, ask }
}

test('a lower limit would have refused (200)', async (t) => {
  // When a minute of ann's begins.
  const begin = endOf('1m', 'ann', today + 10 * hour)
  const minutes = Array.from({ length: 10 }, (_, i) => ({ ms: begin - today + i * 10_000 }))
  const { ask, api } = await start(t, [...minutes, { ms: 10 * hour, user: 'bob' }])
  await createUsageLedger(api.sql).addRefusals([
    {
      ...{ hour: today + 10 * hour, user: 'ann', subscription: 'plenty', model: 'llm/sim' },
      ...{ keyId: '', payer: '', refusals: 3 },
    },
  ])
  const limits: Limits = [
    [300, '1m'],
    [100_000, '1h'],
    [1_000_000, '744h'],
  ]
  const answer = await ask(bundle(limits))
  t.equal(answer.statusCode, 200, answer.body)
  const kind = { name: null, kind: 'tokens' }
  const limit = { subscription: 'plenty', model: 'llm/sim', ...kind, scope: 'user' }
  t.strictSame(answer.json(), {
    from: '2026-02-22T12:00:00Z',
    to: '2026-03-01T12:00:00Z',
    answers: 11,
    refused: 4,
    refused_then_approximate: 3,
    refusals: [
      {
        ...{ user: 'ann', ...limit, reason: 'limit', window: '1m', limit: 300, requests: 4 },
        ...{ tokens: 400, first_at: at(begin + 29_000) },
        ...{ last_at: at(begin + 59_000), estimated: false },
      },
    ],
    more_refusals: 0,
    limits: [
      {
        ...{ ...limit, window: '1m', limit: 300, most: 300, most_by: 'ann', near: true },
        most_at: at(begin + 20_000),
      },
      {
        ...{ ...limit, window: '1h', limit: 100_000, most: 600, most_by: 'ann', near: false },
        most_at: at(begin + 90_000),
      },
      {
        ...{ ...limit, window: '744h', limit: 1_000_000, most: 600, most_by: 'ann', near: false },
        most_at: at(begin + 90_000),
      },
    ],
    more_limits: 0,
    not_judged: [
      {
        ...{ ...kind, window: '744h', from: '2026-02-22T12:00:00Z' },
        ...{ to: '2026-03-01T12:00:00Z', because: 'longer_than_the_time' },
      },
    ],
    gaps: [],
    problems: [],
  })
  t.match(api.audited.at(-1), { action: 'usage.read', outcome: 'success' })
})

test('Subscriptions without a mode have that of ADMISSION_MODE', async (t) => {
  const end = endOf('1m', 'ann', today + 10 * hour) - today
  const { api, path } = await start(t, [{ ms: end + 1_000, took: 3_000 }, { ms: end + 3_000 }])
  const span = { from: today, to: today + 12 * hour }
  for (const [mode, refused] of [
    [undefined, 1],
    ['count', 1],
    ['reserve', 0],
  ] as const) {
    const readSums = (...asked: [number, number, number]) => readPastSums(api.sql, ...asked)
    const simulate = createSimulator({ path, folder: undefined }, 'allow', readSums, mode)
    const result = await simulate?.(bundle([[100, '1m']]), span)
    t.match(result, { simulation: { answers: 2, refusals: { length: refused } } })
  }
})

test('sums of hours judge days, and say what they do not judge', async (t) => {
  const { ask, ledger, path } = await start(t, [{ ms: 10 * hour }])
  const journal = ensureJournalName(path)
  const { revision, places } = await ledger.open(journal)
  const group = { user: 'ann', subscription: 'plenty', model: 'llm/sim', keyId: '', payer: '' }
  const sums = { input: 0, output: 0, cached: 0, reasoning: 0, estimated: 0, ...unpriced }
  const rows = [2, 3, 6].map((each) => ({
    ...{ ...group, ...sums, hour: today + each * hour, answers: 10, total: 1_000 },
  }))
  await ledger.feed({ journal, revision, places, rows, gaps: [], closes: false })
  const limits: Limits = [
    [150, '1m'],
    [1_500, '24h'],
  ]
  const found = (await ask(bundle(limits, { concurrency: 1 }))).json()
  t.match(found, { answers: 31, refused: 16 })
  t.match(found.refusals, [
    { window: '24h', requests: 16, estimated: true, first_at: at(today + 3 * hour) },
  ])
  t.strictSame(
    found.not_judged.map(({ kind, window, from, to, because }: Record<string, string>) =>
      [kind, window, from?.slice(11, 13), to?.slice(11, 13), because].join(' '),
    ),
    [
      'tokens 1m 02 04 sums_of_hours',
      'tokens 1m 06 07 sums_of_hours',
      'concurrency  02 04 sums_of_hours',
      'concurrency  06 07 sums_of_hours',
    ],
  )
})

test('limits by name are replayed over all who share them, with the prices of the resources', async (t) => {
  const reported = { prompt_tokens: 60, completion_tokens: 40, total_tokens: 100 }
  const past = Array.from({ length: 6 }, (_, i) => {
    return { ms: 10 * hour + i * 2_000, user: i % 2 === 0 ? 'ann' : 'bob', fields: { reported } }
  })
  const { ask } = await start(t, past)
  const billingRate = { perInputToken: '0.001', perOutputToken: '0.01', perRequest: '0.04' }
  const day = { window: 'day', per: 'subscription' }
  const limits = [
    { ...day, name: 'budget', of: 'cost', limit: '2' },
    { ...day, name: 'answers', of: 'output', limit: 50, enforce: false },
    { ...day, name: 'groups', per: 'group', limit: 1 },
  ]
  const owner = { groups: [{ name: 'team' }, { name: 'other' }] }
  const spec = { owner, limits }
  const found = (await ask(bundle([[1_000_000, '1h']], { billingRate }, spec))).json()
  const budget = { name: 'budget', kind: 'cost', scope: 'subscription', window: 'day', limit: '2' }
  t.match(found, { answers: 6, refused: 2, currency: 'EUR' })
  t.match(found.refusals, [
    { ...budget, user: 'ann', requests: 1, first_at: at(today + 10 * hour + 7_000) },
    { ...budget, user: 'bob', requests: 1 },
  ])
  t.match(found.limits.slice(0, 2), [
    { name: 'answers', kind: 'output', limit: 50, most: 160 },
    { ...budget, subscription: 'plenty', model: null, most: '2', near: true },
  ])
  t.equal(found.limits.length, 3)
  t.match(found.not_judged, [{ name: 'groups', kind: 'tokens', because: 'groups_unknown' }])
})

test('limits per group are replayed where it is known on whose pool a request draws', async (t) => {
  const per = (name: string, limit: number) => {
    return { name, limit, window: 'day', per: 'group', of: 'output' }
  }
  const limits = [per('known', 250), per('ample', 9_000)]
  const drawn = (pool: string) => ({ pool, limits: ['plenty any tokens group day@UTC'] })
  const past = ['red', 'red', '', 'red', 'red', ''].map((pool, i) => {
    return { ms: 10 * hour + i * 2_000, user: pool || 'eve', fields: drawn(pool) }
  })
  const { ask } = await start(t, past)
  const simulated = async (owner: object) => {
    return (await ask(bundle([[1_000_000, '1h']], {}, { owner, limits }))).json()
  }
  const [red, blue] = [{ name: 'red' }, { name: 'blue' }]
  const both = await simulated({ groups: [blue, red], users: ['eve'] })
  t.match(both, { refused: 1, refusals: [{ user: 'red', name: 'known', requests: 1 }] })
  t.match(both.limits, [{ name: 'known', most: 300, most_by: 'red' }, { most: 300 }, {}])
  t.strictSame(both.not_judged, [])
  t.match(await simulated({ groups: [red] }), { refused: 3 }, 'there is only one')
  const gone = await simulated({ groups: [blue, { name: 'green' }], users: ['eve'] })
  t.match(gone, { refused: 0, limits: { length: 1 }, not_judged: { length: 2 } })
})

test('requests, concurrency and missing subscriptions refuse', async (t) => {
  const { ask } = await start(t, [
    { ms: 10 * hour, took: 60_000 },
    { ms: 10 * hour + 1_000, took: 30_000 },
    { ms: 10 * hour + 2_000, fields: { subscription: 'gone' } },
    { ms: 10 * hour + 3_000, fields: { model: 'llm/other' } },
    // No success: nothing was used.
    { ms: 10 * hour + 3_000, took: 60_000, fields: { status: 500 } },
  ])
  const reasons = async (more: object) =>
    (await ask(bundle([[1_000_000, '1h']], more)))
      .json()
      .refusals.map(({ reason, kind = '', requests }: Record<string, string>) =>
        `${reason} ${kind} ${requests}`.replace('  ', ' '),
      )
      .sort()
  const missing = ['model_not_in_subscription 1', 'not_found 1']
  t.strictSame(await reasons({ concurrency: 1 }), ['limit concurrency 1', ...missing])
  const once = { requestRateLimits: [{ limit: 1, window: '5m' }] }
  t.strictSame(await reasons(once), ['limit requests 1', ...missing])
})

test('bad documents and times are named (400)', async (t) => {
  const { ask, api } = await start(t, [{ ms: 10 * hour }])
  for (const [resources, more, message] of [
    ['kind: [', {}, /^resources: line \d+: not valid YAML/],
    ['{"kind":"Subscription","apiVersion":"tollgate.dev/v1alpha1"}', {}, /^resources: line 1/],
    [bundle([[0, '1m']]), {}, /limit/],
    [bundle([[1, '1m']]), { from: 'now' }, /^from must be a day/],
    [bundle([[1, '1m']]), { from: '2026-03-02' }, /^from must be before to/],
    [bundle([[1, '1m']]), { from: '2025-03-02' }, /92 days/],
  ] as const) {
    const answer = await ask(resources, more)
    refused(t, answer, 400)
    t.match(answer.json().error.message, message)
  }
  refused(t, await api.ask(route, { as: 'admin', body: {} }), 400)
  const large = await ask('x'.repeat(1_100_000))
  refused(t, large, 413)
})

test('only administrators may (401, 403), and there must be a journal (404)', async (t) => {
  const { ask } = await start(t, [{ ms: 10 * hour }])
  refused(t, await ask('x', {}, 'alice'), 403)
  refused(t, await ask('x', {}, 'nobody'), 401)
  const none = await createKeyApi(t)
  refused(t, await none.ask(route, { as: 'admin', body: { resources: 'x' } }), 404)
})

test('without a store nothing is simulated (503)', async (t) => {
  const { ask, api } = await start(t, [{ ms: 10 * hour }])
  await api.sql`alter table tollgate_usage_journals rename to elsewhere`
  refused(t, await ask(bundle([[1, '1m']])), 503)
})

test('a folder is simulated at a terminal', async (t) => {
  const { api } = await start(t, [{ ms: 10 * hour }, { ms: 10 * hour + 5_000 }])
  const url = await api.external.listen({ host: '127.0.0.1', port: 0 })
  const folder = temporaryFolder(t)
  writeFileSync(
    join(folder, 'all.yaml'),
    bundle([
      [100, '1m'],
      [10_000, '1h'],
      [10_000, '24h'],
    ]),
  )
  const env = { TOLLGATE_URL: url, TOLLGATE_TOKEN: 'admin-token' }
  const run = (...args: string[]) => runAt({ env }, 'simulate', ...args)
  const empty = temporaryFolder(t)
  t.match(await run(empty), { status: 1, err: `${empty} has no resources; they are in files` })
  const found = await run(folder, '--from', '2026-03-01')
  t.equal(found.status, 1, found.err)
  t.strictSame(found.out.split('\n'), [
    'Of 2 responses from 2026-03-01T00:00:00Z to 2026-03-01T12:00:00Z, 1 would have been refused.',
    '',
    'USER  SUBSCRIPTION  MODEL    BY               REQUESTS  FIRST                 LAST',
    'ann   plenty        llm/sim  100 tokens / 1m  1         2026-03-01T10:00:04Z  2026-03-01T10:00:04Z',
    '',
    'SUBSCRIPTION  MODEL    LIMIT                MOST USED  BY',
    'plenty        llm/sim  100 tokens / 1m      100        ann  ████████████████████',
    'plenty        llm/sim  10,000 tokens / 1h   100        ann  never near',
    'plenty        llm/sim  10,000 tokens / 24h  100        ann  not judged',
    '',
    'Not judged: tokens 24h from 2026-03-01T00:00:00Z to 2026-03-01T12:00:00Z: it is longer.',
  ])
  const billingRate = { perToken: '0.01' }
  const limits = [{ name: 'team', per: 'subscription', of: 'cost', limit: '1.5', window: '1h' }]
  const budget = bundle([[10_000, '1h']], { billingRate }, { limits })
  writeFileSync(join(folder, 'all.yaml'), budget)
  const costs = await run(folder, '--from', '2026-03-01')
  t.match(costs.out, /^plenty +all +team: 1\.5 EUR \/ 1h +2 EUR +-/m)
  writeFileSync(join(folder, 'all.yaml'), bundle([[0, '1m']]))
  const wrong = await run(folder)
  t.equal(wrong.status, 1)
  t.match(wrong.err, /all.yaml:\d+: error: Subscription plenty: /)
  t.equal((await run()).status, 2)
  t.equal((await run(folder, '--since', 'soon')).status, 2)
})

test('a folder is simulated whatever its files begin with', async (t) => {
  const { api } = await start(t, [{ ms: 10 * hour }])
  const url = await api.external.listen({ host: '127.0.0.1', port: 0 })
  const marked = (text: string) => `\ufeff${text}`
  const model = JSON.stringify(modelRef('other', { backendUrl: 'http://127.0.0.1:1' }))
  const folder = temporaryFolder(t, {
    'a.yaml': marked(bundle([[10_000, '1m']])),
    'b.yaml': marked(`# another\n%YAML 1.2\n%TAG ! tag:example,2026:\n---\n${model}`),
    'c.yaml': `%YAML 1.2\n---\n${model.replace('other', 'third')}\n`,
  })
  const env = { TOLLGATE_URL: url, TOLLGATE_TOKEN: 'admin-token' }
  const run = () => runAt({ env }, 'simulate', folder, '--from', '2026-03-01', '--json')
  t.strictSame(await run().then(({ status, err }) => ({ status, err })), { status: 0, err: '' })
  writeFileSync(join(folder, 'd.yaml'), `# ${'-'.repeat(1_048_576)}\n`)
  t.match(await run(), { status: 1, err: /^The resources of .* 1\.00 MiB, .* at most 1:/ })
})
