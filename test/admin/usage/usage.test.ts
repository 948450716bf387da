import type { LightMyRequestResponse } from 'fastify'
import { type Test, test } from 'tap'
import { createUsageLedger } from '../../../src/usage/ledger/postgres/ledger.ts'
import type { UsageGap, UsageRow } from '../../../src/usage/store.ts'
import { createKeyApi, type KeyApi } from '../../support/key-api.ts'
import { refused } from '../../support/refusals.ts'
import { unpriced } from '../../support/unpriced.ts'

const route = 'GET /v1/usage'
const hour = 3_600_000
/** The API's clock is at 12:00 of this day. */
const today = Date.UTC(2026, 2, 1)

type Page = Record<string, unknown> & {
  data: Record<string, string | number>[]
  next_cursor?: string
}

async function fill(
  api: KeyApi,
  rows: readonly Partial<UsageRow>[],
  gaps: readonly UsageGap[] = [],
): Promise<void> {
  const ledger = createUsageLedger(api.sql)
  const { revision, places } = await ledger.open('journal')
  const sums = { answers: 1, input: 0, output: 0, cached: 0, reasoning: 0, total: 1, estimated: 0 }
  const group = { hour: today, user: 'alice', subscription: 'premium', model: 'llm/small' }
  const whole = rows.map((row) => ({
    ...group,
    ...unpriced,
    keyId: '',
    payer: '',
    ...sums,
    ...row,
  }))
  await ledger.feed({ journal: 'journal', revision, places, rows: whole, gaps, closes: false })
}

async function read(api: KeyApi, as: string, query = ''): Promise<Page> {
  const answer = await api.ask(`${route}?${query}`, { as })
  if (answer.statusCode !== 200) throw new Error(answer.body)
  return answer.json()
}

/** Claims that it is refused with this message. */
function wrong(t: Test, answer: LightMyRequestResponse, status: number, message: RegExp): void {
  refused(t, answer, status)
  t.match(answer.json().error.message, message)
}

test('usage is summed by what was asked for (200)', async (t) => {
  const api = await createKeyApi(t)
  const payer = 'organization=acme&cost_center=42&rate=0.000002'
  const figures = { input: 7, output: 10, cached: 3, reasoning: 4, total: 17, estimated: 1 }
  await fill(
    api,
    [
      { ...figures, payer, keyId: 'k1' },
      { ...figures, payer, keyId: 'k1', hour: today + hour },
      { ...figures, payer: `${payer}5`, keyId: 'k2', hour: today + hour },
      { hour: today + 2 * hour, model: 'llm/other' },
      { hour: today - hour },
    ],
    [{ from: today + 60_000, to: today + hour }],
  )
  const ledger = createUsageLedger(api.sql)
  const refusal = { hour: today, user: 'alice', subscription: 'premium', model: 'llm/small' }
  await ledger.addRefusals([{ ...refusal, keyId: 'k1', payer, refusals: 3 }])
  const none = { input_tokens: 0, output_tokens: 0, cached_tokens: 0, reasoning_tokens: 0 }
  t.strictSame(await read(api, 'alice', 'group_by=day,model,key'), {
    object: 'list',
    from: '2026-03-01T00:00:00Z',
    to: '2026-03-01T12:00:00Z',
    data: [
      {
        ...{ start: '2026-03-01T00:00:00Z', model: 'llm/other', key_id: '', answers: 1 },
        ...{ refusals_approximate: 0, ...none, total_tokens: 1, estimated_tokens: 0 },
        ...{ cache_write_tokens: 0, counted_tokens: 1 },
      },
      {
        ...{ start: '2026-03-01T00:00:00Z', model: 'llm/small', key_id: 'k1', answers: 2 },
        ...{ refusals_approximate: 3, input_tokens: 14, output_tokens: 20, cached_tokens: 6 },
        ...{ reasoning_tokens: 8, total_tokens: 34, estimated_tokens: 2, cost: '0.000068' },
        ...{ cache_write_tokens: 0, counted_tokens: 34 },
      },
      {
        ...{ start: '2026-03-01T00:00:00Z', model: 'llm/small', key_id: 'k2', answers: 1 },
        ...{ refusals_approximate: 0, input_tokens: 7, output_tokens: 10, cached_tokens: 3 },
        ...{ reasoning_tokens: 4, total_tokens: 17, estimated_tokens: 1, cost: '0.0000425' },
        ...{ cache_write_tokens: 0, counted_tokens: 17 },
      },
    ],
    gaps: [{ journal: 'journal', from: '2026-03-01T00:01:00Z', to: '2026-03-01T01:00:00Z' }],
    currency: 'EUR',
    has_more: false,
  })
  const months = await read(api, 'alice', 'group_by=month&from=2026-02-01')
  t.match(months.data, [
    { start: '2026-02-01T00:00:00Z', total_tokens: 1 },
    { start: '2026-03-01T00:00:00Z', total_tokens: 52 },
  ])
  const whole = await read(api, 'alice', 'group_by=cost_center,organization')
  t.match(whole.data, [
    { organization_id: '', cost_center: '', total_tokens: 1 },
    { organization_id: 'acme', cost_center: '42', total_tokens: 51 },
  ])
  t.notOk('start' in (whole.data[0] ?? {}))
  const hours = await read(
    api,
    'alice',
    'group_by=hour&from=2026-03-01T01:30:00%2B00:00&to=2026-03-02',
  )
  t.match(hours.data, [{ total_tokens: 34 }, { total_tokens: 1 }])
  t.match(hours, { from: '2026-03-01T01:00:00Z', to: '2026-03-02T00:00:00Z' })
})

