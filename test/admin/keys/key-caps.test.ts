import { test } from 'tap'
import { hashOfKey } from '../../../src/keys/rules/api-key.ts'
import type { ApiKeyTable } from '../../../src/keys/store.ts'
import { createKeyApi, type KeyApi } from '../../support/key-api.ts'
import { refused } from '../../support/refusals.ts'

const small = { namespace: 'llm', name: 'small' }
const daily = { name: 'daily', of: 'cost', limit: '5', window: 'day', models: [small] }
const others = [
  { name: 'at-once', of: 'concurrency', limit: 2, enforce: false },
  { name: 'hourly', limit: 1_000_000_000_000_000, window: '1h' },
]
const caps = {
  models: [small],
  tokenRateLimits: [{ limit: 100, window: '1m' }],
  limits: [daily, ...others],
  allowedAddresses: ['10.0.0.0/8'],
}

const another = { name: 'another', of: 'output', limit: 9, window: '30s' }

function patch(api: KeyApi, id: string, body: object, as = 'alice') {
  return api.ask(`PATCH /v1/api-keys/${id}`, { as, body })
}

/** The caps in a record. */
function capsIn({ models, tokenRateLimits, limits, allowedAddresses }: Record<string, unknown>) {
  return { models, tokenRateLimits, limits, allowedAddresses }
}

test('caps are echoed, kept, found and rotated', async (t) => {
  const api = await createKeyApi(t)
  const created = await api.createKey('alice', caps)
  t.strictSame(capsIn({ ...created }), caps)
  const read = async (id: string) =>
    (await api.ask(`GET /v1/api-keys/${id}`, { as: 'alice' })).json()
  t.strictSame(capsIn(await read(created.id)), caps)
  const { data } = (await api.ask('POST /v1/api-keys/search', { as: 'alice' })).json()
  t.strictSame(capsIn(data[0]), caps)
  const rotated = (
    await api.ask(`POST /v1/api-keys/${created.id}/rotate`, {
      as: 'alice',
      body: { overlap: '1h' },
    })
  ).json()
  t.strictSame(capsIn(rotated), caps, 'a rotation keeps them')
  for (const secret of [created.key, rotated.key]) {
    const found = await api.keys.findByHash(hashOf(secret))
    t.ok(found?.capped?.models?.has('llm/small'), 'both secrets')
  }
  const { id } = await api.createKey('alice', { models: null, tokenRateLimits: null })
  const record = await read(id)
  t.strictSame(
    Object.keys(caps).filter((name) => name in record),
    [],
  )
})

function hashOf(key: string): string {
  return hashOfKey(key, { own: 'tg', accepted: new Set(['tg']) }) ?? ''
}

