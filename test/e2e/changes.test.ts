import { setTimeout as sleep } from 'node:timers/promises'
import { accessPolicy, modelRef, subscription } from '../support/documents.ts'
import { type Gateway, gatewayTests, models, subscriptions } from '../support/gateway.ts'
import { startModelServer } from '../support/model-server.ts'
import { poll } from '../support/poll.ts'
import { percentile } from '../support/steady-load.ts'

const team = { groups: ['team'] }
const test = gatewayTests({
  concurrency: 2,
  resources: (backendUrl) => [...models(backendUrl), ...subscriptions({ plenty: 1_000_000 })],
})

/** A model with its own policy and subscription, all of this name. */
function family(name: string, backendUrl: string) {
  return [
    modelRef(name, { backendUrl }),
    accessPolicy(name, [`llm/${name}`], team),
    subscription(name, team, { [`llm/${name}`]: [[1_000_000, '1h']] }),
  ]
}

async function statusOf(gateway: Gateway, key: string, model: string): Promise<number> {
  return (await gateway.chat(key, {}, {}, `/llm/${model}/v1/chat/completions`)).status
}

/** Creates a key as soon as the subscription is in force. */
async function mintBy(gateway: Gateway, name: string): Promise<string> {
  const user = gateway.newUser()
  let key = ''
  await poll(async () => {
    key = await gateway.mint({ user, subscription: name }).then(
      (minted) => minted.key,
      () => '',
    )
    return key !== ''
  }, `${name} is in force`)
  return key
}

test('a new model drops no request', async (t, gateway) => {
  const { key } = await gateway.mint()
  let asking = true
  const statuses = new Map<number, number>()
  const answerMs: number[] = []
  const load = Array.from({ length: 4 }, async () => {
    while (asking) {
      const sentAt = performance.now()
      const status = await statusOf(gateway, key, 'sim').catch(() => 0)
      statuses.set(status, (statuses.get(status) ?? 0) + 1)
      answerMs.push(performance.now() - sentAt)
      await sleep(2)
    }
  })
  const waits: number[] = []
  for (const name of ['new-1', 'new-2', 'new-3']) {
    const since = performance.now()
    gateway.put(`${name}.yaml`, family(name, gateway.model.url))
    const own = await mintBy(gateway, name)
    t.equal(
      await statusOf(gateway, own, name),
      200,
      'usable as soon as its subscription is in force',
    )
    waits.push(performance.now() - since)
  }
  for (const name of ['new-1', 'new-2', 'new-3']) gateway.put(`${name}.yaml`, undefined)
  asking = false
  await Promise.all(load)
  t.strictSame([...statuses.keys()], [200])
  // A model takes some steps more on a machine where each answer takes long.
  const bound = 2_000 + 50 * percentile(answerMs, 0.5)
  const shown = `usable within ${waits.map(Math.round).join(', ')} ms, of ${Math.round(bound)}`
  t.ok(percentile(waits, 0.5) < bound, shown)
  t.comment(shown)
})

test('a model may move to another server', async (t, gateway) => {
  gateway.put('moving.yaml', family('moving', gateway.model.url))
  const key = await mintBy(gateway, 'moving')
  const next = await startModelServer(t)
  const slow = gateway.chat(
    key,
    { chunkDelayMs: 40 },
    { stream: true },
    '/llm/moving/v1/chat/completions',
  )
  gateway.put('moving.yaml', family('moving', `${next.url}/base`))
  const asked = async () => (await next.tally()).requests['/base/v1/chat/completions'] ?? 0
  await poll(async () => {
    const status = await statusOf(gateway, key, 'moving')
    t.ok(status === 200 || status === 404, `${status} is from one of the two servers`)
    return (await asked()) > 0
  }, 'the new server gets requests, below its base path')
  t.match((await slow).text, /data: \[DONE\]\n\n$/, 'a running stream stays on the old server')
  gateway.put('moving.yaml', undefined)
})

