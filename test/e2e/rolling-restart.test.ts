import { setTimeout as delay } from 'node:timers/promises'
import t from 'tap'
import { everyProcessIsAsked } from '../support/envoy.ts'
import { envoyPath } from '../support/envoy-binary.ts'
import { chatPath, models, subscriptions } from '../support/gateway.ts'
import { startReplicas } from '../support/replicas.ts'
import { type LoadRequest, startLoad, tally } from '../support/steady-load.ts'

const skip = envoyPath() === undefined && 'no Envoy'

t.test('a rolling restart causes no 5xx', { skip }, async (t) => {
  const { url, all, envoy } = await startReplicas(t, {
    count: 2,
    resources: (backendUrl) => [...models(backendUrl), ...subscriptions({ plenty: 1e9 })],
    tokens: ['token-ann,ann,1,team'],
  })
  const headers = { authorization: 'Bearer token-ann', 'content-type': 'application/json' }
  const minted = await fetch(`${url}/v1/api-keys`, {
    method: 'POST',
    headers,
    body: JSON.stringify({ name: 'load', subscription: 'plenty' }),
  })
  const { key } = (await minted.json()) as { key: string }
  const chat: LoadRequest = {
    url: url + chatPath,
    headers: { ...headers, authorization: `Bearer ${key}` },
    body: '{"model":"sim","messages":[]}',
  }
  const list: LoadRequest = { url: `${url}/v1/subscriptions`, method: 'GET', headers }
  const load = startLoad(200, (n) => (n % 10 === 0 ? list : chat), 16)
  await delay(500)
  for (const replica of all) {
    t.equal(await replica.end('SIGTERM'), 0, `${replica.name} exits with status 0`)
    await delay(300)
    await replica.start()
    await everyProcessIsAsked(envoy)
  }
  const shots = await load.stop()
  t.strictSame(tally(shots), { 200: shots.length })
  t.comment(`${shots.length} requests`)
})
