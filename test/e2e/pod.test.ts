import { once } from 'node:events'
import { existsSync, rmSync } from 'node:fs'
import http2 from 'node:http2'
import https from 'node:https'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import root, { type Test } from 'tap'
import { type Certificate, makeCertificate, noOpenssl } from '../support/certificates.ts'
import { createDatabase } from '../support/database.ts'
import { envoyPath } from '../support/envoy-binary.ts'
import { chatPath, models, subscriptions } from '../support/gateway.ts'
import { startModelServer } from '../support/model-server.ts'
import { createPod, type Pod } from '../support/pod.ts'
import { poll } from '../support/poll.ts'
import { skipValkey, startValkey } from '../support/valkey.ts'
import { lasting } from '../support/window-ends.ts'

const skip = skipValkey || noOpenssl || (envoyPath() === undefined && 'no Envoy')
const limit = 1_000_000_000
/** The address of the clients. Envoy takes 127.0.0.1 for its own address. */
const proxy = '127.0.0.5'

interface Answer {
  readonly status: number
  readonly headers: NodeJS.Dict<string | string[]>
  readonly text: string
}

type Send = (path: string, headers: Record<string, string>, body?: string) => Promise<Answer>

/** An HTTP/1.1 client with a persistent connection. */
function connect1(t: Test, { port }: Pod, { cert: ca }: Certificate): Send {
  const agent = new https.Agent({ keepAlive: true, maxSockets: 1, ca })
  t.teardown(() => agent.destroy())
  return async (path, headers, body = '') => {
    const options = { host: 'localhost', port, path, agent, headers, method: body ? 'POST' : 'GET' }
    const asked = https.request({ ...options, localAddress: proxy, family: 4 }).end(body)
    const [answer] = await once(asked, 'response')
    const text = (await answer.setEncoding('utf8').toArray()).join('')
    return { status: answer.statusCode, headers: answer.headers, text }
  }
}

/** An HTTP/2 client, which reconnects after GOAWAY. */
function connect2(t: Test, { port }: Pod, { cert: ca }: Certificate): Send {
  let session: http2.ClientHttp2Session | undefined
  const leave = () => {
    session = undefined
  }
  t.teardown(() => session?.destroy())
  return async (path, headers, body = '') => {
    if (session === undefined) {
      session = http2.connect(`https://localhost:${port}`, { ca, family: 4 } as object)
      session.once('goaway', leave).on('error', leave)
    }
    const stream = session.request({
      ...headers,
      ':path': path,
      ':method': body ? 'POST' : 'GET',
    })
    stream.end(body)
    const [answer] = await once(stream, 'response')
    const text = (await stream.setEncoding('utf8').toArray()).join('')
    return { status: answer[':status'], headers: answer, text }
  }
}

