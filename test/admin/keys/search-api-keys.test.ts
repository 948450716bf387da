import { test } from 'tap'
import { createKeyApi, type KeyApi } from '../../support/key-api.ts'
import { failing, refused } from '../../support/refusals.ts'

const route = 'POST /v1/api-keys/search'

async function names(api: KeyApi, as: string, body?: unknown): Promise<readonly string[]> {
  const answer = await api.ask(route, { as, body })
  if (answer.statusCode !== 200) throw new Error(answer.body)
  return answer.json().data.map(({ name }: { name: string }) => name)
}

/**
 * Keys of alice: active `a`, revoked `r`, stored as expired `s`, past its expiry `p`, ephemeral
 * `e`.
 */
async function withKeys(api: KeyApi): Promise<void> {
  const minute = 60_000
  for (const [name, body] of Object.entries({
    a: {},
    r: {},
    s: {},
    p: { expiresIn: '5m' },
    e: { ephemeral: true },
  })) {
    await api.createKey('alice', { name, ...body })
    api.now += minute
  }
  await api.createKey('bob', { name: 'b' })
  await api.sql`update api_keys set status = 'revoked' where name = 'r'`
  await api.sql`update api_keys set status = 'expired' where name = 's'`
  api.now += 5 * minute
}

test('without a body it lists your own keys (200)', async (t) => {
  const api = await createKeyApi(t)
  await withKeys(api)
  for (const body of [undefined, null, {}, { filters: {} }, { sort: {} }, { pagination: {} }]) {
    t.strictSame(await names(api, 'alice', body), ['p', 's', 'r', 'a'], JSON.stringify(body))
  }
  for (const payload of ['', ' \r\n\t']) {
    const answer = await api.ask(route, { as: 'alice', payload })
    t.equal(answer.json().data.length, 4)
  }
  const { object, data, has_more } = (await api.ask(route, { as: 'alice' })).json()
  t.strictSame({ object, has_more }, { object: 'list', has_more: false })
  t.match(data[0], { name: 'p', username: 'alice', status: 'expired', ephemeral: false })
  t.notMatch(JSON.stringify(data), /hash|[0-9a-f]{64}/)
})

test('texts from before the length limit are returned whole, and paging skips no key', async (t) => {
  const api = await createKeyApi(t)
  const old = 'x'.repeat(100_000)
  for (let i = 0; i < 6; i += 1) {
    await api.createKey('alice', { name: `${i}` })
    api.now += 1_000
  }
  await api.sql`update api_keys set name = name || ${old}, description = ${old} where name < '4'`
  const found: string[] = []
  for (let offset = 0; ; offset += 2) {
    const body = { pagination: { limit: 2, offset }, sort: { by: 'name', order: 'asc' } }
    const { data, has_more } = (await api.ask(route, { as: 'alice', body })).json()
    for (const { name, description } of data) {
      found.push(name)
      t.equal(description ?? '', name.length > 1 ? old : '')
    }
    if (!has_more) break
  }
  t.strictSame(found, [...['0', '1', '2', '3'].map((name) => name + old), '4', '5'])
})

test('without a match the list is empty', async (t) => {
  const api = await createKeyApi(t)
  const answer = await api.ask(route, { as: 'stranger' })
  t.equal(answer.body, '{"object":"list","data":[],"has_more":false}')
})

test('the filter by subscription is exact', async (t) => {
  const api = await createKeyApi(t)
  await api.createKey('alice', { name: 'basic', subscription: 'basic' })
  api.now += 1_000
  await api.createKey('alice', { name: 'premium', subscription: 'premium' })
  for (const [subscription, expected] of [
    ['basic', ['basic']],
    [' premium ', ['premium']],
    ['prem', []],
    [' ', []],
    ['', ['premium', 'basic']],
    [null, ['premium', 'basic']],
  ] as const) {
    t.strictSame(await names(api, 'alice', { filters: { subscription } }), expected)
  }
})

test('unknown filters are refused and named, those of the original are ignored', async (t) => {
  const api = await createKeyApi(t)
  await api.createKey('alice', { name: 'a' })
  for (const [filter, value] of Object.entries({
    ...{ createdAfter: 'x', createdBefore: 5, expiresAfter: null, expiresBefore: {} },
    ...{ lastUsedAfter: [], nameContains: 'b', descriptionContains: 'c' },
    ...{ hasExpiration: true, hasBeenUsed: true },
  })) {
    t.strictSame(await names(api, 'alice', { filters: { [filter]: value } }), ['a'], filter)
  }
  for (const filter of ['user', 'Status', 'x'.repeat(100_000), 'constructor', '__proto__']) {
    const payload = `{"filters":{${JSON.stringify(filter)}:1}}`
    const answer = await api.ask(route, { as: 'alice', payload })
    refused(t, answer, 400)
    if (filter === '__proto__') continue
    t.match(answer.json().error.message, `filters has no field "${filter.slice(0, 64)}`)
    t.ok(answer.body.length < 700)
  }
})

