import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import root from 'tap'
import { startDnsServer } from '../support/dns-server.ts'
import { accessPolicy, modelRef, subscription } from '../support/documents.ts'
import { type Gateway, gatewayTests } from '../support/gateway.ts'
import { poll } from '../support/poll.ts'

/** A name server that can stop answering. */
async function startResolver() {
  const answering = await startDnsServer(root, (name) =>
    name.endsWith('.model.example') ? '127.0.0.1' : undefined,
  )
  const socket = createSocket('udp4')
  const upstream = createSocket('udp4')
  const asking = new Map<number, number>()
  const state = { answers: false, asked: 0 }
  socket.on('message', (query, { port }) => {
    state.asked += 1
    if (!state.answers) return
    asking.set(query.readUInt16BE(0), port)
    upstream.send(query, answering, '127.0.0.1')
  })
  upstream.on('message', (answer) => {
    socket.send(answer, asking.get(answer.readUInt16BE(0)) ?? 1, '127.0.0.1')
  })
  socket.bind(0, '127.0.0.1')
  await once(socket, 'listening')
  root.teardown(() => {
    socket.close()
    upstream.close()
  })
  return { state, port: socket.address().port }
}

const resolver = await startResolver()
const keys = ['llm/sim', 'llm/dead', 'llm/fresh']

/** The ModelRefs of the test; `port` is the model server's. */
function documents(backendUrl: string, more: Record<string, object> = {}) {
  const { port } = new URL(backendUrl)
  const refs = {
    sim: { backendUrl },
    dead: { backendUrl: `http://dead.model.example:${port}` },
    ...more,
  }
  return [
    ...Object.entries(refs).map(([name, spec]) => modelRef(name, spec)),
    accessPolicy('open', keys, { groups: ['team'] }),
    subscription(
      'plenty',
      { groups: ['team'] },
      Object.fromEntries(keys.map((key) => [key, [[1_000_000, '1h']] as const])),
    ),
  ]
}

const test = gatewayTests({ resources: documents, adjustEnvoy: adjust, concurrency: 2 })

/** The shipped resolver, with this test's name server. */
function adjust(bootstrap: string): string {
  const parsed = JSON.parse(bootstrap)
  const address = { address: '127.0.0.1', port_value: resolver.port, protocol: 'UDP' }
  const name = 'envoy.network.dns_resolver.cares'
  parsed.typed_dns_resolver_config ??= {
    name,
    typed_config: {
      '@type': `type.googleapis.com/envoy.extensions.network.dns_resolver.cares.v3.CaresDnsResolverConfig`,
    },
  }
  parsed.typed_dns_resolver_config.typed_config.resolvers = [{ socket_address: address }]
  return JSON.stringify(parsed)
}

const ask = async (gateway: Gateway, key: string, model: string) =>
  (await gateway.chat(key, {}, {}, `/llm/${model}/v1/chat/completions`)).status

test('Envoy listens and serves while no name is resolved', async (t, gateway) => {
  // startEnvoy gives up after ten seconds; with Envoy's defaults it listens after most of a minute.
  const { key } = await gateway.mint()
  t.equal(await ask(gateway, key, 'sim'), 200, 'a model at an address')
  t.equal(await ask(gateway, key, 'dead'), 503)
  t.ok(resolver.state.asked > 0, 'the name server was asked')
  resolver.state.answers = true
  await poll(
    async () => (await ask(gateway, key, 'dead')) === 200,
    'the model is served once its name is resolved',
    30_000,
  )
})

test('a new model with a name works as soon as it is known', async (t, gateway) => {
  const { key } = await gateway.mint()
  const { port } = new URL(gateway.model.url)
  const statuses: number[] = []
  gateway.put(
    'resources.yaml',
    documents(gateway.model.url, { fresh: { backendUrl: `http://fresh.model.example:${port}` } }),
  )
  await poll(async () => {
    statuses.push(await ask(gateway, key, 'fresh'))
    return statuses.at(-1) !== 403
  }, 'it is known')
  for (let more = 0; more < 20; more += 1) statuses.push(await ask(gateway, key, 'fresh'))
  t.strictSame([...new Set(statuses)], [403, 200])
})

test('a change of its server loses no request', async (t, gateway) => {
  const { key } = await gateway.mint()
  const { port } = new URL(gateway.model.url)
  const statuses = new Set<number>()
  let isDone = false
  const load = Array.from({ length: 4 }, async () => {
    while (!isDone) statuses.add(await ask(gateway, key, 'fresh'))
  })
  for (const connect of ['1s', '2s', '3s', '4s']) {
    const backendUrl = `http://fresh.model.example:${port}`
    gateway.put(
      'resources.yaml',
      documents(gateway.model.url, { fresh: { backendUrl, timeouts: { connect } } }),
    )
    await new Promise((resolve) => setTimeout(resolve, 1_000))
  }
  isDone = true
  await Promise.all(load)
  t.strictSame([...statuses], [200])
})
