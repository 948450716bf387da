import { once } from 'node:events'
import { copyFileSync, readFileSync, writeFileSync } from 'node:fs'
import http2 from 'node:http2'
import { type RequestOptions, request } from 'node:https'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import tls from 'node:tls'
import root, { type Test } from 'tap'
import { parse } from 'yaml'
import { type Address, formatAddress } from '../../src/settings/config.ts'
import { makeCertificate, noOpenssl } from '../support/certificates.ts'
import { envoyPath } from '../support/envoy-binary.ts'
import { type Gateway, startGateway } from '../support/gateway.ts'
import { poll } from '../support/poll.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { runTollgate } from '../support/tollgate.ts'

const skip = noOpenssl || (envoyPath() === undefined && 'no Envoy')

interface Cluster {
  readonly name: string
}

const readme = readFileSync(new URL('../../envoy/README.md', import.meta.url), 'utf8')
/** The additions to Envoy's clusters that envoy/README.md describes. */
const additions = /```yaml\n(# To be added to the clusters.*?)```/s.exec(readme)?.[1] ?? ''

function addToClusters(bootstrap: string, folder: string): string {
  const added = parse(additions.replaceAll('/etc/envoy', folder)) as Record<string, object>
  const rendered = JSON.parse(bootstrap)
  const { clusters } = rendered.static_resources as { clusters: Cluster[] }
  rendered.static_resources.clusters = clusters.map((cluster) => ({
    ...cluster,
    ...added[cluster.name],
  }))
  return JSON.stringify(rendered)
}

interface World {
  readonly gateway: Gateway
  /** The service's certificate authorities. */
  readonly ca: string[]
  /** Envoy's client certificate. */
  readonly client: { readonly key: string; readonly cert: string }
  readonly stranger: { readonly key: string; readonly cert: string }
  /** Replaces the service's certificate by another one that Envoy trusts. */
  renew(): void
}

async function start(t: Test): Promise<World> {
  const folder = temporaryFolder(t)
  const at = (name: string) => join(folder, name)
  const [own, next, client, stranger] = [1, 2, 3, 4].map(() => makeCertificate(t))
  if (!own || !next || !client || !stranger) throw new Error('no certificates')
  writeFileSync(at('service-ca.pem'), `${own.cert}${next.cert}`)
  const put = (of: typeof own) => {
    copyFileSync(of.path, at('service.pem'))
    copyFileSync(of.keyPath, at('service-key.pem'))
  }
  put(own)
  copyFileSync(client.path, at('client.pem'))
  copyFileSync(client.keyPath, at('client-key.pem'))
  const gateway = await startGateway(t, {
    env: {
      TLS_CERT_FILE: at('service.pem'),
      TLS_KEY_FILE: at('service-key.pem'),
      TLS_CLIENT_CA_FILE: at('client.pem'),
      TLS_MIN_VERSION: '1.3',
    },
    adjustEnvoy: (bootstrap) => addToClusters(bootstrap, folder),
  })
  return { gateway, ca: [own.cert, next.cert], client, stranger, renew: () => put(next) }
}

async function ask(at: Address | undefined, path: string, options: RequestOptions = {}) {
  const url = `https://${at && formatAddress(at)}${path}`
  const asked = request(url, { agent: false, ...options }).end()
  const [answer] = await once(asked, 'response')
  const text = (await answer.setEncoding('utf8').toArray()).join('')
  return { status: answer.statusCode as number, text }
}

