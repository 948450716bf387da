import { accessPolicy, modelRef, subscription } from '../support/documents.ts'
import {
  chatPath,
  type Gateway,
  gatewayTests,
  meter,
  models,
  subscriptions,
} from '../support/gateway.ts'
import { poll } from '../support/poll.ts'
import { type RawAnswer, sendRaw, toBytes } from '../support/raw-http.ts'

const closed = { groups: ['nobody'] }
const test = gatewayTests({
  limits: { headersToModels: new Set(['x-slo-ttft-ms']) },
  resources: (backendUrl) => [
    ...models(backendUrl),
    modelRef('closed', { backendUrl }),
    accessPolicy('closed', ['llm/closed'], closed),
    subscription('closed', closed, { 'llm/closed': [[1_000, '1h']] }),
    ...subscriptions({ plenty: 1_000_000, one: 1 }),
    meter,
  ],
})

const echo = 'x-sim: {"echo":true}'
const body = '{"model":"sim","messages":[],"input":"x"}'

/** All internal headers, as a client might forge them. */
const forged = [
  'x-maas-subscription: closed',
  'X-MaaS-Subscription: plenty',
  'x_maas_subscription: closed',
  'x-maas-username: admin',
  'x-maas-group: ["nobody"]',
  'x-maas-key-id: 1',
  'x-tollgate-cluster: model_llm_closed',
  'x-tollgate-path: /v1/models',
  'x-tollgate-model: closed',
  'X-Tollgate-Model: closed',
  'x-tollgate-stream: false',
  'x-tollgate-body: object',
  'x-tollgate-content-type: text/plain',
  'x-tollgate-anything: x',
  'listing-client: x',
]
const proxied = [
  'x-envoy-upstream-rq-timeout-ms: 1',
  'x-envoy-upstream-rq-per-try-timeout-ms: 1',
  'x-envoy-expected-rq-timeout-ms: 1',
  'x-envoy-retry-on: 5xx',
  'x-envoy-max-retries: 3',
  'x-envoy-original-path: /v1/models',
  'x-envoy-decorator-operation: x',
  'x-envoy-external-address: 1.2.3.4',
  'x-envoy-internal: true',
  'metadata-flavor: Google',
  'Metadata: true',
  'x-aws-ec2-metadata-token: x',
  'x-request-id: 11111111-1111-1111-1111-111111111111',
]

/** Further headers in which clients and proxies send credentials. */
const credentials = [
  ...['cookie', 'Api-Key', 'x-goog-api-key', 'x-forwarded-access-token'],
  ...['x-auth-request-access-token', 'x-amzn-oidc-accesstoken', 'X-Amzn-Oidc-Data'],
  ...['x-goog-iap-jwt-assertion', 'cf-access-jwt-assertion'],
]

async function send(gateway: Gateway, key: string, path: string, headers: readonly string[]) {
  const request = { path, headers: [`authorization: Bearer ${key}`, ...headers], body }
  return sendRaw(gateway.port, toBytes(request))
}

function received(answer: RawAnswer): Record<string, string> {
  return JSON.parse(answer.body).sim_echo.headers
}

test('the model gets no credential', async (t, gateway) => {
  const { key } = await gateway.mint()
  for (const path of [chatPath, '/v1/chat/completions', '/llm/sim/v1/embeddings']) {
    const answer = await send(gateway, key, path, [
      'x-sim: {"status":418,"echo":true}',
      `x-api-key: ${key}`,
      'proxy-authorization: Basic x',
      'x-custom: a=b',
      ...credentials.map((name) => `${name}: ${key}`),
      ...forged,
      ...proxied,
    ])
    t.equal(answer.status, 418, path)
    const headers = received(answer)
    t.notOk(answer.body.includes(key))
    t.equal(headers['x-maas-subscription'], 'plenty', 'the only header about the caller')
    t.match(headers['x-tollgate-hop'], /^[0-9a-f]{32}$/, 'the mark of the gateway')
    const ours =
      /^(listing-client|x-maas|x_maas|x-tollgate|x-envoy|authorization|proxy-authorization|x-api-key)/
    t.strictSame(
      Object.keys(headers).filter((name) => ours.test(name)),
      ['x-maas-subscription', 'x-tollgate-hop'],
    )
    t.equal(headers['accept-encoding'], 'identity')
    t.not(headers['x-request-id'], '11111111-1111-1111-1111-111111111111')
    t.equal(headers.host, new URL(gateway.model.url).host)
    t.notOk(
      Object.keys(headers).some((name) => /metadata/.test(name)),
      'for metadata services',
    )
    t.equal(headers['x-custom'], 'a=b', 'other headers are passed on')
  }
})