test('wrong caps are refused with the field', async (t) => {
  const api = await createKeyApi(t)
  const { id } = await api.createKey('alice')
  for (const [body, message] of [
    [{ models: [] }, /^models must not be empty/],
    [{ models: ['llm/small'] }, /^models\.0 must be object with namespace and name\.$/],
    [{ models: [{ ...small, x: 1 }] }, /^models\.0 has no field "x"/],
    [
      { models: [{ namespace: 'llm', name: 'other' }] },
      /^models\[0\]: the subscription "premium" does not cover "llm\/other"/,
    ],
    [{ models: [{ namespace: 'llm', name: '\u0000"' }] }, /^models\[0\]: the subscription/],
    [{ tokenRateLimits: [{ limit: 0, window: '1m' }] }, /^tokenRateLimits\[0\]\.limit must be/],
    [{ tokenRateLimits: [{ limit: 1, window: '1d' }] }, /^tokenRateLimits\[0\]\.window must be/],
    [
      { tokenRateLimits: [{ limit: '1', window: '1m' }] },
      /^tokenRateLimits\.0\.limit must be integer/,
    ],
    [
      { allowedAddresses: ['10.0.0.1/8'] },
      /^allowedAddresses\[0\] must be an address or a network/,
    ],
    [{ limits: [] }, /^limits must not be empty/],
    [{ limits: ['daily'] }, /^limits\.0 must be object/],
    [
      { limits: [{ name: 'a', limit: true, window: '1h' }] },
      /^limits\.0\.limit must be integer or/,
    ],
    [{ limits: [{ name: 'a', of: 'money', limit: 1 }] }, /^limits\.0\.of must be one of tokens, /],
    [
      { limits: [{ name: 'a', limit: 1, window: '1h', per: 'key' }] },
      /^limits\.0 has no field "per"/,
    ],
    [{ limits: [{ limit: 1, window: '1h' }] }, /^limits\.0 must have required property 'name'/],
    [{ limits: [{ name: 'a', limit: 0, window: '1h' }] }, /^limits\[0\]\.limit must be a whole/],
    [
      { limits: [{ name: 'a', of: 'cost', limit: '-1', window: 'day' }] },
      /^limits\[0\]\.limit must/,
    ],
    [
      { limits: [{ name: 'a', limit: 1, window: 'year' }] },
      /^limits\[0\]\.window must be day, week/,
    ],
    [
      { limits: [{ name: 'a', limit: 1, window: '1h', models: [{ ...small, name: 'other' }] }] },
      /^limits\[0\]\.models\[0\]: the subscription "premium" does not cover "llm\/other"/,
    ],
    [{ allowedAddresses: 'all' }, /^allowedAddresses must be array or null\.$/],
    [{ allowedAddresses: Array(33).fill('::1') }, /^allowedAddresses must NOT have more than 32/],
  ] as const) {
    for (const answer of [
      await api.ask('POST /v1/api-keys', { as: 'alice', body: { name: 'x', ...body } }),
      await patch(api, id, body),
    ]) {
      refused(t, answer, 400, undefined, JSON.stringify(body))
      t.match(answer.json().error.message, message)
    }
  }
  t.equal((await api.sql`select from api_keys where caps is not null`).length, 0)
})

test('a holder narrows, an administrator also widens', async (t) => {
  const api = await createKeyApi(t)
  const { id, key } = await api.createKey('alice')
  const first = await patch(api, id, { tokenRateLimits: caps.tokenRateLimits, name: 'capped' })
  t.equal(first.statusCode, 200, first.body)
  t.match(first.json(), {
    name: 'capped',
    tokenRateLimits: caps.tokenRateLimits,
    propagation: { state: 'confirmed' },
  })
  t.equal((await api.ask('GET /v1/subscriptions', { as: key })).statusCode, 200, 'it has not ended')
  t.match((await patch(api, id, caps)).json(), caps, 'new caps narrow')
  for (const wider of [
    { models: null },
    { tokenRateLimits: [{ limit: 101, window: '1m' }] },
    { tokenRateLimits: [{ limit: 1, window: '1h' }] },
    { allowedAddresses: ['0.0.0.0/0'] },
    { limits: null },
    { limits: others },
    { limits: [{ ...daily, limit: '5.000000001' }, ...others] },
  ]) {
    const answer = await patch(api, id, { ...wider, name: 'wider' })
    refused(t, answer, 403, 'admin_required', JSON.stringify(wider))
    t.match(answer.json().error.message, /^Only an administrator may widen caps: \w+\S* /)
  }
  const narrower = {
    allowedAddresses: ['10.1.0.0/16'],
    tokenRateLimits: [{ limit: 5, window: '60s' }],
    limits: [{ ...daily, limit: '0.5' }, ...others, another],
  }
  t.match((await patch(api, id, narrower)).json(), { ...caps, ...narrower, name: 'capped' })
  const same = await patch(api, id, narrower)
  t.equal(same.statusCode, 200)
  t.match(same.json(), { propagation: { state: 'confirmed' } }, 'the first answer may be lost')
  t.notOk('propagation' in (await patch(api, id, { name: 'capped' })).json(), 'no caps are given')
  const wide = (
    await patch(
      api,
      id,
      { models: null, tokenRateLimits: null, limits: null, allowedAddresses: null },
      'admin',
    )
  ).json()
  t.strictSame(capsIn(wide), capsIn({}))
  t.match(api.audited.at(-1), {
    action: 'key.change',
    outcome: 'success',
    target: { keyId: id, user: 'alice' },
  })
})

