import { once } from 'node:events'
import type { IncomingHttpHeaders } from 'node:http'
import https from 'node:https'
import type { AddressInfo } from 'node:net'
import { json } from 'node:stream/consumers'
import root from 'tap'
import { noOpenssl, selfSigned } from '../support/certificates.ts'
import { startDnsServer } from '../support/dns-server.ts'
import { accessPolicy, modelRef, subscription } from '../support/documents.ts'
import { envoyPath } from '../support/envoy-binary.ts'
import { startGateway } from '../support/gateway.ts'
import { writeKubeconfig } from '../support/kubernetes/kubeconfig.ts'
import { startDouble } from '../support/kubernetes/world.ts'
import { likeAPod } from '../support/like-a-pod.ts'
import { poll } from '../support/poll.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

const skip = noOpenssl || (envoyPath() === undefined && 'no Envoy')
const limit = 1_000_000

root.test('requests go to the provider of an ExternalModel', { skip }, async (t) => {
  const certificate = selfSigned(temporaryFolder(t), 'DNS:*.example.com')
  let received: {
    readonly host: string | undefined
    readonly path: string | undefined
    readonly serverName: unknown
    readonly model: unknown
    readonly headers: IncomingHttpHeaders
  }
  const server = https.createServer(certificate, async (request, response) => {
    const { model } = (await json(request)) as { model?: unknown }
    const { url: path, headers } = request
    const { servername: serverName } = request.socket as { servername?: string }
    received = { host: headers.host, path, serverName, model, headers }
    const usage = path?.endsWith('/messages')
      ? { input_tokens: 30, output_tokens: 12 }
      : { total_tokens: 42 }
    response.setHeader('content-type', 'application/json')
    response.end(JSON.stringify({ usage }))
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    server.close()
    server.closeAllConnections()
  })
  const { port } = server.address() as AddressInfo
  const dns = await startDnsServer(t, (name) =>
    name.endsWith('.example.com') ? '127.0.0.1' : undefined,
  )

  const world = await startDouble(t)
  const team = { groups: ['team'] }
  const keys = ['llm/talk', 'llm/claude']
  const limits = Object.fromEntries(keys.map((key) => [key, [[limit, '1h']] as const]))
  await world.apply(subscription('plenty', team, limits))
  await world.apply(accessPolicy('open', keys, team))
  await world.apply(
    modelRef('talk', { modelRef: { kind: 'ExternalModel', name: 'gpt' }, backendUrl: undefined }),
  )
  const apply = (kind: string, name: string, spec: object) =>
    world.apply({
      ...{ apiVersion: 'inference.opendatahub.io/v1alpha1', kind },
      metadata: { name, namespace: 'llm' },
      spec,
    })
  const writeSecret = (name: string, value: string) =>
    world.apply({
      ...{ apiVersion: 'v1', kind: 'Secret', metadata: { name, namespace: 'llm' } },
      data: { 'api-key': Buffer.from(value).toString('base64') },
    })
  for (const name of ['east', 'west']) {
    await writeSecret(`${name}-key`, `sk-of-${name}`)
    await apply('ExternalProvider', name, {
      ...{ provider: 'openai', endpoint: `${name}.example.com:${port}` },
      auth: { type: 'apikey', secretRef: { name: `${name}-key` } },
    })
  }
  const gpt = (eastWeight: number) =>
    apply('ExternalModel', 'gpt', {
      modelName: 'gpt-of-ours',
      externalProviderRefs: [
        {
          ...{ ref: { name: 'east' }, targetModel: 'gpt-4o', apiFormat: 'openai-chat' },
          ...{ path: '/api/v1/chat/completions', weight: eastWeight },
        },
        { ref: { name: 'west' }, targetModel: 'gpt-west', apiFormat: 'openai-chat', weight: 10 },
      ],
    })
  await gpt(20)
  await apply('ExternalModel', 'claude', {
    externalProviderRefs: [
      { ref: { name: 'west' }, targetModel: 'claude-west', apiFormat: 'messages' },
    ],
  })

  const gateway = await startGateway(t, {
    env: {
      ...{ RESOURCES: 'kubernetes', KUBECONFIG: writeKubeconfig(t, world.access) },
      ...{ MODEL_ADDRESSES_ALLOWED: 'loopback', METER_PATHS: 'chat,messages' },
    },
    adjustEnvoy: (text) => likeAPod(text, dns, certificate.path),
  })
  const { key } = await gateway.mint()
  const left = async () => {
    const { headers } = await gateway.chat(key, {}, { model: 'talk' }, chatPath('talk'))
    return Number(headers.get('x-ratelimit-remaining-tokens'))
  }
  const chatPath = (model: string) => `/llm/${model}/v1/chat/completions`
  const shared = '/v1/chat/completions'

  await t.test('by the name of the ModelRef, and by the modelName', async (t) => {
    for (const model of ['talk', 'gpt-of-ours']) {
      const { status, text } = await gateway.chat(key, {}, { model }, shared)
      t.equal(status, 200, text)
      t.match(received, {
        host: `east.example.com:${port}`,
        path: '/api/v1/chat/completions',
        serverName: 'east.example.com',
        model: 'gpt-4o',
        headers: { authorization: 'Bearer sk-of-east' },
      })
    }
    t.notMatch(JSON.stringify(received.headers), key, 'the key of the client stays here')
    await poll(async () => (await left()) <= limit - 3 * 42, 'the tokens are counted')
  })

  await t.test('in the format of the provider, without a ModelRef', async (t) => {
    const { status, text } = await gateway.chat(key, {}, { model: 'claude' }, '/v1/messages')
    t.equal(status, 200, text)
    t.match(received, {
      path: '/v1/messages',
      model: 'claude-west',
      headers: { 'x-api-key': 'sk-of-west' },
    })
    t.notOk(received.headers.authorization)
  })

  await t.test('with the new key of a Secret', async () => {
    await writeSecret('west-key', 'sk-new')
    await poll(async () => {
      await gateway.chat(key, {}, { model: 'claude' }, '/v1/messages')
      return received.headers['x-api-key'] === 'sk-new'
    }, 'the new key is sent')
  })

  await t.test('to the other provider when that has the greater weight', async () => {
    await gpt(5)
    await poll(async () => {
      await gateway.chat(key, {}, { model: 'talk' }, shared)
      return received.model === 'gpt-west' && received.host === `west.example.com:${port}`
    }, 'requests go to the other provider')
  })

  await t.test('nowhere when its authentication has no counterpart', async () => {
    await apply('ExternalProvider', 'west', {
      ...{ provider: 'aws', endpoint: `west.example.com:${port}` },
      auth: { type: 'sigv4', secretRef: { name: 'west-key' } },
    })
    await poll(async () => {
      const { status } = await gateway.chat(key, {}, { model: 'claude' }, '/v1/messages')
      return status === 503
    }, 'the model has no server')
    await poll(async () => {
      const { status } = await gateway.chat(key, {}, { model: 'talk' }, shared)
      return status === 200 && received.host === `east.example.com:${port}`
    }, 'the provider that is left gets the requests')
  })
})
