/** Caps of keys, through a real Envoy. */

import { mkdtempSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { subscription, type WrittenDocument } from '../support/documents.ts'
import {
  type Answer,
  chatPath,
  defaultResources,
  type Gateway,
  gatewayTests,
} from '../support/gateway.ts'
import { poll } from '../support/poll.ts'
import { lasts } from '../support/window-ends.ts'

const otherPath = '/llm/other/v1/chat/completions'
const adminToken = 'token-admin'

/** A zone whose day does not end during the tests. */
function zoneAtNoon(): string {
  const ahead = 12 - new Date().getUTCHours()
  return `Etc/GMT${ahead > 0 ? '-' : '+'}${Math.abs(ahead)}`
}

/** A Subscription with a price of llm/sim. */
function priced(name: string, mode: 'count' | 'reserve'): WrittenDocument {
  const owner = { groups: ['team'] }
  const ofModels = { billingRate: { perToken: '0.01' } }
  const all = { 'llm/sim': [[1_000_000_000, '1h']] } as const
  const { spec, ...document } = subscription(name, owner, all, {
    ...{ priority: -1, ofModels, admission: { mode } },
  })
  return { ...document, spec: { ...spec, calendar: { timeZone: zoneAtNoon() } } }
}

const test = gatewayTests({
  lists: true,
  resources: (backendUrl) => [
    ...defaultResources(backendUrl),
    priced('priced', 'count'),
    priced('reserving', 'reserve'),
  ],
  env: {
    USAGE_JOURNAL: join(mkdtempSync(join(tmpdir(), 'caps-')), 'usage.jsonl'),
    GATEWAY_TRUSTED_HOPS: '1',
  },
})

/** A key whose own hour does not end during the tests. */
async function mint(gateway: Gateway, caps: object, user = gateway.newUser()) {
  let key = await gateway.mint({ user, ...caps })
  while (!lasts(key.id)) key = await gateway.mint({ user, ...caps })
  return { user, ...key }
}

async function patch(gateway: Gateway, id: string, token: string, caps: object) {
  const answer = await gateway.ask(`/v1/api-keys/${id}`, token, {
    method: 'PATCH',
    body: JSON.stringify(caps),
  })
  if (answer.status !== 200) throw new Error(answer.text)
  return JSON.parse(answer.text)
}

test('only the models of the key are served and listed', async (t, gateway) => {
  const { key } = await mint(gateway, { models: [{ namespace: 'llm', name: 'sim' }] })
  t.equal((await gateway.chat(key)).status, 200)
  const refused = await gateway.chat(key, {}, {}, otherPath)
  t.equal(refused.status, 403)
  t.match(JSON.parse(refused.text), {
    error: { code: 'model_not_allowed', message: /"llm\/other", which is not among its models/ },
  })
  const { data } = JSON.parse((await gateway.ask('/v1/models', key)).text)
  const owners = data.map((each: { owned_by: string }) => each.owned_by)
  t.strictSame([...new Set(owners)], ['llm/sim'])
})

test('the address is the one before the trusted proxy, whatever a client claims', async (t, gateway) => {
  const { key } = await mint(gateway, { allowedAddresses: ['192.0.2.0/24'] })
  const from = (forwarded: string, body = '{"model":"sim","messages":[]}') =>
    gateway.ask(chatPath, key, { method: 'POST', body, headers: { 'x-forwarded-for': forwarded } })
  t.equal((await from('192.0.2.7')).status, 200)
  for (const written of ['192.0.2.7:50123', '[::ffff:192.0.2.7]:50123', '::ffff:192.0.2.7']) {
    t.equal((await from(`198.51.100.1, ${written}`)).status, 200, written)
  }
  for (const written of ['192.0.2.7:65536', '[192.0.2.7]', '192.0.2.7:1, 198.51.100.1:2', 'x']) {
    t.equal((await from(written)).status, 403, written)
  }
  const before = await gateway.model.tally()
  const refused = await from('192.0.2.7, 198.51.100.1')
  t.equal(refused.status, 403)
  t.match(JSON.parse(refused.text), {
    error: { code: 'address_not_allowed', message: /"198\.51\.100\.1"/ },
  })
  t.equal(refused.headers.get('x-should-retry'), 'false')
  const large = JSON.stringify({ model: 'sim', messages: [], more: 'x'.repeat(200_000) })
  t.equal((await from('198.51.100.1', large)).status, 403, 'before a large body is read')
  t.strictSame(await gateway.model.tally(), before, 'the model gets no request')
})

test('tokens of the key count over its models, and the tightest limit speaks', async (t, gateway) => {
  const { key, user } = await mint(gateway, { tokenRateLimits: [{ limit: 50, window: '1h' }] })
  const first = await gateway.chat(key, { totalTokens: 30 })
  t.equal(first.headers.get('x-ratelimit-limit-tokens'), '50')
  t.match(
    first.headers.get('ratelimit-policy'),
    /^"1h";q=1000000000.*, "key-1h";q=50;w=3600;qu="tokens"$/,
  )
  t.match(first.headers.get('ratelimit'), /"key-1h";r=50;t=\d+/)
  await gateway.settled()
  t.equal((await gateway.chat(key, { totalTokens: 20 }, {}, otherPath)).status, 200)
  await gateway.settled()
  const refused = await gateway.chat(key)
  t.equal(refused.status, 429)
  t.match(
    JSON.parse(refused.text).error.message,
    /^The token limit of this API key is used up: 50 of 50 tokens in 1h \(resets at 2\S+Z\)\. Please/,
  )
  const another = await mint(gateway, {}, user)
  t.equal((await gateway.chat(another.key)).status, 200, 'another key of the user')
  const explained = await gateway.ask('/v1/explain', `token-${user}`, {
    method: 'POST',
    body: JSON.stringify({ keyId: await idOf(gateway, key), model: 'llm/sim' }),
  })
  t.match(JSON.parse(explained.text), {
    allowed: false,
    limits: [{ scope: 'user' }, { scope: 'key', used: 50, remaining: 0 }],
  })

  await gateway.stopService()
  await gateway.startService()
  await poll(
    async () => (await gateway.chat(key)).status === 429,
    'the journal has it, after a restart',
  )
})

test("a day's money of the key is spent for it alone, and stays so after a restart", async (t, gateway) => {
  const limits = [{ name: 'daily', of: 'cost', limit: '0.5', window: 'day' }]
  const { key, id, user } = await mint(gateway, { subscription: 'priced', limits })
  const use = async (totalTokens: number) => {
    const answer = await gateway.chat(key, { totalTokens })
    await gateway.settled()
    return answer.status
  }
  t.equal(await use(49), 200)
  t.equal(await use(20), 200, 'a cent is left')
  const refused = await gateway.chat(key)
  t.equal(refused.status, 429, refused.text)
  t.match(JSON.parse(refused.text), {
    error: {
      code: 'insufficient_quota',
      message: /"daily" of this API key.*: 0\.69 of 0\.5 in a day/,
    },
  })
  const shown = JSON.parse((await gateway.ask('/v1/limits', key)).text)
  t.match(shown.data.at(-1), { name: 'daily', scope: 'key', limit: '0.5', used: '0.69' })
  const another = await mint(gateway, { subscription: 'priced' }, user)
  t.equal((await gateway.chat(another.key)).status, 200, 'another key of the user')
  const closed = await gateway.ask('/llm/sim/v1/audio/transcriptions', key, { method: 'POST' })
  t.equal(JSON.parse(closed.text).error.code, 'path_closed', 'what is not counted')
  await gateway.stopService()
  await gateway.startService()
  await poll(async () => (await gateway.chat(key)).status === 429, 'the journal has it')
  const more = { limits: [{ ...limits[0], limit: '1' }] }
  const widened = await gateway.ask(`/v1/api-keys/${id}`, `token-${user}`, {
    method: 'PATCH',
    body: JSON.stringify(more),
  })
  t.equal(widened.status, 403, 'not by its holder')
  await patch(gateway, id, adminToken, more)
  t.equal((await gateway.chat(key)).status, 200)
})

test('a key whose Subscription reserves holds its money', async (t, gateway) => {
  const limits = [{ name: 'daily', of: 'cost', limit: '0.6', window: 'day' }]
  const { key } = await mint(gateway, { subscription: 'reserving', limits })
  const asked = async () => JSON.stringify(await gateway.model.tally())
  const before = await asked()
  const slow = gateway.chat(key, { delayMs: 1_500, totalTokens: 10 }, { max_tokens: 40 })
  await poll(async () => (await asked()) !== before, 'the model has it')
  const refused = await gateway.chat(key, {}, { max_tokens: 40 })
  t.equal(refused.status, 429, refused.text)
  t.match(JSON.parse(refused.text), {
    error: {
      code: 'rate_limit_exceeded',
      message: /^The rest of the budget "daily" of this API key/,
    },
  })
  t.equal((await slow).status, 200)
  const freed = async () => (await gateway.chat(key, {}, { max_tokens: 40 })).status === 200
  await poll(freed, 'what is not used is free again')
})

test('requests of the key, and those in progress, are taken before they are sent', async (t, gateway) => {
  const { key } = await mint(gateway, {
    limits: [
      { name: 'few', of: 'requests', limit: 3, window: '1h' },
      { name: 'one', of: 'concurrency', limit: 1, models: [{ namespace: 'llm', name: 'sim' }] },
    ],
  })
  const codeOf = ({ status, text }: Answer) => (status === 200 ? '' : JSON.parse(text).error.code)
  const asked = async () => JSON.stringify(await gateway.model.tally())
  const before = await asked()
  const slow = gateway.chat(key, { delayMs: 1_500 })
  await poll(async () => (await asked()) !== before, 'the model has it')
  t.equal(codeOf(await gateway.chat(key)), 'concurrency_limit_exceeded')
  t.equal(codeOf(await gateway.chat(key, {}, {}, otherPath)), '', 'of another model')
  t.equal(codeOf(await slow), '')
  await poll(async () => (await gateway.chat(key)).status === 200, 'its place is free again')
  t.equal(codeOf(await gateway.chat(key)), 'request_limit_exceeded')
  await gateway.settled()
  t.equal(codeOf(await gateway.chat(key)), 'request_limit_exceeded', 'once the lines are read, too')
})

async function idOf(gateway: Gateway, key: string): Promise<string> {
  const answer = await gateway.ask('/v1/api-keys/search', key, {
    method: 'POST',
    body: JSON.stringify({ filters: { keyPrefix: key.slice(0, 12) } }),
  })
  return JSON.parse(answer.text).data[0].id
}

test('a narrowed cap is in force with the answer, a dropped one too', async (t, gateway) => {
  const { key, id, user } = await mint(gateway, {})
  t.equal((await gateway.chat(key)).status, 200)
  const narrowed = await patch(gateway, id, `token-${user}`, { allowedAddresses: ['192.0.2.0/24'] })
  t.equal(narrowed.propagation.state, 'confirmed')
  t.equal((await gateway.chat(key)).status, 403)
  await patch(gateway, id, adminToken, { allowedAddresses: null })
  t.equal((await gateway.chat(key)).status, 200)
})

test('the addresses hold for the API and for lists, which are asked for on behalf', async (t, gateway) => {
  const { key, id } = await mint(gateway, { allowedAddresses: ['192.0.2.0/24'] })
  const ask = (path: string, forwarded: string, headers: Record<string, string> = {}) =>
    gateway.ask(path, key, { headers: { 'x-forwarded-for': forwarded, ...headers } })
  const [near, far] = ['192.0.2.7:5000', '192.0.2.7, 198.51.100.1']
  for (const path of ['/v1/me', '/maas-api/v1/me', `/v1/api-keys/${id}`, '/v1/models']) {
    t.equal((await ask(path, near)).status, 200, path)
    const refused = await ask(path, far)
    t.equal(refused.status, 403, path)
    t.match(JSON.parse(refused.text), { error: { code: 'address_not_allowed' } })
  }
  const { data } = JSON.parse((await ask('/v1/models', near)).text)
  t.ok(data.length > 0, 'the service is let through for its client')
  for (const path of ['/llm/sim/v1/models', '/llm/other/v1/models']) {
    t.equal((await ask(path, near)).status, 200, path)
    t.equal((await ask(path, far)).status, 403, path)
    for (const forged of ['192.0.2.7', `${Date.now()};192.0.2.7;${'A'.repeat(43)}`]) {
      t.equal((await ask(path, far, { 'listing-client': forged })).status, 403, forged)
    }
  }
  const remove = await gateway.ask(`/v1/api-keys/${id}`, key, {
    method: 'DELETE',
    headers: { 'x-forwarded-for': far },
  })
  t.equal(remove.status, 200, 'but it ends itself from anywhere')
})

test('the own limit of a key is higher while it is increased', async (t, gateway) => {
  const limits = [{ name: 'daily', limit: 40, window: 'day' }]
  const { key, id } = await mint(gateway, { limits, subscription: 'priced' })
  const ask = async () => {
    const { status, headers } = await gateway.chat(key, { totalTokens: 40 })
    await gateway.settled()
    return { status, policy: headers.get('ratelimit-policy') }
  }
  t.match(await ask(), { status: 200, policy: '"key-daily";q=40;' })
  t.match(await ask(), { status: 429 })
  const until = new Date(Date.now() + 3_600_000).toISOString()
  const body = JSON.stringify({ keyId: id, name: 'daily', limit: 100, until, reason: 'a test' })
  const path = '/v1/admin/increases'
  const made = await gateway.ask(path, adminToken, { method: 'POST', body })
  t.match(JSON.parse(made.text), { keyId: id, propagation: { state: 'confirmed' } })
  t.match(await ask(), { status: 200, policy: '"key-daily";q=100;' })
  const ended = await gateway.ask(`${path}/${JSON.parse(made.text).id}`, adminToken, {
    method: 'DELETE',
  })
  t.match(JSON.parse(ended.text), { propagation: { state: 'confirmed' } })
  t.match(await ask(), { status: 429 })
})
