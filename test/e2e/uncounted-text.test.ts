import type { Test } from 'tap'
import { counts, scales } from '../support/counted.ts'
import { accessPolicy, modelRef, subscription } from '../support/documents.ts'
import { type Gateway, gatewayTests, meter, models } from '../support/gateway.ts'
import { type RawAnswer, sendRaw, toBytes } from '../support/raw-http.ts'
import { startScriptedModel } from '../support/scripted-model.ts'

/** Answers every path and method, so whatever reaches it could have returned text. */
const scripted = await startScriptedModel()
const team = { groups: ['team'] }
const settings = (env: Record<string, string>) => ({
  env,
  resources: (backendUrl: string) => [
    ...models(backendUrl).slice(0, 1),
    modelRef('other', { backendUrl: scripted.url, paths: 'all', state: 'shared' }),
    modelRef('renamed', { backendUrl: scripted.url, upstreamModel: 'other', state: 'shared' }),
    accessPolicy('open', ['llm/sim', 'llm/other', 'llm/renamed'], team),
    ...scales(0, 17, 500),
    subscription('both', team, {
      'llm/other': [[1_000_000, '1h']],
      'llm/renamed': [[1_000_000, '1h']],
    }),
    meter,
  ],
})
const counted = gatewayTests(settings({ METER_PATHS: 'chat,responses' }))
const usual = gatewayTests(settings({}))
const closed = gatewayTests(settings({ METER_PATHS: 'chat,responses', UNMETERED_PATHS: 'closed' }))

/** Sends a request, and returns its answer and whether the model received it. */
async function send(
  gateway: Gateway,
  key: string,
  method: string,
  path: string,
  body = '',
): Promise<RawAnswer & { readonly reached: boolean }> {
  const before = scripted.received.length
  const headers = [`authorization: Bearer ${key}`]
  const answer = await sendRaw(gateway.port, toBytes({ method, path, headers, body }))
  return { ...answer, reached: scripted.received.length > before }
}

/** Values that some server takes for true. */
const truthy = [
  ...['true', ' true ', '1', '1.0', '-1', '0', '1e0', '"true"', '"True"', '"1"', '"on"', '"yes"'],
  ...['"false"', '""', '[]', '[true]', '{}', '{"a":true}', '"\\u0074rue"'],
]
/** Names that some server takes for the field. */
const respelled = [
  '"b\\u0061ckground"',
  '"\\u0062\\u0061\\u0063\\u006b\\u0067\\u0072\\u006f\\u0075\\u006e\\u0064"',
  '"Background"',
  '"BACKGROUND"',
  '"bac\\u212aground"',
  '"bac\u212aground"',
  '"background\\u0000"',
]

const bodiesOf = (model: string) => {
  const first = (member: string) => `{${member},"model":"${model}","input":"x"}`
  const last = (member: string) => `{"model":"${model}","input":"x",${member}}`
  return { first, last, long: (member: string) => last(`"x":"${'y'.repeat(70_000)}",${member}`) }
}

const targets: readonly (readonly [path: string, model: string])[] = [
  ['/llm/other/v1/responses', 'other'],
  ['/llm/renamed/v1/responses', 'renamed'],
  ['/v1/responses', 'other'],
  ['/v1/responses', 'renamed'],
]

async function refuses(t: Test, gateway: Gateway, path: string, body: string) {
  const { key } = await gateway.mint({ subscription: 'both' })
  const answer = await send(gateway, key, 'POST', path, body)
  const title = `${path} ${body.slice(0, 60)}`
  t.equal(answer.status, 400, title)
  t.notOk(answer.reached, title)
  const { error } = JSON.parse(answer.body)
  t.match(error, { type: 'invalid_request_error', code: 'invalid_body' })
  t.match(error.message, /background/, title)
}

counted(
  'a response in the background is refused where responses are counted',
  async (t, gateway) => {
    for (const [path, model] of targets) {
      const { first, last, long } = bodiesOf(model)
      for (const value of truthy) {
        const body = value.startsWith(' ') ? first : last
        await refuses(t, gateway, path, body(`"background":${value}`))
      }
      await refuses(t, gateway, path, long('"background":true'))
      await refuses(t, gateway, path, first('"background" : true,"stream":true'))
    }
    const { key } = await gateway.mint({ subscription: 'both' })
    const { body } = await send(
      gateway,
      key,
      'POST',
      '/v1/responses',
      bodiesOf('other').last('"background":true'),
    )
    t.equal(
      JSON.parse(body).error.message,
      'The request body is refused: background must be false or left out, ' +
        'because the tokens of such a response are not counted.',
    )
  },
)

