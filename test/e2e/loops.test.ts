import root from 'tap'
import { hopMark } from '../../src/formats/hop-mark.ts'
import { formatAddress } from '../../src/settings/config.ts'
import { startDnsServer } from '../support/dns-server.ts'
import { accessPolicy, modelRef, subscription } from '../support/documents.ts'
import { envoyPath } from '../support/envoy-binary.ts'
import { freePorts } from '../support/free-ports.ts'
import { type Gateway, gatewayTests, type MintedKey, startGateway } from '../support/gateway.ts'
import { startModelServer } from '../support/model-server.ts'
import { poll } from '../support/poll.ts'
import { sendRaw, toBytes } from '../support/raw-http.ts'
import { startTcpProxy } from '../support/tcp-proxy.ts'

const noEnvoy = envoyPath() === undefined && 'no Envoy'
const GATEWAY_URL = 'https://models.example'
const ownMark = hopMark(GATEWAY_URL)
const test = gatewayTests({ env: { GATEWAY_URL } })

/** Adds models at these URLs, and waits until they are served. */
async function addModels(gateway: Gateway, urls: Readonly<Record<string, string>>) {
  const keys = Object.keys(urls).map((name) => `llm/${name}`)
  gateway.put('loops.yaml', [
    ...Object.entries(urls).map(([name, backendUrl]) =>
      modelRef(name, { backendUrl, paths: 'all' }),
    ),
    accessPolicy('loops', keys, { groups: ['team'] }),
    subscription(
      'loops',
      { groups: ['team'] },
      Object.fromEntries(keys.map((key) => [key, [[1_000, '1h']] as const])),
    ),
  ])
  const { key } = (await poll(
    () => gateway.mint({ subscription: 'loops' }).catch(() => undefined),
    'the subscription is in force',
  )) as MintedKey
  for (const model of keys) {
    await poll(
      async () => ![403, 503].includes((await gateway.ask(`/${model}/v1/x`, key)).status),
      `${model} is in force`,
    )
  }
  return { key }
}

test('a model at the internal listener reaches nothing there', async (t, gateway) => {
  const internal = formatAddress(gateway.addresses.internal)
  // Another address of the same listener, as a Service of the cluster would be.
  const port = Number(internal.split(':')[1])
  const proxy = await startTcpProxy(t, port)
  const { key } = await addModels(gateway, {
    internal: `http://${internal}/internal`,
    behind: `http://127.0.0.1:${proxy.port}/internal`,
  })
  for (const model of ['internal', 'behind']) {
    for (const [method, path, body] of [
      ['POST', 'drain', undefined],
      ['GET', 'resources', undefined],
      ['GET', 'log-level', undefined],
      ['PUT', 'log-level', '{"level":"trace"}'],
      ['POST', 'api-keys/cleanup', '{}'],
      ['POST', 'api-keys/validate', JSON.stringify({ key })],
    ] as const) {
      const headers = { 'content-type': 'application/json' }
      const answer = await gateway.ask(`/llm/${model}/v1/${path}`, key, {
        method,
        headers,
        ...(body !== undefined && { body }),
      })
      t.equal(answer.status, 508, `${model} ${method} ${path}`)
      t.match(JSON.parse(answer.text), { error: { type: 'server_error', code: 'loop_detected' } })
    }
  }
  t.equal((await fetch(`http://${internal}/readyz`)).status, 200, 'nothing drains')
  const plain = await fetch(`http://${internal}/internal/v1/api-keys/validate`, {
    method: 'POST',
    body: JSON.stringify({ key }),
  })
  t.match(await plain.json(), { valid: true }, 'a caller without the mark is answered')
})

test('the gateway and its other listeners are no models', async (t, gateway) => {
  const { api, metrics } = gateway.addresses
  const { key } = await addModels(gateway, {
    itself: `${gateway.url}/llm/itself`,
    api: `http://${formatAddress(api)}`,
    metrics: `http://${metrics ? formatAddress(metrics) : ''}`,
  })
  for (const path of ['itself/v1/anything', 'api/v1/subscriptions', 'metrics/v1/x']) {
    const answer = await gateway.ask(`/llm/${path}`, key)
    t.equal(answer.status, 508, path)
    t.match(JSON.parse(answer.text), { error: { code: 'loop_detected' } })
  }
  const messages = await gateway.ask('/llm/itself/v1/messages', key, {
    method: 'POST',
    body: '{"model":"itself","messages":[]}',
  })
  t.equal(messages.status, 508)
  t.match(JSON.parse(messages.text), { type: 'error', error: { type: 'api_error' } })
})