root.test('TLS everywhere', { skip }, async (t) => {
  const { gateway, ca, client, stranger, renew } = await start(t)
  const { api, internal, metrics, grpc } = gateway.addresses

  await t.test('Check, usage and the API work through Envoy', async (t) => {
    const { key } = await gateway.mint()
    t.equal((await gateway.chat(key)).status, 200)
    t.equal((await gateway.ask('/v1/subscriptions', key)).status, 200)
    await gateway.settled()
  })

  await t.test('the API and the metrics require no client certificate', async (t) => {
    t.equal((await ask(api, '/health', { ca })).status, 200)
    t.match((await ask(metrics, '/metrics', { ca })).text, /^tollgate_/m)
    await t.rejects(ask(api, '/health'), { code: 'DEPTH_ZERO_SELF_SIGNED_CERT' })
    await t.rejects(fetch(`http://${formatAddress(api)}/health`))
  })

  await t.test('gRPC requires a client certificate', async (t) => {
    const status = async (options: tls.ConnectionOptions): Promise<unknown> => {
      const session = http2.connect(`https://${formatAddress(grpc[0] as Address)}`, {
        ca,
        ...options,
      })
      t.teardown(() => session.destroy())
      return await new Promise((settle) => {
        session.on('error', () => settle('refused'))
        const stream = session.request({
          ':method': 'POST',
          ':path': '/grpc.health.v1.Health/Check',
          'content-type': 'application/grpc',
        })
        stream.on('response', (headers) => settle(headers[':status']))
        stream.on('error', () => {})
        stream.on('close', () => settle('refused'))
        stream.end(Buffer.alloc(5))
      })
    }
    t.equal(await status({ key: client.key, cert: client.cert }), 200)
    t.equal(await status({}), 'refused')
    t.equal(await status({ key: stranger.key, cert: stranger.cert }), 'refused')
  })

  await t.test('the internal listener requires one, except for probes', async (t) => {
    const post = { method: 'POST' }
    for (const path of ['/livez', '/readyz']) {
      t.equal((await ask(internal, path, { ca })).status, 200, path)
    }
    for (const [method, path] of [
      ['POST', '/internal/v1/api-keys/cleanup'],
      ['POST', '/internal/v1/api-keys/validate'],
      ['POST', '/internal/v1/subscriptions/select'],
      ['GET', '/internal/v1/resources'],
    ] as const) {
      for (const who of [{}, stranger]) {
        const { key, cert } = { key: undefined, cert: undefined, ...who }
        const refusal = await ask(internal, path, { ca, method, key, cert })
        t.equal(refusal.status, 403, path)
        t.match(JSON.parse(refusal.text), { error: { code: 'client_certificate_required' } })
      }
    }
    const { key, cert } = client
    const cleanup = '/internal/v1/api-keys/cleanup'
    t.equal((await ask(internal, cleanup, { ca, key, cert, ...post })).status, 200)
    t.equal((await ask(internal, '/internal/v1/resources', { ca, key, cert })).status, 200)
  })

  await t.test('a resumed session does not replace the certificate', async (t) => {
    const port = 'port' in internal ? internal.port : 0
    const get = 'GET /internal/v1/resources HTTP/1.1\r\nhost: x\r\n\r\n'
    const first = tls.connect({ port, host: '127.0.0.1', ca: ca }, () => first.write(get))
    first.resume()
    const [session] = (await once(first, 'session')) as [Buffer]
    first.destroy()
    const second = tls.connect({ port, host: '127.0.0.1', ca: ca, session }, () =>
      second.write(get),
    )
    const [answer] = (await once(second, 'data')) as [Buffer]
    t.ok(second.isSessionReused())
    t.match(String(answer), /^HTTP\/1\.1 403 /)
    second.destroy()
  })

  await t.test('tollgate key works', async (t) => {
    const folder = temporaryFolder(t)
    writeFileSync(join(folder, 'ca.pem'), ca.join(''))
    const list = runTollgate(t, ['key', 'list'], {
      TOLLGATE_URL: `https://${formatAddress(api)}`,
      TOLLGATE_TOKEN: `token-${gateway.newUser()}`,
      NODE_EXTRA_CA_CERTS: join(folder, 'ca.pem'),
      DATA_DIR: folder,
    })
    t.equal(await list.ended, 0, list.output())
  })

  await t.test('a new certificate interrupts no request', async (t) => {
    const { key } = await gateway.mint()
    const served = async () => {
      const { hostname, port } = new URL(`https://${formatAddress(api)}`)
      const socket = tls.connect({ host: hostname, port: Number(port), ca: ca })
      await once(socket, 'secureConnect')
      const { serialNumber } = socket.getPeerCertificate()
      socket.destroy()
      return serialNumber
    }
    const before = await served()
    const statuses: number[] = []
    let isOver = false
    const load = (async () => {
      while (!isOver) {
        statuses.push((await gateway.chat(key)).status)
        statuses.push((await gateway.ask('/v1/subscriptions', key)).status)
        await delay(5)
      }
    })()
    const stream = gateway.chat(key, { chunkDelayMs: 100 }, { stream: true })
    renew()
    await poll(async () => (await served()) !== before, 'the new certificate is served')
    const enough = statuses.length + 20
    await poll(() => statuses.length > enough, 'requests are still served')
    isOver = true
    await load
    t.strictSame(new Set(statuses), new Set([200]))
    t.equal((await stream).status, 200)
    await gateway.settled()
  })
})