counted('another spelling of background is refused', async (t, gateway) => {
  for (const [path, model] of targets) {
    const { key } = await gateway.mint({ subscription: 'both' })
    const { last } = bodiesOf(model)
    for (const name of respelled) {
      const answer = await send(gateway, key, 'POST', path, last(`${name}:true`))
      t.equal(answer.status, 400, `${path} ${name}`)
      t.notOk(answer.reached, name)
    }
    const twice = last('"background":false,"background":true')
    t.equal((await send(gateway, key, 'POST', path, twice)).status, 400)
  }
})

counted('a response that is not in the background passes', async (t, gateway) => {
  for (const [path, model] of targets) {
    const { key } = await gateway.mint({ subscription: 'both' })
    const { last } = bodiesOf(model)
    for (const member of [
      '"background":false',
      '"background": null ',
      '"metadata":{"background":true}',
      '"tools":[{"background":true}]',
      '"backgrounds":true',
      '"store":true',
    ]) {
      t.equal((await send(gateway, key, 'POST', path, last(member))).status, 200, member)
    }
  }
  const { key } = await gateway.mint({ subscription: 'both' })
  const chat = '{"model":"other","messages":[],"background":true}'
  for (const path of ['/v1/chat/completions', '/llm/other/v1/chat/completions']) {
    t.equal((await send(gateway, key, 'POST', path, chat)).status, 200, 'no field of a chat')
  }
})

counted(
  'fields that a server leaves out are refused where responses are counted',
  async (t, gateway) => {
    const { key } = await gateway.mint({ subscription: 'both' })
    const send = async (path: string, more: string) => {
      const before = scripted.received.length
      const body = `{"model":"other","input":"x","messages":[],"stream":true,${more}}`
      const { status, text } = await gateway.ask(path, key, { method: 'POST', body })
      return { status, text, reached: scripted.received.length > before }
    }
    const dropped = '"additional_drop_params":["stream_options"]'
    const refusal = { status: 400, text: /additional_drop_params may leave out/, reached: false }
    for (const operation of ['/v1/chat/completions', '/v1/responses']) {
      for (const path of [operation, `/llm/other${operation}`]) {
        t.match(await send(path, dropped), refusal, path)
        t.match(await send(path, '"additional_drop_params":[ ]'), { status: 200 }, path)
        t.match(await send(path, `"metadata":{${dropped}}`), { status: 200 }, path)
      }
    }
    for (const path of ['/v1/embeddings', '/llm/other/v1/embeddings']) {
      t.match(await send(path, dropped), { status: 200, reached: true }, `${path} is not counted`)
    }
  },
)

counted(
  'an answer that is fetched later is refused where chats are counted',
  async (t, gateway) => {
    const { key } = await gateway.mint({ subscription: 'both' })
    for (const [path, model] of targets.map(
      ([path, model]) => [path.replace('responses', 'chat/completions'), model] as const,
    )) {
      const { last } = bodiesOf(model)
      for (const member of ['true', '1', '"yes"'].map((value) => `"deferred":${value}`)) {
        const answer = await send(gateway, key, 'POST', path, last(member))
        t.match(answer, { status: 400, reached: false }, `${path} ${member}`)
        t.match(JSON.parse(answer.body).error.message, 'deferred must be false or left out')
      }
      for (const member of ['"Deferred":true', '"extra_body":{"deferred":true}']) {
        const answer = await send(gateway, key, 'POST', path, last(member))
        t.match(answer, { status: 400, reached: false }, `${path} ${member}`)
      }
      for (const member of [
        '"deferred":false',
        '"deferred":null',
        '"metadata":{"deferred":true}',
      ]) {
        t.equal((await send(gateway, key, 'POST', path, last(member))).status, 200, member)
      }
    }
  },
)

usual('background is open where responses are not counted', async (t, gateway) => {
  for (const [path, model] of targets) {
    const { key } = await gateway.mint({ subscription: 'both' })
    const body = bodiesOf(model).last('"background":true')
    t.equal((await send(gateway, key, 'POST', path, body)).status, 200, path)
    t.match(scripted.received.at(-1)?.body, '"background":true')
  }
})

counted('cancelling a response is open, and counted', async (t, gateway) => {
  scripted.answer({
    headers: { 'content-type': 'application/json' },
    pieces: ['{"id":"resp_1","status":"cancelled","usage":{"total_tokens":500}}'],
  })
  t.teardown(() => scripted.answer({ pieces: ['{}'] }))
  const path = '/llm/other/v1/responses/resp_1/cancel'
  await counts(
    t,
    gateway,
    500,
    async (key) => {
      t.equal((await send(gateway, key, 'POST', path)).status, 200)
    },
    'other',
  )
})

