import http, { type IncomingHttpHeaders } from 'node:http'
import root, { type Test } from 'tap'
import { formatAddress } from '../../src/settings/config.ts'
import { makeCertificate, noOpenssl, selfSigned } from '../support/certificates.ts'
import { accessPolicy, modelRef, subscription } from '../support/documents.ts'
import { readStat } from '../support/envoy.ts'
import { envoyPath } from '../support/envoy-binary.ts'
import { type Gateway, gatewayTests, startGateway } from '../support/gateway.ts'
import { listenLocally } from '../support/listening.ts'
import { poll } from '../support/poll.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

interface Trap {
  readonly url: string
  /** The headers of each request. */
  readonly asked: IncomingHttpHeaders[]
}

/** A server that answers every request with a list of one model. */
async function startTrap(t: Test): Promise<Trap> {
  const asked: Trap['asked'] = []
  const server = http.createServer(({ headers }, response) => {
    asked.push(headers)
    response.end(JSON.stringify({ data: [{ id: 'trap' }] }))
  })
  return { url: `http://127.0.0.1:${await listenLocally(t, server)}`, asked }
}

/** A server that sends every request to `url`. */
async function startRedirecting(t: Test, url: string): Promise<string> {
  const server = http.createServer((request, response) => {
    response.writeHead(307, { location: url + request.url }).end()
  })
  return `http://127.0.0.1:${await listenLocally(t, server)}`
}

const trap = await startTrap(root)
const redirecting = await startRedirecting(root, trap.url)
const hour = [[1_000_000, '1h']] as const
const models = ['shown', 'unserved', 'closed', 'unserved-closed', 'moved']
const team = { groups: ['team'] }
const test = gatewayTests({
  lists: true,
  // Not reachable from here (RFC 5737), as a public address often is not from a pod.
  env: { GATEWAY_URL: 'https://192.0.2.1' },
  resources: (backendUrl) => {
    const endpointOverride = `${trap.url}/base`
    return [
      modelRef('shown', { backendUrl, modelIds: ['sim-small'], endpointOverride }),
      modelRef('unserved', { backendUrl: undefined, endpointOverride }),
      modelRef('closed', { backendUrl, endpointOverride }),
      modelRef('unserved-closed', { backendUrl: undefined, endpointOverride }),
      modelRef('moved', { backendUrl: redirecting }),
      accessPolicy('open', ['llm/shown', 'llm/unserved', 'llm/moved'], team),
      accessPolicy('others', ['llm/closed', 'llm/unserved-closed'], { groups: ['others'] }),
      subscription('plenty', team, Object.fromEntries(models.map((each) => [`llm/${each}`, hour]))),
    ]
  },
})

async function listed(gateway: Gateway, credential: string) {
  const { text } = await gateway.ask('/v1/models', credential)
  const { data } = JSON.parse(text) as { data: { id: string; owned_by: string; url: string }[] }
  return data.map(({ id, owned_by, url }) => `${id} of ${owned_by} at ${url}`)
}

test('a list takes no credential to an address that a resource names', async (t, gateway) => {
  const user = gateway.newUser()
  const { key } = await gateway.mint({ user })
  for (const credential of [key, `token-${user}`]) {
    await listed(gateway, credential)
    t.strictSame(trap.asked, [])
    // On a busy machine the first list may end before the models have answered.
    const list = await poll(async () => {
      const found = await listed(gateway, credential)
      return found.length === 2 && found
    }, 'both are listed')
    t.strictSame(list, [
      `sim-small of llm/shown at ${trap.url}/base`,
      `unserved of llm/unserved at ${trap.url}/base`,
    ])
  }
})

test('a model cannot send clients elsewhere with their keys', async (t, gateway) => {
  const { key } = await gateway.mint()
  const asked = (headers: Record<string, string>) =>
    fetch(`${gateway.url}/llm/moved/v1/chat/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...headers },
      body: '{"model":"moved","messages":[]}',
    })
  // Clients that follow redirects remove `authorization` then, but no other header.
  for (const headers of [{ 'x-api-key': key }, { authorization: `Bearer ${key}` }]) {
    const { status, headers: received } = await asked(headers)
    t.equal(status, 307)
    t.equal(received.get('location'), null)
  }
  t.strictSame(trap.asked, [])
})

const skip = noOpenssl || (envoyPath() === undefined && 'no Envoy')

root.test('only the certificate of our gateway gets a credential', { skip }, async (t) => {
  const own = selfSigned(temporaryFolder(t), 'DNS:models.example')
  const other = makeCertificate(t)
  const socket = {
    name: 'envoy.transport_sockets.tls',
    typed_config: {
      '@type': 'type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext',
      common_tls_context: {
        tls_certificates: [
          { certificate_chain: { filename: own.path }, private_key: { filename: own.keyPath } },
        ],
      },
    },
  }
  for (const [shown, ids] of [
    // Both models list the names of one server, which a body may not use.
    [own, ['publishers/llm/models/other', 'publishers/llm/models/sim']],
    [other, []],
  ] as const) {
    const gateway = await startGateway(t as Test, {
      lists: true,
      env: { GATEWAY_TLS_CERT_FILE: shown.path, GATEWAY_TLS_KEY_FILE: shown.keyPath },
      adjustEnvoy(bootstrap) {
        const rendered = JSON.parse(bootstrap)
        rendered.static_resources.listeners[0].filter_chains[0].transport_socket = socket
        return JSON.stringify(rendered)
      },
    })
    const api = gateway.addresses.api
    const list = async () => {
      const headers = { authorization: `Bearer token-${gateway.newUser()}` }
      const response = await fetch(`http://${formatAddress(api)}/v1/models`, { headers })
      const { data } = (await response.json()) as { data: { id: string }[] }
      return data.map(({ id }) => id)
    }
    let found: readonly string[] = []
    await poll(async () => {
      found = await list()
      return found.length >= ids.length
    }, 'all are listed')
    t.strictSame([...found].sort(), [...ids].sort())
    const requests = await readStat(gateway.envoy, 'http.gateway.downstream_rq_total')
    t.equal(requests > 0, ids.length > 0, 'requests that the gateway got')
  }
})