test('no combination of parameters shows a user what is not theirs', async (t) => {
  const api = await createKeyApi(t)
  const [mine, other] = [await api.createKey('alice'), await api.createKey('alice', { name: 'b' })]
  const foreign = await api.createKey('bob')
  const payer = 'organization=acme&cost_center=42'
  await fill(api, [
    { keyId: mine.id, payer, total: 1 },
    { keyId: other.id, payer, total: 10 },
    { payer, total: 100 },
    { user: 'bob', keyId: foreign.id, payer, subscription: 'b-only', total: 1_000 },
    { user: 'bob', keyId: mine.id, payer, total: 10_000 },
    { user: 'alice2', keyId: '', payer, total: 100_000 },
  ])
  const values: Readonly<Record<string, readonly (string | undefined)[]>> = {
    user: [undefined, 'alice', 'bob', ''],
    key: [undefined, mine.id, other.id, foreign.id],
    subscription: [undefined, 'premium', 'b-only'],
    organization: [undefined, 'acme'],
    cost_center: [undefined, '42'],
    group_by: [undefined, 'hour,user', 'user,key,subscription,organization'],
    format: [undefined, 'csv'],
  }
  const combinations = Object.entries(values).reduce<Record<string, string>[]>(
    (all, [name, each]) =>
      all.flatMap((one) =>
        each.map((value) => (value === undefined ? one : { ...one, [name]: value })),
      ),
    [{}],
  )
  let seen = 0
  for (const [as, most, hidden] of [
    ['alice', 111, ['bob', 'alice2', foreign.id, 'b-only']],
    [mine.key, 1, ['bob', 'alice2', foreign.id, 'b-only', other.id]],
  ] as const) {
    for (const query of combinations) {
      const text = `${new URLSearchParams(query)}`
      const answer = await api.ask(`${route}?${text}`, { as })
      const { user } = query
      const expected = user === undefined || user === 'alice' ? 200 : user === '' ? 400 : 403
      if (answer.statusCode !== expected) t.equal(answer.statusCode, expected, text)
      if (expected !== 200) continue
      const shown = hidden.find((name) => answer.body.includes(name))
      if (shown !== undefined) t.fail(`${shown} is shown by ${text}`)
      if (query.format === 'csv') continue
      const total = answer.json().data.reduce((sum: number, row: Page['data'][0]) => {
        return sum + Number(row.total_tokens)
      }, 0)
      if (total > most) t.fail(`${total} tokens are shown by ${text}`)
      seen = Math.max(seen, total)
    }
    t.equal(seen, most, `${as.slice(0, 6)} sees own usage`)
    seen = 0
  }
  t.comment(`${combinations.length} combinations`)
})

test('an administrator sees anybody, and the trail says so', async (t) => {
  const api = await createKeyApi(t)
  const payer = 'organization=acme&cost_center=42'
  await fill(api, [
    { total: 1, payer },
    { user: 'bob', total: 10, subscription: 'b-only', payer },
    { user: 'admin', total: 100 },
    { user: 'bob', total: 1_000 },
  ])
  const totals = async (query: string) => {
    const { data } = await read(api, 'admin', `group_by=user&${query}`)
    return Object.fromEntries(data.map(({ user, total_tokens }) => [user, total_tokens]))
  }
  t.strictSame(await totals(''), { admin: 100, alice: 1, bob: 1_010 })
  t.strictSame(await totals('user=bob'), { bob: 1_010 })
  t.strictSame(await totals('user=admin'), { admin: 100 })
  t.strictSame(await totals('subscription=b-only'), { bob: 10 })
  t.strictSame(await totals('organization=acme'), { alice: 1, bob: 10 })
  t.strictSame(await totals('cost_center=42&user=bob'), { bob: 10 })
  const { key } = await api.createKey('admin')
  t.strictSame((await read(api, key)).data, [], 'a key is never an administrator')
  refused(t, await api.ask(`${route}?user=bob`, { as: key }), 403)
  t.match(
    api.audited.filter(({ action }) => action === 'usage.read'),
    [
      { outcome: 'success', actor: { user: 'admin' }, count: 3 },
      { outcome: 'success', target: { user: 'bob' } },
      ...[{}, {}, {}],
      { outcome: 'refused', target: { user: 'bob' } },
    ],
  )
})

