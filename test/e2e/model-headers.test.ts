import { once } from 'node:events'
import http from 'node:http'
import { type AddressInfo, createServer } from 'node:net'
import root, { type Test } from 'tap'
import { accessPolicy, modelRef, subscription } from '../support/documents.ts'
import { type Gateway, gatewayTests } from '../support/gateway.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

/** Headers of a model server that must not reach a client. */
const dropped: readonly (readonly [name: string, value: string])[] = [
  ['Set-Cookie', 'session=theirs; Path=/; HttpOnly'],
  ['set-cookie', 'second=theirs'],
  ['Strict-Transport-Security', 'max-age=63072000; includeSubDomains; preload'],
  ['alt-svc', 'h3="evil.example:443"; ma=86400'],
  ['Access-Control-Allow-Origin', '*'],
  ['access-control-allow-credentials', 'true'],
  ['access-control-allow-headers', 'authorization'],
  ['access-control-expose-headers', '*'],
  ['access-control-allow-private-network', 'true'],
  ['access-control-future', 'x'],
  ['X-Tollgate-Key-Age', '1'],
  ['x-tollgate-anything', 'x'],
  ['x-tollgate-budget-remaining', '1000'],
  ['x-maas-subscription', 'other'],
  ['X-MaaS-Username', 'admin'],
  ['x-envoy-immediate-health-check-fail', 'true'],
  ['X-Ext-Auth-Reason', 'revoked'],
  ['x-envoy-overloaded', 'true'],
  ['x-envoy-ratelimited', 'true'],
  ['X-Envoy-Upstream-Service-Time', '1'],
  ['clear-site-data', '"*"'],
  ['service-worker-allowed', '/'],
  ['nel', '{"report_to":"x","max_age":1}'],
  ['report-to', '{"group":"x"}'],
  ['reporting-endpoints', 'x="https://evil.example"'],
  ['location', 'https://evil.example/'],
  ['x-accel-redirect', '/internal'],
  ['x-ratelimit-limit-project-tokens', '1'],
  ['anthropic-ratelimit-priority-input-tokens-limit', '1'],
  ['X-RateLimitBySize-Remaining-Month', '1'],
  ['ratelimitbysize-limit', '1'],
  ['openai-organization', 'operators-org'],
  ['openai-project', 'proj_1'],
  ['anthropic-organization-id', '1'],
  ['x-litellm-model-api-base', 'http://10.0.0.5:8000'],
  ['x-litellm-key-spend', '1.5'],
  ['llm_provider-x-ratelimit-remaining-tokens', '1'],
  ['llm_provider-set-cookie', 'session=theirs'],
]
const lines = (headers: readonly (readonly [string, string])[]) =>
  headers.map((header) => `${header.join(': ')}\r\n`).join('')

/**
 * Answers by the path: an interim answer first, and a chunked body with trailers. Node's own server
 * refuses to send some of these.
 */
const model = createServer((socket) => {
  let text = ''
  socket.on('error', () => {})
  socket.on('data', (chunk) => {
    text += chunk.toString('latin1')
    const end = text.indexOf('\r\n\r\n')
    const length = Number(/\r\ncontent-length: *(\d+)/i.exec(text)?.[1] ?? 0)
    if (end < 0 || text.length < end + 4 + length) return
    const status = /"status":(\d+)/.exec(text)?.[1] ?? '200'
    const interim = `HTTP/1.1 103 Early Hints\r\n${lines(dropped)}link: </x>\r\n\r\n`
    const type = text.includes('"stream":true') ? 'text/event-stream' : 'application/json'
    const event = 'data: {"choices":[{"delta":{"content":"x"}}]}\n\n'
    const body = type === 'application/json' ? '{"usage":{"total_tokens":1}}' : event
    text = ''
    socket.write(
      `${interim}HTTP/1.1 ${status} X\r\ncontent-type: ${type}\r\ntransfer-encoding: chunked\r\n` +
        `${lines(dropped)}x-theirs: kept\r\nretry-after: 7\r\nx-should-retry: true\r\n` +
        'X-Content-Type-Options: any\r\ncontent-security-policy: default-src *\r\n' +
        `trailer: set-cookie\r\n\r\n${body.length.toString(16)}\r\n${body}\r\n` +
        `0\r\n${lines(dropped)}\r\n`,
    )
  })
})
model.listen(0, '127.0.0.1')
await once(model, 'listening')
const sockets = new Set<{ destroy(): void }>()
model.on('connection', (socket) => sockets.add(socket))
root.teardown(() => {
  model.close()
  for (const socket of sockets) socket.destroy()
})
const url = `http://127.0.0.1:${(model.address() as AddressInfo).port}`
const origin = 'https://app.example'
const team = { groups: ['team'] }
const names = ['plain', 'secret']
const test = gatewayTests({
  env: { SECRETS_DIR: temporaryFolder(root, { llm: { key: 'sk-x' } }) },
  limits: { allowedOrigins: [origin] },
  resources: () => [
    modelRef('plain', { backendUrl: url }),
    // Its cluster has filters of its own.
    modelRef('secret', { backendUrl: url, credential: { file: 'key' } }),
    accessPolicy(
      'open',
      names.map((name) => `llm/${name}`),
      team,
    ),
    subscription(
      'plenty',
      team,
      Object.fromEntries(names.map((name) => [`llm/${name}`, [[1_000_000, '1h']]])),
    ),
  ],
})