test('status filters apply to the effective status', async (t) => {
  const api = await createKeyApi(t)
  await withKeys(api)
  const cases: readonly [readonly string[] | null, readonly string[]][] = [
    [['active'], ['a']],
    [['revoked'], ['r']],
    [['expired'], ['p', 's']],
    [
      [' active ', 'expired\n'],
      ['p', 's', 'a'],
    ],
    [
      ['active', 'revoked', 'active'],
      ['r', 'a'],
    ],
    [
      ['expired', 'active', 'revoked'],
      ['p', 's', 'r', 'a'],
    ],
    [[], ['p', 's', 'r', 'a']],
    [null, ['p', 's', 'r', 'a']],
  ]
  for (const [status, expected] of cases) {
    t.strictSame(await names(api, 'alice', { filters: { status } }), expected, `${status}`)
  }
})

test('ephemeral keys are listed only on request', async (t) => {
  const api = await createKeyApi(t)
  await withKeys(api)
  const filters = { status: ['active'], includeEphemeral: true }
  t.strictSame(await names(api, 'alice', { filters }), ['e', 'a'])
  t.strictSame(await names(api, 'alice', { includeEphemeral: true, status: 'active' }), ['e', 'a'])
})

test('an administrator sees everybody’s keys', async (t) => {
  const api = await createKeyApi(t)
  await withKeys(api)
  t.strictSame(await names(api, 'admin'), ['b', 'p', 's', 'r', 'a'])
  t.strictSame(await names(api, 'admin', { filters: { username: '  ' } }), [
    'b',
    'p',
    's',
    'r',
    'a',
  ])
  t.strictSame(await names(api, 'admin', { filters: { username: 'bob' } }), ['b'])
  t.strictSame(await names(api, 'admin', { filters: { username: 'nobody' } }), [])
  t.strictSame(await names(api, 'admin', { filters: { username: 'admin' } }), [])
})

test('naming yourself needs no privilege', async (t) => {
  const api = await createKeyApi(t)
  await withKeys(api)
  const { key } = await api.createKey('bob', { name: 'b2' })
  t.strictSame(await names(api, 'bob', { filters: { username: 'bob' } }), ['b2', 'b'])
  t.strictSame(await names(api, key, { filters: { username: null } }), ['b2', 'b'])
})

test('the flat form has a default page of ten', async (t) => {
  const api = await createKeyApi(t)
  for (let i = 0; i < 12; i += 1) {
    await api.createKey('alice', { name: `k${i}` })
    api.now += 1_000
  }
  const flat = (await api.ask(route, { as: 'alice', body: { status: ' active ' } })).json()
  t.equal(flat.data.length, 10)
  t.equal(flat.has_more, true)
  t.strictSame(await names(api, 'alice', { offset: 10 }), ['k1', 'k0'])
  t.strictSame(await names(api, 'alice', { limit: 2, offset: 1 }), ['k10', 'k9'])
  t.strictSame(await names(api, 'alice', { status: 'revoked' }), [])
  t.equal((await names(api, 'alice', { includeEphemeral: false })).length, 10)
  t.equal((await names(api, 'alice', { other: 1, filters: null, limit: null })).length, 12)
})

test('the nested form ignores flat fields', async (t) => {
  const api = await createKeyApi(t)
  await withKeys(api)
  for (const form of [{ filters: {} }, { sort: {} }, { pagination: {} }]) {
    const body = { ...form, status: 'revoked', limit: 1, offset: 3, includeEphemeral: true }
    t.strictSame(await names(api, 'alice', body), ['p', 's', 'r', 'a'])
  }
})

test('each field has its own default', async (t) => {
  const api = await createKeyApi(t)
  await withKeys(api)
  t.strictSame(await names(api, 'alice', { sort: { by: 'name' } }), ['s', 'r', 'p', 'a'])
  t.strictSame(await names(api, 'alice', { sort: { order: 'ASC' } }), ['a', 'r', 's', 'p'])
  t.strictSame(await names(api, 'alice', { pagination: { offset: 3 } }), ['a'])
  t.strictSame(await names(api, 'alice', { pagination: { limit: 1 } }), ['p'])
})

