import { readFileSync } from 'node:fs'
import { parse } from 'yaml'
import { counts, scales } from '../support/counted.ts'
import { chatPath, gatewayTests, meter, models } from '../support/gateway.ts'

interface Bootstrap {
  static_resources: { listeners: { filter_chains: { filters: { typed_config: Manager }[] }[] }[] }
}
interface Manager {
  access_log: { name: string }[]
  http_filters: unknown[]
  route_config: {
    virtual_hosts: { routes: { name: string; typed_per_filter_config?: object }[] }[]
  }
}

const readme = readFileSync(new URL('../../envoy/README.md', import.meta.url), 'utf8')
/** The configuration that envoy/README.md describes in place of the access log. */
const { filter, route } = parse(/```yaml\n(# Among http_filters.*?)```/s.exec(readme)?.[1] ?? '')

function withoutAccessLog(text: string): string {
  const bootstrap = JSON.parse(text) as Bootstrap
  const manager = bootstrap.static_resources.listeners[0]?.filter_chains[0]?.filters[0]
    ?.typed_config as Manager
  manager.access_log = manager.access_log.filter(({ name }) => name !== 'usage')
  manager.http_filters.splice(-1, 0, filter)
  for (const each of manager.route_config.virtual_hosts[0]?.routes ?? []) {
    if (['path-read', 'body-small', 'body-large'].includes(each.name)) {
      each.typed_per_filter_config = { ...each.typed_per_filter_config, ...route }
    }
  }
  return JSON.stringify(bootstrap)
}

const test = gatewayTests({
  resources: (backendUrl) => [...models(backendUrl), ...scales(0, 1, 17, 40), meter],
  adjustEnvoy: withoutAccessLog,
})

for (const path of [chatPath, '/v1/chat/completions']) {
  for (const stream of [false, true]) {
    test(`counts ${stream ? 'a stream' : 'a response'} at ${path} once`, async (t, gateway) => {
      await counts(t, gateway, 17, async (key) => {
        t.equal((await gateway.chat(key, {}, { stream }, path)).status, 200)
      })
    })
  }
}

for (const [title, tokens, sim, fields] of [
  ['zero tokens count nothing', 0, { totalTokens: 0 }, {}],
  ['a response without usage counts nothing', 0, { usage: 'none' }, {}],
  ['a usage of null counts nothing', 0, { usage: 'null' }, {}],
  ['Envoy truncates a fraction', 1, { usageRaw: '{"total_tokens":1.5}' }, {}],
  ['Envoy reads a number in a string', 40, { usageRaw: '{"total_tokens":"40"}' }, {}],
  ['a negative number counts nothing', 0, { usageRaw: '{"total_tokens":-40}' }, {}],
  ['a failed response counts nothing', 0, { status: 500, totalTokens: 40 }, {}],
  [
    'cumulative usage counts once',
    40,
    { usageEveryChunk: true, totalTokens: 40 },
    { stream: true },
  ],
] as const) {
  test(title, async (t, gateway) => {
    await counts(t, gateway, tokens, (key) => gateway.chat(key, sim, fields))
  })
}

test('counts a stream that the client leaves', async (t, gateway) => {
  const { key } = await gateway.mint({ subscription: 'limit-17' })
  const body = { model: 'sim', messages: [{ role: 'user', content: 'Hi' }], stream: true }
  const sim = JSON.stringify({ usageEveryChunk: true, chunkDelayMs: 20, words: 1_000 })
  const response = await fetch(gateway.url + chatPath, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'x-sim': sim },
    body: JSON.stringify({ ...body, max_tokens: 1_000 }),
  })
  let seen = ''
  for await (const chunk of response.body ?? []) {
    seen += Buffer.from(chunk).toString()
    if (/"total_tokens":[2-9]\d/.test(seen)) break
  }
  await gateway.settled()
  t.ok(await gateway.isSpent(key))
})

test('refused requests report no usage', async (t, gateway) => {
  const { key } = await gateway.mint({ subscription: 'limit-17' })
  t.equal((await gateway.chat(undefined, { totalTokens: 40 })).status, 401)
  t.equal(
    (await gateway.chat(key, { totalTokens: 40 }, {}, '/llm/nothing/v1/chat/completions')).status,
    403,
  )
  await gateway.settled()
  t.notOk(await gateway.isSpent(key))
})