test('the model sees neither namespace nor prefix', async (t, gateway) => {
  const { key } = await gateway.mint()
  const answer = await send(gateway, key, `${chatPath}?a=b%20c&x=/v1/models`, [echo])
  const { path, method } = JSON.parse(answer.body).sim_echo
  t.equal(`${method} ${path}`, 'POST /v1/chat/completions?a=b%20c&x=/v1/models')
})

test('forged headers grant no access', async (t, gateway) => {
  const { key } = await gateway.mint()
  for (const path of ['/llm/closed/v1/chat/completions', '/llm/nothing/v1/chat/completions']) {
    for (const header of forged) {
      t.equal((await send(gateway, key, path, [header])).status, 403, `${header} at ${path}`)
    }
  }
  for (const header of forged) {
    const request = { path: chatPath, headers: [header], body }
    t.equal((await sendRaw(gateway.port, toBytes(request))).status, 401, `${header}, no key`)
  }
})

test('forged headers do not avoid counting', async (t, gateway) => {
  for (const path of [chatPath, '/v1/chat/completions']) {
    for (const header of [...forged, ...proxied]) {
      const { key } = await gateway.mint({ subscription: 'one' })
      t.equal((await send(gateway, key, path, [header])).status, 200, `${header} at ${path}`)
      await poll(() => gateway.isSpent(key), `${header} is counted`)
    }
  }
})

test('a forged model header is ignored on shared routes', async (t, gateway) => {
  const { key } = await gateway.mint()
  const headers = [`authorization: Bearer ${key}`, ...forged]
  const path = '/v1/chat/completions'
  const closedBody = '{"model":"closed","messages":[]}'
  const steer = async (text: string) =>
    (await sendRaw(gateway.port, toBytes({ path, headers, body: text }))).status
  t.equal(await steer(closedBody), 403)
  t.equal(await steer('{"messages":[]}'), 400, 'the body must name a model')
  t.equal(await steer('{"model":"sim","model":"sim","messages":[]}'), 400)
  t.equal(await steer(body), 200)
})

test('identity headers are ignored', async (t, gateway) => {
  const headers = { 'x-maas-username': 'admin', 'x-maas-group': '["tollgate-admins"]' }
  const search = { method: 'POST', headers, body: '{"filters":{"username":"admin"}}' }
  t.equal((await gateway.ask('/v1/api-keys/search', undefined, search)).status, 401)
  const user = gateway.newUser()
  const created = await gateway.ask('/v1/api-keys', `token-${user}`, {
    method: 'POST',
    headers,
    body: '{"name":"x","subscription":"plenty"}',
  })
  t.equal(created.status, 201)
  const { id } = JSON.parse(created.text)
  const found = await gateway.ask(`/v1/api-keys/${id}`, `token-${user}`)
  t.equal(JSON.parse(found.text).username, user)
})

test('clients cannot set timeouts', async (t, gateway) => {
  const { key } = await gateway.mint()
  const slow = 'x-sim: {"delayMs":300}'
  t.equal((await send(gateway, key, chatPath, [slow, ...proxied])).status, 200)
})