test('a stream survives the removal of its model', async (t, gateway) => {
  gateway.put('leaving.yaml', family('leaving', gateway.model.url))
  const key = await mintBy(gateway, 'leaving')
  const path = '/llm/leaving/v1/chat/completions'
  const { open } = await gateway.model.tally()
  // Longer than the cluster is kept for Checks that were already answered.
  const streaming = gateway.chat(key, { chunkDelayMs: 400 }, { stream: true }, path)
  await poll(async () => (await gateway.model.tally()).open > open, 'the stream has begun')
  gateway.put('leaving.yaml', undefined)
  await poll(async () => (await statusOf(gateway, key, 'leaving')) === 403, 'the model is removed')
  const { status, text } = await streaming
  t.equal(status, 200)
  t.match(text, /data: \[DONE\]\n\n$/)
})

test('a broken file leaves the others in force', async (t, gateway) => {
  const { key } = await gateway.mint()
  gateway.put('broken.yaml', 'kind: [')
  gateway.put('bad.yaml', [modelRef('sim', { backendUrl: 'no URL' })])
  gateway.put('fine.yaml', family('fine', gateway.model.url))
  const own = await mintBy(gateway, 'fine')
  t.equal(await statusOf(gateway, own, 'fine'), 200)
  t.equal(await statusOf(gateway, key, 'sim'), 200)
  for (const file of ['broken.yaml', 'bad.yaml', 'fine.yaml']) gateway.put(file, undefined)
})

test('closing a model takes effect for existing keys', async (t, gateway) => {
  gateway.put('shut.yaml', family('shut', gateway.model.url))
  const key = await mintBy(gateway, 'shut')
  t.equal(await statusOf(gateway, key, 'shut'), 200)
  const [model, , paid] = family('shut', gateway.model.url)
  if (model === undefined || paid === undefined) throw new Error('a family has three resources')
  gateway.put('shut.yaml', [model, paid])
  await poll(async () => (await statusOf(gateway, key, 'shut')) === 403, 'the policy is removed')
  gateway.put('shut.yaml', [...family('shut', gateway.model.url)])
  await poll(async () => (await statusOf(gateway, key, 'shut')) === 200, 'the policy is back')
  gateway.put('shut.yaml', [
    ...family('shut', gateway.model.url).slice(1),
    modelRef('shut', { backendUrl: undefined }),
  ])
  await poll(async () => (await statusOf(gateway, key, 'shut')) === 503, 'the model has no server')
  gateway.put('shut.yaml', undefined)
})

test('a misspelt limit closes its model, and no other', async (t, gateway) => {
  const url = gateway.model.url
  const both = (more: object) => {
    const ofEach = (name: string) => family(name, url).slice(0, 2)
    const paid = subscription('both', team, {
      'llm/exact': [[1_000_000, '1h']],
      'llm/other': [[1_000_000, '1h']],
    })
    const [exact, other] = paid.spec.modelRefs as readonly object[]
    const spec = { ...paid.spec, modelRefs: [{ ...exact, ...more }, other, exact] }
    return [...ofEach('exact'), ...ofEach('other'), { ...paid, spec }]
  }
  gateway.put('both.yaml', both({ requestRateLimits: [{ limit: 100_000, window: '1h' }] }))
  const key = await mintBy(gateway, 'both')
  // The subscription is ready once one of its models is; the other may still be on its way to Envoy.
  await poll(async () => (await statusOf(gateway, key, 'exact')) === 200, 'its entry is in force')
  gateway.put('both.yaml', both({ requestRateLimit: [{ limit: 1, window: '1h' }] }))
  await poll(async () => (await statusOf(gateway, key, 'exact')) === 403, 'its entry is closed')
  t.equal(await statusOf(gateway, key, 'other'), 200)
  gateway.put('both.yaml', both({}))
  await poll(async () => (await statusOf(gateway, key, 'exact')) === 200, 'its entry is back')
  gateway.put('both.yaml', undefined)
})