test('pages continue by their cursor, and only by that of the query', async (t) => {
  const api = await createKeyApi(t)
  const rows = Array.from({ length: 1_700 }, (_, i) => ({
    keyId: `k${String(i).padStart(4, '0')}`,
    hour: today + (i % 2) * hour,
    total: i,
  }))
  await fill(api, rows)
  await fill(api, [{ user: 'bob', total: 1_000_000 }])
  const query = 'group_by=hour,key'
  const first = await read(api, 'alice', query)
  t.match(first, { has_more: true, next_cursor: /^[\w-]+$/ })
  api.now += 30 * 86_400_000
  const cursor = first.next_cursor ?? ''
  const second = await read(api, 'alice', `${query}&cursor=${cursor}`)
  t.match(second, { from: first.from, to: first.to, has_more: false }, 'the same time, later too')
  const all = [...first.data, ...second.data]
  t.equal(all.length, 1_700)
  t.equal(new Set(all.map(({ key_id }) => key_id)).size, 1_700)
  t.equal(first.data.length, 1_000)

  const csv = await api.ask(`${route}?${query}&format=csv&from=2026-03-01`, { as: 'alice' })
  const [, next = ''] = /^<\?(.*)>; rel="next"$/.exec(String(csv.headers.link)) ?? []
  const rest = await api.ask(`${route}?${next}`, { as: 'alice' })
  t.equal(rest.body.split('\r\n').length, 702)
  t.notOk(rest.headers.link)

  const [digest, from, to, ...after] = JSON.parse(Buffer.from(cursor, 'base64url').toString())
  const forge = (...parts: unknown[]) => Buffer.from(JSON.stringify(parts)).toString('base64url')
  for (const [other, as] of [
    [`${query},model&cursor=${cursor}`, 'alice'],
    [`${query}&cursor=${cursor}`, 'bob'],
    [`${query}&cursor=${cursor}`, 'admin'],
    [`${query}&subscription=basic&cursor=${cursor}`, 'alice'],
    [`${query}&from=2026-03-01&cursor=${cursor}`, 'alice'],
    [`${query}&cursor=${forge(digest, from, to)}`, 'alice'],
    [`${query}&cursor=${forge(digest, from, to, ...after, '')}`, 'alice'],
    [`${query}&cursor=${forge(digest, from, to, 'x', 'x')}`, 'alice'],
    [`${query}&cursor=${forge(digest, -1, 1e300, ...after)}`, 'alice'],
    [`${query}&cursor=${forge(digest, 8.64e15 - 3_600_000, 8.64e15, ...after)}`, 'alice'],
    [`${query}&cursor=${forge(digest, from, to, 8.64e15, 'x')}`, 'alice'],
    [`${query}&cursor=${forge(digest, from, to, 0, { x: 1 })}`, 'alice'],
    [`${query}&cursor=${forge(digest, from, to, 0, 'x\0y')}`, 'alice'],
    [`${query}&cursor=x`, 'alice'],
    [`${query}&cursor=${'W'.repeat(5_000)}`, 'alice'],
  ] as const) {
    wrong(t, await api.ask(`${route}?${other}`, { as }), 400, /^cursor is not one of this query/)
  }
  const years = forge(digest, 0, to, ...after)
  const long = await api.ask(`${route}?${query}&cursor=${years}`, { as: 'alice' })
  wrong(t, long, 400, /^from must be at most 366 days before to/)
})

test('cells that a spreadsheet would compute are escaped', async (t) => {
  const api = await createKeyApi(t)
  const models = ['=1+1', '+1', '-1', '@x', '\t=1', '\r=1', 'a"b,c', 'plain']
  await fill(
    api,
    models.map((model) => ({ model })),
  )
  const answer = await api.ask(`${route}?group_by=model&format=csv`, { as: 'alice' })
  t.equal(answer.headers['content-type'], 'text/csv; charset=utf-8')
  const [header, ...lines] = answer.body.split('\r\n').slice(0, -1)
  t.match(header, /^model,answers,refusals_approximate,.*,cost$/)
  t.strictSame(
    lines.map((line) => line.replace(/,1,0,.*$/s, '')),
    ["'\t=1", `"'\r=1"`, "'+1", "'-1", "'=1+1", "'@x", '"a""b,c"', 'plain'],
  )
})

