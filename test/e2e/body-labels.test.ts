import { accessPolicy, modelRef } from '../support/documents.ts'
import { chatPath, gatewayTests, meter, models, subscriptions } from '../support/gateway.ts'
import { sendRaw, toBytes } from '../support/raw-http.ts'
import { startScriptedModel } from '../support/scripted-model.ts'

const scripted = await startScriptedModel()
const test = gatewayTests({
  resources: (backendUrl) => [
    ...models(backendUrl).slice(0, 1),
    modelRef('other', { backendUrl: scripted.url, modelIds: ['other'] }),
    accessPolicy('open', ['llm/sim', 'llm/other'], { groups: ['team'] }),
    ...subscriptions({ plenty: 1_000_000 }),
    meter,
  ],
})
const body = '{"model":"other","messages":[]}'

/** Content types with which some servers read another document, or another charset. */
const refused: readonly string[] = [
  'application/json; charset*0="utf"; charset*1="-7"',
  'application/json; x="charset=utf-8"; charset=utf-7',
  'application/json; charset=utf-8; charset=utf-7',
  'application/json; CHARSET=utf-7',
  'application/json; charset="utf-7"',
  "application/json; charset='utf-7'",
  "application/json; charset*=utf-8''utf-7",
  'application/json; charset = utf-16',
  'text/plain; charset=latin1',
  'application/json;charset=utf-8;boundary=x; charset=utf-7',
]
const kept: readonly string[] = [
  'application/xml',
  'application/soap+xml',
  'text/xml; charset=utf-8',
  'application/x-www-form-urlencoded',
  'multipart/form-data; boundary=x',
  'application/json; charset=UTF-8',
  'application/json;charset="utf-8"',
  'application/json; charset=us-ascii',
  'application/json; profile="a;b"',
  'application/msgpack',
  'x',
]

test('sends an accepted body as application/json', async (t, gateway) => {
  const { key } = await gateway.mint()
  for (const path of ['/llm/other/v1/chat/completions', '/v1/chat/completions', '/v1/embeddings']) {
    for (const label of [...kept, undefined]) {
      const headers = [`authorization: Bearer ${key}`]
      if (label !== undefined) headers.push(`content-type: ${label}`)
      const answer = await sendRaw(gateway.port, toBytes({ path, headers, body }))
      t.equal(answer.status, 200, `${label} at ${path}`)
      const seen = scripted.received.at(-1)
      t.equal(seen?.headers['content-type'], 'application/json')
      t.equal(seen?.body, body)
    }
  }
})

test('refuses other charsets in any spelling', async (t, gateway) => {
  const { key } = await gateway.mint()
  const before = scripted.received.length
  for (const path of ['/llm/other/v1/chat/completions', '/v1/chat/completions', '/v1/responses']) {
    for (const label of refused) {
      const headers = [`authorization: Bearer ${key}`, `content-type: ${label}`]
      const answer = await sendRaw(gateway.port, toBytes({ path, headers, body }))
      t.equal(answer.status, 400, `${label} at ${path}`)
      t.match(JSON.parse(answer.body).error, { code: 'invalid_body', message: /UTF-8/ })
    }
  }
  t.equal(scripted.received.length, before, 'the model gets no request')
})

test('two content types are refused or replaced', async (t, gateway) => {
  const { key } = await gateway.mint()
  const headers = [
    `authorization: Bearer ${key}`,
    'content-type: application/json',
    'content-type: application/xml; charset=utf-7',
  ]
  const answer = await sendRaw(
    gateway.port,
    toBytes({ path: '/v1/chat/completions', headers, body }),
  )
  if (answer.status === 200) {
    t.equal(scripted.received.at(-1)?.headers['content-type'], 'application/json')
  } else {
    t.equal(answer.status, 400)
  }
})

test('removes or replaces headers that change how a request is read', async (t, gateway) => {
  const { key } = await gateway.mint()
  const odd = {
    'x-http-method-override': 'GET',
    'x-http-method': 'PUT',
    'x-method-override': 'DELETE',
    'x-original-url': '/v1/chat/completions',
    'x-rewrite-url': '/v1/chat/completions',
    'accept-charset': 'utf-7',
    'accept-encoding': 'gzip',
    range: 'bytes=0-10',
    accept: 'text/plain',
  }
  const headers = Object.entries({ ...odd, authorization: `Bearer ${key}` }).map(
    ([name, value]) => `${name}: ${value}`,
  )
  for (const path of ['/llm/other/v1/chat/completions', '/v1/chat/completions']) {
    const answer = await sendRaw(gateway.port, toBytes({ path, headers, body }))
    t.equal(answer.status, 200)
    const seen = scripted.received.at(-1)
    for (const name of Object.keys(odd)) {
      const expected = name === 'accept-encoding' ? 'identity' : undefined
      t.equal(seen?.headers[name], expected, `${name} at ${path}`)
    }
  }
  for (const accept of ['*/*', 'application/json', 'text/event-stream, application/json;q=0.5']) {
    const kept = [`authorization: Bearer ${key}`, `accept: ${accept}`]
    await sendRaw(
      gateway.port,
      toBytes({ path: chatPath.replace('sim', 'other'), headers: kept, body }),
    )
    t.equal(scripted.received.at(-1)?.headers.accept, accept)
  }
})

test('refuses names that protobuf JSON parsers accept', async (t, gateway) => {
  const { key } = await gateway.mint()
  for (const path of ['/llm/other/v1/chat/completions', '/v1/chat/completions']) {
    for (const members of [
      '"stream":true,"streamOptions":{"includeUsage":false}',
      '"stream":true,"stream_options":{"includeUsage":false}',
      '"stream":true,"StreamOptions":{}',
      '"stream":true,"stream_options":{"INCLUDEUSAGE":true}',
    ]) {
      const headers = [`authorization: Bearer ${key}`]
      const request = { path, headers, body: `{"model":"other","messages":[],${members}}` }
      t.equal((await sendRaw(gateway.port, toBytes(request))).status, 400, members)
    }
  }
})