const chat = (send: Send, key: string, sim: object, stream = false) =>
  send(
    chatPath,
    { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    JSON.stringify({ model: 'sim', messages: [], stream, sim }),
  )

/** Why a response is incomplete or an error; undefined if it is complete. */
function wrongWith({ status, text }: Answer, stream: boolean): string | undefined {
  const isWhole = stream ? text.endsWith('data: [DONE]\n\n') : text.endsWith('}')
  return status === 200 && isWhole ? undefined : `${status} …${text.slice(-80)}`
}

/** Starts the pod in the order of a kubelet. */
async function start({ service, envoy }: Pod): Promise<void> {
  await service.start()
  await envoy.start()
}

async function endWithItsVolumes(t: Test, { service, envoy, volumes }: Pod): Promise<void> {
  t.equal(await envoy.end('SIGTERM'), 0)
  t.equal(await service.end('SIGTERM'), 0)
  rmSync(volumes, { recursive: true })
}

root.test(
  'a pod that ends under load fails no request and counts all tokens',
  { skip },
  async (t) => {
    const certificate = makeCertificate(t)
    const [model, valkey] = [await startModelServer(t), await startValkey(t)]
    const settings = {
      database: await createDatabase(t),
      resources: [...models(model.url), ...subscriptions({ plenty: limit })],
      tokens: [`token-ann,${lasting('ann')},1,team`],
      env: {
        REDIS_URL: valkey.url,
        GATEWAY_TLS_CERT_FILE: certificate.path,
        GATEWAY_TLS_KEY_FILE: certificate.keyPath,
        GATEWAY_TRUSTED_HOPS: '1',
        API_RATE_LIMIT: '2/1h',
        DRAIN_MIN_SECONDS: '3',
        DRAIN_SECONDS: '60',
      },
    }
    const pod = await createPod(t, { name: 'first', ...settings })
    await start(pod)
    const first = connect1(t, pod, certificate)
    const made = await first(
      '/v1/api-keys',
      { authorization: 'Bearer token-ann', 'content-type': 'application/json' },
      '{"name":"k","subscription":"plenty"}',
    )
    t.equal(made.status, 201, made.text)
    const { key } = JSON.parse(made.text) as { key: string }

    const isRefused = async (client: string) => {
      const headers = {
        authorization: 'Bearer wrong',
        'x-forwarded-for': `203.0.113.1, ${client}`,
      }
      return (await first('/v1/subscriptions', headers)).status
    }
    const refusals = []
    for (let i = 0; i < 5; i += 1) refusals.push(await isRefused('192.0.2.1'))
    t.strictSame(
      refusals,
      [401, 401, 401, 401, 429],
      'a client behind the proxy has its own address',
    )
    t.equal(await isRefused('192.0.2.2'), 401)

    const wrong: string[] = []
    let [received, sent, seed] = [false, 0, 0]
    t.teardown(() => {
      received = true
    })
    const caller = async (send: Send): Promise<void> => {
      while (!received) {
        seed += 1
        const stream = seed % 3 === 0
        const sim = { totalTokens: seed, ...(stream && { words: 10, chunkDelayMs: seed % 60 }) }
        sent += 1
        const fault = await chat(send, key, sim, stream).then(
          (answer) => wrongWith(answer, stream),
          (error) => String(error),
        )
        if (fault !== undefined) wrong.push(fault)
      }
    }
    const callers = [1, 2, 3, 4].flatMap(() => [
      caller(connect1(t, pod, certificate)),
      caller(connect2(t, pod, certificate)),
    ])
    await poll(() => sent > 100, 'the load has started', 60_000)
    const long = [connect1, connect2].map(async (connect) => {
      const sim = { totalTokens: 1_000, words: 12, chunkDelayMs: 1_000 }
      return wrongWith(await chat(connect(t, pod, certificate), key, sim, true), true)
    })
    await poll(async () => (await model.tally()).open >= 2, 'two streams of 12 s have started')

    const begunAt = performance.now()
    const drained = pod.drain()
    await poll(async () => (await pod.readyz()) === 503, 'not ready')
    const before = sent
    await delay(1_000)
    received = true
    t.ok(sent > before, 'new requests are still answered')
    await Promise.all(callers)
    t.strictSame(wrong, [], `none of ${sent} requests failed`)
    const { status, printed } = await drained
    const tookMs = performance.now() - begunAt
    t.equal(status, 0, printed)
    t.ok(tookMs > 3_000, `${Math.round(tookMs)} ms`)
    t.strictSame(await Promise.all(long), [undefined, undefined], 'the streams are complete')
    t.match(printed, /Requests that run: \d+.*No request is running, after/s)
    t.match(pod.service.log(), /drained Envoy: no request is in progress/)
    await t.rejects(connect1(t, pod, certificate)('/health', {}), { code: 'ECONNREFUSED' })
    await endWithItsVolumes(t, pod)

    const next = await createPod(t, { name: 'next', ...settings })
    await start(next)
    const send = connect1(t, next, certificate)
    const { headers } = await chat(send, key, { totalTokens: 0 })
    const used = limit - Number(headers['x-ratelimit-remaining-tokens'])
    t.equal(used, (await model.tally()).totalTokens, "the counters match the model's tally")

    // After Envoy has died, a kubelet does the same without the pod: it restarts Envoy.
    t.equal((await next.drain()).status, 0)
    t.equal(await next.readyz(), 503)
    t.equal(await next.envoy.end('SIGTERM'), 0)
    await next.envoy.start()
    await poll(async () => (await next.readyz()) === 200, 'ready with the new Envoy')
    t.equal((await chat(connect1(t, next, certificate), key, {})).status, 200)
    t.ok(existsSync(join(next.volumes, 'envoy', 'certificate.json')))
  },
)