test('wrong parameters are named (400)', async (t) => {
  const api = await createKeyApi(t)
  for (const [query, message] of [
    ['from=2026-03-02&to=2026-03-01', /^from must be before to/],
    ['from=2026-03-01&to=2026-03-01', /^from must be before to/],
    ['from=2016-03-01&to=2026-03-01', /^from must be at most 366 days before to/],
    ['from=2016-03-01', /^from must be at most 366 days/],
    ['from=yesterday', /^from must be a day like/],
    ['from=2026-02-30T00:00:00', /^from must be a day like/],
    ['to=2026-13-01', /^to must be a day like/],
    ['to=2026-02-30', /^to must be a day like/],
    ['to=1969-12-31', /^to must be a day like/],
    ['from=9999-12-31T23:59:59Z&to=9999-12-31T23:59:59.5Z', /^from must be a day like/],
    ['from=9999-12-30&to=9999-12-31T00:00:01Z', /^to must be a day like/],
    ['group_by=week', /^group_by may name hour, day, month, subscription/],
    ['group_by=', /^group_by may name/],
    ['group_by=day,month', /^group_by may name only one/],
    ['group_by=model,model', /^group_by names something twice/],
    ['format=xml', /^format must be one of json, csv/],
    ['usr=bob', /^The query has no field "usr"; it has from, to/],
    ['user=a&user=b', /^user must be string, and given once\.$/],
    ['model=%00', /^model must not hold NUL/],
  ] as const) {
    wrong(t, await api.ask(`${route}?${query}`, { as: 'alice' }), 400, message)
  }
})

test('without a credential, or a ledger, there is nothing (401, 404)', async (t: Test) => {
  const api = await createKeyApi(t)
  refused(t, await api.ask(route), 401)
  const without = await createKeyApi(t, { ledger: false })
  wrong(t, await without.ask(route, { as: 'alice' }), 404, /USAGE_JOURNAL/)
})

test('a database that is away, or slow, is not an error of ours (503)', async (t) => {
  const api = await createKeyApi(t)
  await api.sql`alter table tollgate_usage_hours rename to elsewhere`
  refused(t, await api.ask(route, { as: 'alice' }), 503)
})

test('usage is summed by a label of keys', async (t) => {
  const api = await createKeyApi(t)
  const keyWith = async (labels?: object, as = 'alice') => (await api.createKey(as, { labels })).id
  const [search, mail, none, foreign] = [
    await keyWith({ team: 'search', env: 'a=b' }),
    await keyWith({ team: 'mail', env: 'test' }),
    await keyWith(),
    await keyWith({ team: 'search' }, 'bob'),
  ]
  await fill(api, [
    { keyId: search, total: 1 },
    { keyId: mail, total: 2 },
    { keyId: none, total: 4 },
    { total: 8 },
    { keyId: foreign, user: 'bob', total: 16 },
  ])
  const sums = async (query: string, as = 'alice') =>
    (await read(api, as, query)).data.map(({ label, total_tokens }) => [label, total_tokens])
  t.strictSame(await sums('group_by=label:team'), [
    ['', 12],
    ['mail', 2],
    ['search', 1],
  ])
  t.strictSame((await sums('group_by=label:team', 'admin')).at(-1), ['search', 17])
  t.strictSame(await sums('group_by=month&label=team=search'), [[undefined, 1]])
  t.strictSame(await sums('group_by=label:team&label=env=a%3Db'), [['search', 1]])
  const csv = await api.ask(`${route}?group_by=key,label:env&format=csv`, { as: 'alice' })
  t.match(csv.body, /^key_id,label,/)
  t.match(csv.body, `${mail},test,`)
  const patch = { as: 'alice', body: { labels: { team: 'mail' } } }
  await api.ask(`PATCH /v1/api-keys/${search}`, patch)
  t.strictSame(await sums('group_by=label:team'), [
    ['', 12],
    ['mail', 3],
  ])
  for (const [query, message] of [
    ['group_by=label', /may name .*label:<name>/],
    ['group_by=label:', /may name/],
    ['group_by=label:a%20b', /may name/],
    ['group_by=label:a,label:b', /only one label/],
    ['group_by=label:a,label:a', /only one label/],
    ['label=team', /like team=search/],
    ['label==search', /like team=search/],
  ] as const) {
    wrong(t, await api.ask(`${route}?${query}`, { as: 'alice' }), 400, message)
  }
})
