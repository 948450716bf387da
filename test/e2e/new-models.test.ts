import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import root from 'tap'
import { accessPolicy, modelRef, subscription } from '../support/documents.ts'
import { envoyPath } from '../support/envoy-binary.ts'
import {
  type Gateway,
  gatewayTests,
  models,
  startGateway,
  subscriptions,
} from '../support/gateway.ts'
import { readScrape } from '../support/metrics.ts'
import { poll } from '../support/poll.ts'

const team = { groups: ['team'] }
const names = ['one', 'two', 'three']
/** With so many clusters Envoy takes most of a second to add one. */
const crowd = Array.from({ length: 2_500 }, (_, i) =>
  modelRef(`crowd-${i}`, { backendUrl: 'http://127.0.0.1:1' }),
)
/** Covers existing models and some that are added later. */
const wide = subscription(
  'wide',
  team,
  Object.fromEntries(
    ['sim', 'beside', ...names].map((name) => [`llm/${name}`, [[1_000_000, '1h']] as const]),
  ),
)
const test = gatewayTests({
  concurrency: 2,
  resources: (backendUrl) => [...models(backendUrl), wide, ...crowd],
})

/** A model with its own AccessPolicy. */
const opened = (name: string, backendUrl: string) => [
  modelRef(name, { backendUrl }),
  accessPolicy(name, [`llm/${name}`], team),
]

async function ask(gateway: Gateway, key: string, model: string): Promise<number> {
  return (await gateway.chat(key, {}, {}, `/llm/${model}/v1/chat/completions`)).status
}

test('a new model among thousands works as soon as it is known', async (t, gateway) => {
  const { key } = await gateway.mint({ subscription: 'wide' })
  for (const name of names) {
    gateway.put(`${name}.yaml`, opened(name, gateway.model.url))
    const statuses: number[] = []
    await poll(async () => {
      statuses.push(await ask(gateway, key, name))
      return statuses.at(-1) !== 403
    }, `${name} is known`)
    for (let more = 0; more < 20; more += 1) statuses.push(await ask(gateway, key, name))
    t.strictSame([...new Set(statuses)], [403, 200], name)
  }
})

test('a name that no TLS server can have delays no other model', async (t, gateway) => {
  const { key } = await gateway.mint({ subscription: 'wide' })
  const host = Array.from({ length: 5 }, () => 'a'.repeat(60)).join('.')
  gateway.put('beside.yaml', [
    modelRef('long', { backendUrl: `https://${host}.example` }, 'east'),
    ...opened('beside', gateway.model.url),
  ])
  await poll(async () => (await ask(gateway, key, 'beside')) === 200, 'it is served')
  const { admin } = gateway.envoy
  const stats = await fetch(`http://${admin}/stats?filter=cds.update_rejected`)
  t.match(await stats.text(), /: 0$/m)
})

root.test(
  'access ends at once while Envoy is behind',
  {
    skip: envoyPath() === undefined && 'no Envoy',
  },
  async (t) => {
    // An admin page on which no new cluster ever appears.
    const admin = createServer((request, response) => {
      const isStats = request.url?.startsWith('/stats')
      response.end(isStats ? 'cluster_manager.cds.version_text: "old"\n' : '{}')
    })
    await new Promise<void>((listening) => admin.listen(0, '127.0.0.1', listening))
    t.teardown(() => admin.close())
    const gateway = await startGateway(t, {
      resources: (backendUrl) => [...models(backendUrl), wide, ...subscriptions({ plenty: 1_000 })],
      env: { ENVOY_ADMIN_ADDRESS: `127.0.0.1:${(admin.address() as AddressInfo).port}` },
    })
    const { key } = await gateway.mint({ subscription: 'wide' })
    t.equal(await ask(gateway, key, 'sim'), 200)
    const putAt = performance.now()
    gateway.put('change.yaml', opened('one', gateway.model.url))
    gateway.put('resources.yaml', [...models(gateway.model.url).slice(0, 2), wide])
    await poll(async () => (await ask(gateway, key, 'sim')) === 403, 'the policy is removed', 5_000)
    const { metrics } = gateway.addresses
    const waiting = async () => {
      const scrape = await fetch(`http://${metrics?.host}:${metrics?.port}/metrics`)
      return readScrape(await scrape.text()).value('tollgate_models_waiting')
    }
    t.equal(await waiting(), 3, 'the new model, and the two that were there at the start')
    t.equal(await ask(gateway, key, 'one'), 403, 'the new model is not in force yet')
    await poll(
      async () => (await ask(gateway, key, 'one')) === 200,
      'the model stops waiting',
      20_000,
    )
    t.ok(performance.now() - putAt > 9_000, 'after ten seconds')
    t.equal(await waiting(), 3, 'Envoy still has none of them')
  },
)