test('headers that choose a model behind a server do not reach it', async (t, gateway) => {
  const { key } = await gateway.mint({ subscription: 'plenty' })
  const choosing = [
    ...['x-llm-d-model', 'X-LLM-D-Priority', 'x-gateway-inference-objective'],
    ...['x-gateway-inference-fairness-id', 'x-gateway-model-name', 'X-Gateway-Model-Name-Rewrite'],
    ...['x-gateway-destination-endpoint', 'x-gateway-destination-endpoint-subset', 'x-slo-tpot-ms'],
    ...[
      'x-prefiller-host-port',
      'x-prefiller-url',
      'X-Prefill-Instance-Id',
      'x-encoder-hosts-ports',
    ],
    ...['x-kv-cache-source-host-port', 'x-data-parallel-host-port', 'x-data-parallel-rank'],
    ...['x-dp-rank', 'x-worker-instance-id', 'x-dynamo-worker-instance-id', 'x-portkey-config'],
    ...['x-litellm-tags', 'Helicone-Target-Url', 'cf-aig-custom-cost', 'OpenAI-Organization'],
    ...['openai-project', 'X-HF-Bill-To', 'x-goog-user-project', 'azureml-model-deployment'],
  ]
  const kept = ['x-slo-ttft-ms: 200', 'x-gateway: mine', 'x-llm: d']
  for (const path of [chatPath, '/v1/chat/completions']) {
    const headers = [...choosing.map((name) => `${name}: large`), ...kept, echo]
    const answer = await send(gateway, key, path, headers)
    t.equal(answer.status, 200, path)
    const seen = JSON.parse(answer.body).sim_echo.headers
    for (const name of choosing) t.notOk(seen[name.toLowerCase()], `${name} at ${path}`)
    t.match(seen, { 'x-slo-ttft-ms': '200', 'x-gateway': 'mine', 'x-llm': 'd' })
    t.notOk(Object.keys(seen).some((name) => name.startsWith('kept-')))
  }
  const { body } = await send(gateway, key, chatPath, [echo])
  t.notOk(Object.hasOwn(JSON.parse(body).sim_echo.headers, 'x-slo-ttft-ms'))
})

test('a blank second credential is none, and the same one twice is one', async (t, gateway) => {
  const { key } = await gateway.mint({ subscription: 'plenty' })
  for (const headers of [
    [`authorization: Bearer ${key}`, 'x-api-key:'],
    ['authorization: Bearer ', `x-api-key: ${key}`],
    ['authorization:', `x-api-key: ${key}`],
    [`authorization: Bearer ${key}`, `authorization: Bearer ${key}`],
    [`authorization: Bearer ${key}`, `x-api-key: ${key}`, `x-api-key: ${key}`],
  ]) {
    for (const path of [chatPath, '/v1/chat/completions']) {
      const { status } = await sendRaw(gateway.port, toBytes({ path, headers, body }))
      t.equal(status, 200, `${headers} at ${path}`)
    }
    const path = '/v1/subscriptions'
    const { status } = await sendRaw(gateway.port, toBytes({ method: 'GET', path, headers }))
    t.equal(status, 200, `${headers} at the API`)
  }
  const { key: other } = await gateway.mint({ subscription: 'plenty' })
  const headers = [`authorization: Bearer ${key}`, `x-api-key: ${other}`]
  t.equal((await sendRaw(gateway.port, toBytes({ path: chatPath, headers, body }))).status, 401)
})

test('what has too many headers with those of the gateway is told so', async (t, gateway) => {
  const { key } = await gateway.mint()
  const many = Object.fromEntries(Array.from({ length: 90 }, (_, i) => [`x-own-${i}`, 'v']))
  for (const [path, error] of [
    [`${chatPath}?a=1`, { code: 'headers_too_large', type: 'invalid_request_error' }],
    ['/llm/sim/v1/messages?a=1', { type: 'invalid_request_error' }],
  ] as const) {
    const headers = { ...many, 'content-type': 'application/json' }
    const answer = await gateway.ask(path, key, { method: 'POST', body, headers })
    t.equal(answer.status, 431, answer.text)
    t.match(JSON.parse(answer.text).error, {
      ...error,
      message: 'The request headers are too large.',
    })
  }
})