test('clients cannot set the mark for others', async (t, gateway) => {
  const { key } = await gateway.mint()
  const send = (mark: string) =>
    sendRaw(
      gateway.port,
      toBytes({
        path: '/llm/sim/v1/chat/completions',
        headers: [
          `authorization: Bearer ${key}`,
          'x-sim: {"echo":true}',
          `x-tollgate-hop: ${mark}`,
        ],
        body: '{"model":"sim","messages":[]}',
      }),
    )
  t.equal((await send(ownMark)).status, 508, 'it refuses itself')
  t.equal((await send(`other, ${ownMark}`)).status, 508)
  const other = await send('mark-of-another')
  t.equal(other.status, 200)
  t.match(other.body, `"x-tollgate-hop":"${ownMark}"`)
  t.notMatch(other.body, 'received-hop')
  t.notMatch(other.body, 'mark-of-another')
})

test('the requests of the service itself carry it too', async (t, gateway) => {
  const marks: unknown[] = []
  gateway.model.server.on('request', ({ headers, url }) => {
    if (url === '/v1/models') marks.push(headers['x-tollgate-hop'])
  })
  await addModels(gateway, { fresh: `${gateway.model.url}/` })
  await poll(() => marks.length > 0, 'the list of a model server is requested')
  t.strictSame([...new Set(marks)], [ownMark])
})

root.test('addresses of ours are problems', { skip: noEnvoy }, async (t) => {
  const [internal] = await freePorts(1)
  const gateway = await startGateway(t, {
    lists: true,
    env: { INTERNAL_ADDRESS: `127.0.0.1:${internal}` },
  })
  const urls: Record<string, string> = {
    internal: `http://localhost:${internal}/internal`,
    itself: `http://0.0.0.0:${gateway.port}`,
    metadata: 'http://169.254.169.254',
  }
  gateway.put(
    'ours.yaml',
    Object.entries(urls).map(([name, backendUrl]) => modelRef(name, { backendUrl })),
  )
  const messages = await poll(async () => {
    const answer = await fetch(`http://127.0.0.1:${internal}/internal/v1/resources`)
    const { data } = (await answer.json()) as { data: Shown[] }
    const found = data.filter(({ kind, name }) => kind === 'ModelRef' && name in urls)
    return found.length === 3 ? found : undefined
  }, 'the models are known')
  for (const { name, phase, conditions } of messages ?? []) {
    t.equal(phase, 'Pending', name)
    t.match(conditions[0]?.message, /^spec\.backendUrl leads to /, name)
  }
  const dump = await fetch(
    `http://${gateway.envoy.admin}/config_dump?resource=dynamic_active_clusters`,
  )
  const clusters = await dump.text()
  t.match(clusters, 'model/llm/sim', 'other models have a cluster')
  for (const name of Object.keys(urls)) t.notMatch(clusters, `model/llm/${name}`)
})

root.test('names that come to lead to listeners of ours', { skip: noEnvoy }, async (t) => {
  const reached: Readonly<Record<string, string>> = {
    internal: '127.0.0.2',
    metrics: '127.0.0.3',
    api: '127.0.0.4',
    grpc: '127.0.0.5',
  }
  let isRebound = false
  const dns = await startDnsServer(t, (name) =>
    isRebound ? reached[name.split('.')[0] ?? ''] : '127.0.0.1',
  )
  // All at one port, so that only the name decides which of them Envoy reaches.
  const { port } = new URL((await startModelServer(t)).url)
  const gateway = await startGateway(t, {
    env: {
      INTERNAL_ADDRESS: `${reached.internal}:${port}`,
      METRICS_ADDRESS: `${reached.metrics}:${port}`,
      API_ADDRESS: `${reached.api}:${port}`,
      GRPC_ADDRESS: `${reached.grpc}:${port}`,
    },
    // The service, which asks the name servers of this machine, does not learn of it.
    adjustEnvoy(bootstrap) {
      const parsed = JSON.parse(bootstrap)
      parsed.typed_dns_resolver_config.typed_config.resolvers = [
        { socket_address: { address: '127.0.0.1', port_value: dns, protocol: 'UDP' } },
      ]
      return JSON.stringify(parsed)
    },
  })
  const urls = Object.keys(reached).map(
    (name) => [name, `http://${name}.rebinding.example:${port}`] as const,
  )
  const { key } = await addModels(gateway, Object.fromEntries(urls))
  for (const [name] of urls) {
    const { status } = await gateway.ask(`/llm/${name}/v1/models`, key)
    t.equal(status, 200, `${name} leads to the model server`)
  }
  isRebound = true
  for (const [name] of urls) {
    const refused = await poll(
      async () => {
        const { status } = await gateway.ask(`/llm/${name}/v1/models`, key)
        return status !== 200 && status
      },
      `${name} leads elsewhere`,
      30_000,
    )
    // The gRPC listener answers nothing but HTTP/2.
    t.equal(refused, name === 'grpc' ? 502 : 508, name)
  }
})

interface Shown {
  readonly kind: string
  readonly name: string
  readonly phase: string
  readonly conditions: readonly { readonly message: string }[]
}