test('a key, another user and an ended key change nothing', async (t) => {
  const api = await createKeyApi(t)
  const { id, key } = await api.createKey('alice')
  refused(t, await patch(api, id, caps, key), 403, 'identity_token_required')
  refused(t, await patch(api, id, caps, 'bob'), 404, 'not_found')
  await api.ask(`DELETE /v1/api-keys/${id}`, { as: 'alice' })
  refused(t, await patch(api, id, caps), 404, 'not_found')
  refused(t, await patch(api, id, caps, 'admin'), 404, 'not_found')
})

test('of concurrent changes none widens what another one has narrowed', async (t) => {
  let between: (() => Promise<unknown>) | undefined
  const around = (store: ApiKeyTable): ApiKeyTable => ({
    ...store,
    async change(...args) {
      const first = between
      between = undefined
      await first?.()
      return await store.change(...args)
    },
  })
  const api = await createKeyApi(t, { around })
  const { id } = await api.createKey('alice', { tokenRateLimits: [{ limit: 100, window: '1m' }] })
  between = () => patch(api, id, { tokenRateLimits: [{ limit: 10, window: '1m' }] })
  refused(
    t,
    await patch(api, id, { tokenRateLimits: [{ limit: 50, window: '1m' }] }),
    403,
    'admin_required',
  )
  between = () => patch(api, id, { allowedAddresses: ['::1'] })
  const both = await patch(api, id, { models: [small] })
  t.match(both.json(), {
    models: [small],
    allowedAddresses: ['::1'],
    tokenRateLimits: [{ limit: 10, window: '1m' }],
  })
})

test('a change waits for its turn while others change the caps, for a second', async (t) => {
  let others = 0
  const around = (store: ApiKeyTable): ApiKeyTable => ({
    ...store,
    async change(...args) {
      others -= 1
      const changed = { tokenRateLimits: [{ limit: 1_000 + others, window: '1m' }] }
      if (others >= 0)
        await api.sql`update api_keys set caps = ${JSON.stringify(changed)}::text::jsonb`
      return await store.change(...args)
    },
  })
  const api = await createKeyApi(t, { around })
  const { id } = await api.createKey('alice')
  others = 12
  const changed = await patch(api, id, { models: [small] })
  t.equal(changed.statusCode, 200)
  t.match(changed.json(), { models: [small], tokenRateLimits: [{ limit: 1_000 }] })
  others = 1_000_000
  const refusal = await patch(api, id, { models: [small] })
  refused(t, refusal, 503, 'store_locked')
  t.match(refusal.json(), { error: { message: /^Other requests .* nothing was changed/ } })
})

test('a model that the subscription has lost stays until it is left out', async (t) => {
  const api = await createKeyApi(t)
  const { id } = await api.createKey('alice', { models: [small] })
  const gone = { namespace: 'llm', name: 'gone' }
  await api.sql`update api_keys set caps = ${JSON.stringify({ models: [small, gone] })}::text::jsonb`
  t.match((await patch(api, id, { tokenRateLimits: caps.tokenRateLimits })).json(), {
    models: [small, gone],
  })
  t.match((await patch(api, id, { models: [gone] })).json(), { models: [gone] })
  refused(t, await patch(api, id, { models: [small] }), 403, 'admin_required')
})

test('caps that cannot be read refuse, and an administrator mends them', async (t) => {
  const api = await createKeyApi(t)
  const { id, key } = await api.createKey('alice')
  await api.sql`update api_keys set caps = '{"of": "a later version"}'`
  t.strictSame((await api.keys.findByHash(hashOf(key)))?.capped?.models, new Set())
  refused(t, await patch(api, id, { models: [small] }), 403, 'admin_required')
  const mended = await patch(api, id, { models: [small] }, 'admin')
  t.strictSame(mended.json().models, [small])
})