test('a page says whether more follow', async (t) => {
  const api = await createKeyApi(t)
  await withKeys(api)
  const page = async (limit: number, offset: number) => {
    const body = { pagination: { limit, offset } }
    const { data, has_more } = (await api.ask(route, { as: 'alice', body })).json()
    return [data.length, has_more]
  }
  t.strictSame(await page(3, 0), [3, true])
  t.strictSame(await page(4, 0), [4, false])
  t.strictSame(await page(1.0, 3), [1, false])
  t.strictSame(await page(1_000, 0), [4, false])
  t.strictSame(await page(1e300, 0), [4, false])
  t.strictSame(await page(10, 1e300), [0, false])
  t.strictSame(await page(10, 2 ** 53 + 2), [0, false])
})

test('a page has at most a hundred records', async (t) => {
  const api = await createKeyApi(t)
  await api.sql`
    insert into api_keys (id, username, name, key_hash, user_groups, subscription)
    select gen_random_uuid()::text, 'alice', 'k', i::text, array['team-a'], 'premium'
    from generate_series(1, 120) i`
  const body = { pagination: { limit: 101 } }
  const { data, has_more } = (await api.ask(route, { as: 'alice', body })).json()
  t.strictSame([data.length, has_more], [100, true])
  t.equal((await names(api, 'alice')).length, 50)
})

test('an invalid field is named (400)', async (t) => {
  const api = await createKeyApi(t)
  const bad: readonly [unknown, RegExp][] = [
    [[], /^The body must be object/],
    ['x', /^The body must be object/],
    [{ filters: [] }, /^filters must be object/],
    [{ filters: { status: 'active' } }, /^filters.status must be array/],
    [{ filters: { status: ['gone'] } }, /^filters.status.0 must be one of active, revoked, exp/],
    [{ filters: { status: [''] } }, /^filters.status.0 must be one of/],
    [{ filters: { status: [null] } }, /^filters.status.0 must be string/],
    [{ filters: { username: 5 } }, /^filters.username must be string/],
    [{ filters: { username: 'a\0' } }, /^filters.username must not hold NUL/],
    [{ filters: { username: '\udfff' } }, /^filters.username must not hold NUL/],
    [{ filters: { includeEphemeral: 'true' } }, /^filters.includeEphemeral must be boolean/],
    [{ sort: 'name' }, /^sort must be object/],
    [
      { sort: { by: 'id' } },
      /^sort.by must be one of created_at, expires_at, last_used_at, name\./,
    ],
    [{ sort: { by: '' } }, /^sort.by must be one of/],
    [{ sort: { by: 'Name' } }, /^sort.by must be one of/],
    [{ sort: { order: 'up' } }, /^sort.order must be one of asc, desc\./],
    [{ pagination: 3 }, /^pagination must be object/],
    [{ pagination: { limit: 0 } }, /^pagination.limit must be >= 1/],
    [{ pagination: { limit: -1 } }, /^pagination.limit must be >= 1/],
    [{ pagination: { limit: '50' } }, /^pagination.limit must be integer/],
    [{ pagination: { limit: 1.5 } }, /^pagination.limit must be integer/],
    [{ pagination: { offset: -1 } }, /^pagination.offset must be >= 0/],
    [{ pagination: { offset: true } }, /^pagination.offset must be integer/],
    [{ status: ['active'] }, /^status must be string/],
    [{ status: 'gone' }, /^status must be one of active/],
    [{ status: '' }, /^status must be one of active/],
    [{ limit: 0 }, /^limit must be >= 1/],
    [{ offset: -1 }, /^offset must be >= 0/],
    [{ includeEphemeral: 0 }, /^includeEphemeral must be boolean/],
  ]
  for (const [body, message] of bad) {
    const answer = await api.ask(route, { as: 'alice', body })
    refused(t, answer, 400, 'invalid_request', JSON.stringify(body))
    t.match(answer.json().error.message, message, JSON.stringify(body))
  }
  const infinite = { as: 'alice', payload: '{"pagination":{"offset":1e999}}' }
  refused(t, await api.ask(route, infinite), 400, 'invalid_request')
})

test('refuses another user’s name (403)', async (t) => {
  const api = await createKeyApi(t)
  const body = { filters: { username: 'bob' } }
  refused(t, await api.ask(route, { as: 'alice', body }), 403, 'admin_required')
  const near = { filters: { username: ' alice' } }
  refused(t, await api.ask(route, { as: 'alice', body: near }), 403, 'admin_required')
})

test('an internal fault reveals nothing (500)', async (t) => {
  const api = await createKeyApi(t, { around: failing('fault', 'search') })
  refused(t, await api.ask(route, { as: 'alice' }), 500, 'internal')
})

test('searches nothing while the store is unavailable (503)', async (t) => {
  const api = await createKeyApi(t, { around: failing('outage', 'search') })
  refused(t, await api.ask(route, { as: 'alice' }), 503, 'store_unavailable')
})
