import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import root from 'tap'
import { serve } from '../../src/main.ts'
import { createDatabase } from '../support/database.ts'
import { type Gateway, gatewayTests, meter, models, subscriptions } from '../support/gateway.ts'
import { passesPromtool, readScrape } from '../support/metrics.ts'
import { ownPlaces } from '../support/own-places.ts'
import { poll } from '../support/poll.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

const subscribed = subscriptions({ plenty: 1_000_000, small: 10 })
for (const { metadata, spec } of subscribed) {
  const pool = { name: 'pool', per: 'subscription', limit: 160, window: 'month' }
  if (metadata.name === 'small') spec.limits = [pool]
}

const test = gatewayTests({
  resources: (backendUrl) => [...models(backendUrl), ...subscribed, meter],
})

async function scrape({ addresses }: Gateway): Promise<string> {
  const { metrics } = addresses
  const response = await fetch(`http://${metrics?.host}:${metrics?.port}/metrics`)
  if (response.status !== 200) throw new Error(`no metrics: ${response.status}`)
  return response.text()
}

test('known requests give known figures', async (t, gateway) => {
  const user = gateway.newUser()
  const { key } = await gateway.mint({ user })
  const before = readScrape(await scrape(gateway))
  for (let call = 0; call < 3; call += 1) await gateway.chat(key, { totalTokens: 20 })
  await gateway.chat(key, { totalTokens: 7 }, { stream: true })
  await gateway.chat(key, { usage: 'none' })
  await gateway.chat('sk-tg-nobody', {})
  await gateway.ask('/nobody/knows/v1/chat/completions', key)
  await gateway.ask('/llm/sim/v1/models', key)
  const labels = { user, subscription: 'plenty' }
  await poll(
    async () =>
      readScrape(await scrape(gateway)).value('authorized_hits_total', {
        ...labels,
        model: 'llm/sim',
      }) === 67,
    'all responses are counted',
  )
  await gateway.settled()
  const after = readScrape(await scrape(gateway))
  t.equal(after.value('authorized_calls_total', labels), 5, 'without the list of models')
  const grew = (name: string, labels: Record<string, string>) =>
    (after.value(name, labels) ?? 0) - (before.value(name, labels) ?? 0)
  t.equal(grew('tollgate_usage_unusable_total', { model: 'llm/sim' }), 1)
  t.equal(grew('tollgate_checks_total', { decision: 'credential_invalid' }), 1)
  t.equal(grew('tollgate_checks_total', { decision: 'model_not_allowed' }), 1)
  t.equal(grew('tollgate_model_checks_total', { model: '', decision: 'model_not_allowed' }), 1)
  t.ok(grew('tollgate_model_responses_total', { model: 'llm/sim', code: '200' }) >= 6)
  t.ok(grew('tollgate_model_first_byte_seconds_count', { model: 'llm/sim' }) >= 6)
  t.ok(grew('authorized_request_duration_seconds_count', { subscription: 'plenty' }) >= 6)
  t.equal(after.value('tollgate_models'), 2)
  t.equal(after.value('tollgate_subscriptions'), 3)
  t.equal(after.value('tollgate_resource_problems'), 0)
  t.ok((after.value('tollgate_check_duration_seconds_count') ?? 0) >= 7)
  t.ok((after.value('tollgate_counters') ?? 0) >= 1)
  t.ok((after.value('tollgate_key_cache_entries') ?? 0) >= 1)
})

test('the three counters show the tokens, calls and refusals of a user', async (t, gateway) => {
  const user = gateway.newUser()
  const { key } = await gateway.mint({ user, subscription: 'small' })
  await gateway.chat(key, { totalTokens: 40 })
  const other = await gateway.mint({ user })
  await gateway.chat(other.key, { totalTokens: 70 })
  const ownSamples = async () => {
    const shown = readScrape(await scrape(gateway))
    return ['authorized_hits_total', 'authorized_calls_total', 'limited_calls_total'].map((name) =>
      shown
        .samples(name)
        .filter(({ labels }) => labels.user === user)
        .sort(
          (a, b) =>
            Number(a.labels.subscription === 'plenty') - Number(b.labels.subscription === 'plenty'),
        ),
    )
  }
  const [small, plenty] = ['small', 'plenty'].map((subscription) => ({ user, subscription }))
  const model = 'llm/sim'
  await poll(
    async () => (await ownSamples())[0]?.length === 2,
    'the tokens of both are counted within a second',
    1_000,
  )
  t.equal((await gateway.chat(key)).status, 429)
  t.strictSame(await ownSamples(), [
    [
      { labels: { ...small, model }, value: 40 },
      { labels: { ...plenty, model }, value: 70 },
    ],
    [
      { labels: small, value: 1 },
      { labels: plenty, value: 1 },
    ],
    [{ labels: small, value: 1 }],
  ])
  const pool = { resource: 'small', limit: 'pool', kind: 'tokens', whom: '' }
  const shown = readScrape(await scrape(gateway))
  t.equal(shown.value('tollgate_limit_used_ratio', pool), 0.25)
})