/** Requests that closed lets pass, and examples of those that it does not. */
const passing = [
  ['GET', '/v1/models'],
  ['HEAD', '/v1/models'],
  ['GET', '/v1/models/other'],
  ['GET', '/v1/models/ft:small:acme::7p'],
  ['POST', '/v1/chat/completions'],
  ['POST', '/v1/responses'],
  ['DELETE', '/v1/responses/resp_1'],
  ['GET', '/v1/files'],
  ['GET', '/v1/files/file-1'],
  ['DELETE', '/v1/files/file-1'],
  ['GET', '/v1/batches/batch_1'],
  ['POST', '/v1/batches/batch_1/cancel'],
] as const
const refused = [
  // Here messages are not counted.
  ['POST', '/v1/messages/count_tokens'],
  ...['GET', 'PUT', 'PATCH', 'DELETE'].map((method) => [method, '/v1/chat/completions'] as const),
  ...['GET', 'PUT', 'PATCH', 'DELETE', 'POST'].map((method) => [method, '/v1/generate'] as const),
  ['POST', '/v1/models/other:generateContent'],
  ['GET', '/v1/models/other:generateContent'],
  ['POST', '/v1/models/other:streamGenerateContent?alt=sse'],
  ['POST', '/v1/models/other:predict'],
  ['POST', '/v1/models'],
  ['POST', '/v1/models/other'],
  ['PUT', '/v1/models'],
  ['GET', '/v1/models/'],
  ['GET', '/v1/Models'],
  ['GET', '/v1/models;x'],
  ['GET', '/v1/models.'],
  ['GET', '/v1/responses/resp_1'],
  ['GET', '/v1/responses/resp_1?stream=true&starting_after=0'],
  ['HEAD', '/v1/responses/resp_1'],
  ['POST', '/v1/responses/resp_1'],
  ['GET', '/v1/responses/resp_1/input_items'],
  ['POST', '/v1/responses/resp_1/cancel'],
  ['GET', '/v1/chat/completions/chatcmpl-1'],
  ['GET', '/v1/chat/completions/chatcmpl-1/messages'],
  ['GET', '/v1/conversations/conv_1/items'],
  ['POST', '/v1/conversations'],
  ['GET', '/v1/files/file-1/content'],
  ['POST', '/v1/batches'],
  ['POST', '/v1/tokenize'],
  ['POST', '/v1/detokenize'],
  ['GET', '/v1/model/info'],
  ['GET', '/v1/images/generations'],
] as const

closed('closed lets pass only what is known to return no text', async (t, gateway) => {
  const { key } = await gateway.mint({ subscription: 'both' })
  const body = '{"model":"other","messages":[],"input":"x"}'
  const bodyOf = (method: string) => (method === 'POST' ? body : '')
  for (const [method, path] of passing) {
    const answer = await send(gateway, key, method, `/llm/other${path}`, bodyOf(method))
    t.equal(answer.status, 200, `${method} ${path}`)
    t.ok(answer.reached)
  }
  for (const [method, path] of refused) {
    const answer = await send(gateway, key, method, `/llm/other${path}`, bodyOf(method))
    t.equal(answer.status, 403, `${method} ${path}`)
    t.notOk(answer.reached, `${method} ${path}`)
    if (method === 'HEAD') continue
    const { code, message } = JSON.parse(answer.body).error
    // Anthropic's clients get no code.
    if (!path.startsWith('/v1/messages')) t.equal(code, 'path_closed')
    t.match(message, `${method} ${path.split('?')[0]} may return text that is not counted`)
    t.match(message, 'use POST /v1/chat/completions or /v1/responses.')
  }
  // A method that the client hides in a header or the query is none for the gateway.
  for (const header of ['x-http-method-override', 'x-method-override', 'x-http-method']) {
    const headers = [`authorization: Bearer ${key}`, `${header}: POST`]
    const path = '/llm/other/v1/models'
    const answer = await sendRaw(gateway.port, toBytes({ method: 'GET', path, headers }))
    t.equal(answer.status, 200)
    t.equal(scripted.received.at(-1)?.headers[header], undefined, header)
  }
  for (const [method, path] of [
    ['DELETE', '/v1/responses/resp_1?_method=GET'],
    ['POST', '/v1/chat/completions?a=b&%5Fmethod=GET'],
    ['GET', '/v1/models?$httpMethod=POST'],
  ] as const) {
    const answer = await send(gateway, key, method, `/llm/other${path}`, bodyOf(method))
    t.equal(answer.status, 404, path)
    t.notOk(answer.reached, path)
  }
})
