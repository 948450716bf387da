import { once } from 'node:events'
import http, { type IncomingMessage } from 'node:http'
import https from 'node:https'
import type { AddressInfo } from 'node:net'
import root from 'tap'
import type { Address } from '../../src/formats/address.ts'
import { formatAddress } from '../../src/settings/config.ts'
import { noOpenssl, selfSigned } from '../support/certificates.ts'
import { startDnsServer } from '../support/dns-server.ts'
import { accessPolicy, modelRef, subscription } from '../support/documents.ts'
import { envoyPath } from '../support/envoy-binary.ts'
import { type Gateway, startGateway } from '../support/gateway.ts'
import { writeKubeconfig } from '../support/kubernetes/kubeconfig.ts'
import { startDouble } from '../support/kubernetes/world.ts'
import { likeAPod } from '../support/like-a-pod.ts'
import { readScrape } from '../support/metrics.ts'
import { poll } from '../support/poll.ts'
import {
  gateway as gatewayOf,
  httpRoute,
  inferenceService,
  toPool,
  toService,
  verdict,
} from '../support/routes.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

const skip = noOpenssl || (envoyPath() === undefined && 'no Envoy')

/** What a server received: the request, and the server name of TLS. */
interface Seen {
  readonly host: string | undefined
  readonly path: string | undefined
  readonly serverName?: string | undefined
}