interface Received {
  readonly status: number
  readonly headers: http.IncomingHttpHeaders
  readonly trailers: http.IncomingHttpHeaders
  readonly interim: readonly number[]
}

/** Sends a request and reads all that HTTP can carry beside a body. */
async function send(
  gateway: Gateway,
  path: string,
  headers: http.OutgoingHttpHeaders,
  body: string,
  method = 'POST',
): Promise<Received> {
  const interim: number[] = []
  const request = http.request({ port: gateway.port, path, method, headers, agent: false })
  request.on('information', ({ statusCode }) => interim.push(statusCode))
  request.end(body)
  const [response] = (await once(request, 'response')) as [http.IncomingMessage]
  response.resume()
  await once(response, 'end')
  return {
    status: response.statusCode ?? 0,
    headers: response.headers,
    trailers: response.trailers,
    interim,
  }
}

function claimClean(t: Test, { headers, trailers, interim }: Received, title: string): void {
  for (const [name] of dropped) {
    t.equal(headers[name.toLowerCase()], undefined, `${title}: ${name}`)
  }
  t.strictSame(trailers, {}, `${title}: no trailers`)
  t.strictSame(interim, [], `${title}: no interim answers`)
  t.equal(headers['x-content-type-options'], 'nosniff', title)
  t.equal(headers['content-security-policy'], 'sandbox', title)
}

test('a model cannot speak for the shared origin', async (t, gateway) => {
  const { key } = await gateway.mint()
  const authorization = `Bearer ${key}`
  for (const name of names) {
    for (const path of [
      '/v1/chat/completions',
      `/llm/${name}/v1/chat/completions`,
      `/llm/${name}/v1/files`,
      '/v1/embeddings',
    ]) {
      for (const more of [
        '',
        ',"stream":true',
        ',"status":404',
        ',"status":500',
        ',"status":302',
      ]) {
        const body = `{"model":"${name}","messages":[]${more}}`
        const title = `${path} ${body}`
        const answer = await send(gateway, path, { authorization }, body)
        t.equal(answer.status, Number(/"status":(\d+)/.exec(body)?.[1] ?? 200), title)
        claimClean(t, answer, title)
        t.match(answer.headers, { 'x-theirs': 'kept', 'retry-after': '7' }, 'others are kept')
        t.equal(answer.headers['x-should-retry'], 'true')
        t.ok(answer.headers['x-ratelimit-limit-tokens'], 'our own limits stay')
        t.ok(answer.headers['ratelimit-policy'])
        t.ok(answer.headers['x-request-id'])
      }
    }
    const listing = await send(gateway, `/llm/${name}/v1/models`, { authorization }, '', 'GET')
    t.equal(listing.status, 200)
    claimClean(t, listing, `the list of ${name}`)
  }
})

test("the gateway's own CORS headers stay", async (t, gateway) => {
  const { key } = await gateway.mint()
  const headers = { authorization: `Bearer ${key}`, origin }
  const body = '{"model":"plain","messages":[]}'
  for (const name of names) {
    const answer = await send(gateway, `/llm/${name}/v1/chat/completions`, headers, body)
    t.equal(answer.headers['access-control-allow-origin'], origin)
    t.match(answer.headers['access-control-expose-headers'], 'x-request-id')
    t.match(answer.headers['access-control-expose-headers'], 'x-tollgate-budget-remaining')
    t.match(
      answer.headers['access-control-expose-headers'],
      /x-tollgate-max-output-tokens.*key-age/,
    )
    t.match(answer.headers['access-control-expose-headers'], /x-ext-auth-reason.*www-authenticate/)
    t.equal(answer.headers['access-control-allow-credentials'], undefined)
  }
})

test('refusals and answers of the API keep their headers', async (t, gateway) => {
  const { key } = await gateway.mint()
  const list = await gateway.ask('/v1/models', key)
  t.ok(list.headers.get('x-access-checked-at'))
  t.equal(list.headers.get('content-security-policy'), null, 'the API is no model')
  const refused = await gateway.ask('/llm/nothing/v1/models', key)
  t.equal(refused.status, 403)
  t.equal(refused.headers.get('x-ext-auth-reason'), 'unauthorized')
})