test('counts tokens by type in each form of response', async (t, gateway) => {
  const { key } = await gateway.mint()
  const usage = {
    prompt_tokens: 20,
    completion_tokens: 10,
    total_tokens: 30,
    prompt_tokens_details: { cached_tokens: 8, cache_write_tokens: 5, total_tokens: 999 },
    completion_tokens_details: { reasoning_tokens: 4 },
  }
  const types = ['input', 'cached', 'cache_write', 'output', 'reasoning']
  const read = async () => {
    const shown = readScrape(await scrape(gateway))
    const of = { model: 'llm/other' }
    return types.map((type) => shown.value('tollgate_model_tokens_total', { ...of, type }) ?? 0)
  }
  const path = '/llm/other/v1/chat/completions'
  await gateway.chat(key, { usage }, {}, path)
  await poll(async () => `${await read()}` === '20,8,5,10,4', 'a complete response')
  const details = { cached_tokens: 8, cache_creation_tokens: 5 }
  const streamed = { ...usage, prompt_tokens_details: details }
  await gateway.chat(key, { usage: streamed }, { stream: true }, path)
  await poll(async () => `${await read()}` === '40,16,10,20,8', 'a stream')
  const shown = readScrape(await scrape(gateway))
  const hits = shown
    .samples('authorized_hits_total')
    .filter(({ labels }) => labels.model === 'llm/other')
  t.equal(hits.at(-1)?.value, 60, 'a total in the details is ignored')
})

test('records the duration of a stream, metered or not', async (t, gateway) => {
  const { key } = await gateway.mint({ subscription: 'plenty' })
  const name = 'authorized_request_duration_seconds'
  const figures = async () => {
    const shown = readScrape(await scrape(gateway))
    const of = { subscription: 'plenty' }
    const upTo = (le: string) => shown.value(`${name}_bucket`, { ...of, le }) ?? 0
    return { all: shown.value(`${name}_count`, of) ?? 0, long: upTo('600') - upTo('1') }
  }
  await gateway.settled()
  const before = await figures()
  await gateway.chat(key, { words: 12, chunkDelayMs: 100 }, { stream: true })
  await gateway.ask('/llm/sim/v1/models', key)
  await gateway.chat(key, {}, { input: 'x' }, '/llm/sim/v1/embeddings')
  await poll(async () => (await figures()).all === before.all + 3, 'all three have ended')
  t.ok((await figures()).long >= before.long + 1)
})

test('the documentation lists exactly the existing metrics', async (t, gateway) => {
  const { key } = await gateway.mint()
  await gateway.chat(key, { usage: 'none' })
  await gateway.chat(key, {}, { input: 'x' }, '/llm/sim/v1/embeddings')
  await gateway.settled()
  const text = await scrape(gateway)
  const table = readFileSync(new URL('../../docs/metrics.md', import.meta.url), 'utf8')
  const documented = [...table.matchAll(/^\| `([a-z0-9_]+)(?:\{([a-z,]+)\})?` \| (\w+) \|/gm)]
  const { families } = readScrape(text)
  for (const [name, { type }] of families) {
    const row = documented.find(([, documentedName]) => documentedName === name)
    t.equal(row?.[3], type, name)
  }
  // Metrics of features that this gateway does not use, or has not used yet.
  const absent = [
    'tollgate_tokens_estimated_total',
    'tollgate_model_failures_total',
    'tollgate_models_bypassed',
    'tollgate_redis_away',
    'tollgate_counters_unflushed',
    'tollgate_redis_flush_seconds',
    'tollgate_redis_flush_counters',
    'tollgate_redis_losses_total',
    'tollgate_revocation_propagation_seconds',
    'tollgate_archive_failing',
    'tollgate_controller_leader',
    'tollgate_controller_writes_total',
    'tollgate_controller_waiting',
    'tollgate_controller_held_back',
  ]
  t.strictSame(
    documented.map(([, name]) => name as string).filter((name) => !families.has(name)),
    absent,
  )
  passesPromtool(t, text)
})

test('no label contains a secret', async (t, gateway) => {
  const { key, id } = await gateway.mint()
  await gateway.chat(key)
  const text = await scrape(gateway)
  t.notOk(text.includes(key))
  t.notOk(text.includes(id))
})

root.test('names a METRICS_ADDRESS in use', async (t) => {
  const taken = createServer()
  await once(taken.listen(0, '127.0.0.1'), 'listening')
  t.teardown(() => taken.close())
  const { port } = taken.address() as AddressInfo
  const settings = {
    DATABASE_URL: await createDatabase(t),
    ENVOY_CONFIG_DIR: temporaryFolder(t),
    ...ownPlaces(t),
    API_ADDRESS: '127.0.0.1:0',
    INTERNAL_ADDRESS: '127.0.0.1:0',
    GRPC_ADDRESS: '127.0.0.1:0',
    LOG_LEVEL: 'silent',
    AUDIT_LOG: 'off',
  }
  await t.rejects(serve({ ...settings, METRICS_ADDRESS: `127.0.0.1:${port}` }), {
    message: `METRICS_ADDRESS: 127.0.0.1:${port} is already taken`,
  })
  const service = await serve({ ...settings, METRICS_ADDRESS: 'off' })
  t.teardown(() => service.stop())
  t.equal(service.addresses.metrics, undefined)
})