root.test('requests follow the HTTPRoute of the model', { skip }, async (t) => {
  const folder = temporaryFolder(t)
  const certificate = selfSigned(folder, 'DNS:models.example.com')
  const answer = (server: string) => (request: IncomingMessage, response: http.ServerResponse) => {
    const { servername } = request.socket as { servername?: string }
    const { host } = request.headers
    response.setHeader('content-type', 'application/json')
    const seen: Seen = { host, path: request.url, ...(servername && { serverName: servername }) }
    response.end(JSON.stringify({ server, ...seen }))
  }
  const listen = async (server: http.Server): Promise<number> => {
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
    t.teardown(() => {
      server.close()
      server.closeAllConnections()
    })
    return (server.address() as AddressInfo).port
  }
  const [one, two, pool] = await Promise.all([
    listen(http.createServer(answer('one'))),
    listen(http.createServer(answer('two'))),
    listen(https.createServer(certificate, answer('pool'))),
  ])
  const dns = await startDnsServer(t, (name) =>
    name.endsWith('.llm.svc.cluster.local') ? '127.0.0.1' : undefined,
  )

  const world = await startDouble(t)
  const kubeconfig = writeKubeconfig(t, world.access)
  const models = ['small', 'other']
  const keys = models.map((name) => `llm/${name}`)
  const limits = Object.fromEntries(keys.map((key) => [key, [[1_000_000, '1h']] as const]))
  await world.apply(subscription('plenty', { groups: ['team'] }, limits))
  await world.apply(accessPolicy('open', keys, { groups: ['team'] }))
  for (const name of models) await world.apply(modelRef(name, { backendUrl: undefined }))
  const route = (service: string, port: number, more: object = {}) =>
    httpRoute({ service, spec: { rules: [toService(service, port, more)] } })
  for (const name of models) await world.apply(route(name, one))

  const gateway = await startGateway(t, {
    env: {
      RESOURCES: 'kubernetes',
      KUBECONFIG: kubeconfig,
      MODEL_ADDRESSES_ALLOWED: 'loopback',
      GATEWAY_INTERNAL: 'gateways/models',
    },
    adjustEnvoy: (text) => likeAPod(text, dns, certificate.path),
  })
  const { key } = await gateway.mint()

  await t.test('to a Service by its name', async (t) => {
    for (const name of models) {
      const seen = await ask(gateway, key, name)
      t.strictSame(seen, {
        server: 'one',
        host: `${name}.llm.svc.cluster.local`,
        path: '/v1/chat/completions',
      })
    }
  })

  await t.test('to the new Service after a change of the route', async (t) => {
    await world.apply(route('small', two))
    await arrives('small', 'two')
    t.match(await ask(gateway, key, 'other'), { server: 'one' }, 'other models are unaffected')
    const rule = { ...toService('small', two), matches: [{ path: { value: '/llm/small' } }] }
    const spec = { hostnames: ['small.example.com'], rules: [rule] }
    await world.apply(httpRoute({ spec }))
    await poll(
      async () => (await ask(gateway, key, 'small')).path === '/llm/small/v1/chat/completions',
      'the path of the route is kept',
    )
    t.match(await ask(gateway, key, 'small'), { server: 'two', host: 'small.example.com' })
  })

  const throughGateway = (status?: object) => {
    const spec = {
      parentRefs: [{ name: 'models', namespace: 'gateways', sectionName: 'https' }],
      hostnames: ['*.example.com', 'models.example.com'],
      rules: [toPool('small')],
    }
    return { ...httpRoute({ spec, ...(status && { status }) }), spec }
  }

  await t.test('to the Gateway of an InferencePool', async (t) => {
    const listeners = [
      { name: 'http', port: one, protocol: 'HTTP' },
      { name: 'https', port: pool, protocol: 'HTTPS', hostname: '*.example.com' },
    ]
    await world.apply(gatewayOf(listeners, ['127.0.0.1']))
    await world.apply(throughGateway(verdict('True')))
    await arrives('small', 'pool')
    t.strictSame(await ask(gateway, key, 'small'), {
      server: 'pool',
      host: 'models.example.com',
      path: '/llm/small/v1/chat/completions',
      serverName: 'models.example.com',
    })
  })

  await t.test('a route on another Gateway is reported as a bypass', async (t) => {
    const { internal, metrics } = gateway.addresses
    const get = async (address: Address | undefined, path: string): Promise<string> =>
      (await fetch(`http://${address && formatAddress(address)}${path}`)).text()
    const bypassed = async () =>
      readScrape(await get(metrics, '/metrics')).value('tollgate_models_bypassed')
    t.equal(await bypassed(), 0)
    const { spec } = throughGateway()
    const parentRefs = [...spec.parentRefs, { name: 'public', namespace: 'gateways' }]
    await world.apply(httpRoute({ spec: { ...spec, parentRefs } }))
    await poll(async () => (await bypassed()) === 1, 'the bypass is counted')
    t.match(
      await get(internal, '/internal/v1/resources'),
      /"type":"Bypass","status":"True".*llm\/small-kserve-route on the Gateway gateways\/public/,
    )
    t.match(
      await ask(gateway, key, 'small'),
      { server: 'pool' },
      'requests use the internal Gateway',
    )
  })

  await t.test('a route without a usable target is 503, and others are served', async (t) => {
    await world.apply(route('small', two, { namespace: 'elsewhere' }))
    await refused('a Service in another namespace, without a grant')
    await world.apply(route('small', two))
    await arrives('small', 'two')
    const spec = throughGateway().spec
    await world.apply(
      httpRoute({
        spec,
        status: {
          parents: [
            {
              parentRef: { name: 'models', namespace: 'gateways', sectionName: 'https' },
              controllerName: 'example.com/c',
              conditions: [{ type: 'Accepted', status: 'False', message: 'no such listener' }],
            },
          ],
        },
      }),
    )
    await refused('a route that its Gateway has not accepted')
    t.match(await ask(gateway, key, 'other'), { server: 'one' })
  })

  await t.test('an invalid route affects no other', async () => {
    for (const [what, rule] of Object.entries({
      'a port': toService('small', 99_999),
      'a host': toService('small.llm.svc:80/../x'),
      'a path': { ...toService('small', two), matches: [{ path: { value: '/a\u0000b' } }] },
    })) {
      await world.apply(httpRoute({ spec: { rules: [rule] } }))
      await refused(what)
      await world.apply(route('other', two))
      await arrives('other', 'two')
      await world.apply(route('other', one))
      await arrives('other', 'one')
      await world.apply(route('small', two))
      await arrives('small', 'two')
    }
  })

  await t.test('deleting a route removes only its model', async (t) => {
    await world.remove(httpRoute())
    await refused('no address is known')
    t.match(await ask(gateway, key, 'other'), { server: 'one' })
    await world.apply(inferenceService({ url: `http://127.0.0.1:${two}/from/status` }))
    await arrives('small', 'two')
    t.match(await ask(gateway, key, 'small'), { path: '/from/status/v1/chat/completions' })
  })

  async function arrives(model: string, server: string): Promise<void> {
    await poll(
      async () => (await ask(gateway, key, model)).server === server,
      `${model} is at ${server}`,
    )
  }

  async function refused(why: string): Promise<void> {
    await poll(async () => (await ask(gateway, key, 'small')).status === 503, why)
    t.match(await ask(gateway, key, 'small'), { code: 'model_unavailable' }, why)
  }
})

interface Told extends Partial<Seen> {
  readonly server?: string
  readonly status?: number
  readonly code?: string
}

/** The request as the server received it, or the error. */
async function ask(gateway: Gateway, key: string, model: string): Promise<Told> {
  const path = `/llm/${model}/v1/chat/completions`
  const { status, text } = await gateway.chat(key, {}, {}, path)
  if (status === 200) return JSON.parse(text)
  const { error } = JSON.parse(text) as { error?: { code?: string } }
  return { status, ...(error?.code && { code: error.code }) }
}
