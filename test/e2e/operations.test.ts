import { accessPolicy, modelRef, subscription } from '../support/documents.ts'
import { gatewayTests, meter, models, subscriptions } from '../support/gateway.ts'
import { sendRaw, toBytes } from '../support/raw-http.ts'
import { startScriptedModel } from '../support/scripted-model.ts'

/**
 * It responds to every path and method, so a request that reaches it could have been a chat call.
 */
const scripted = await startScriptedModel()
const team = { groups: ['team'] }
const test = gatewayTests({
  resources: (backendUrl) => [
    ...models(backendUrl).slice(0, 1),
    modelRef('other', { backendUrl: scripted.url }),
    accessPolicy('open', ['llm/sim', 'llm/other'], team),
    ...subscriptions({ plenty: 1_000_000 }),
    subscription('spent', team, { 'llm/other': [[1, '1h']] }),
    meter,
  ],
})
const body = '{"model":"other","messages":[]}'

/** Requests that some servers take for a chat call although they are none, and their status. */
const odd: readonly (readonly [string, string, number])[] = [
  ['POST', '/llm/other/v1/models?/v1/chat/completions', 404],
  ['POST', '/llm/other/v1/models', 404],
  ['GET', '/llm/other/v1/models?x=/v1/chat/completions', 404],
  ['POST', '/llm/other/v1/v1/chat/completions', 404],
  ['POST', '/llm/other/v1/x/v1/chat/completions', 404],
  ['POST', '/llm/other/v1/embeddings?/v1/chat/completions', 404],
  ['POST', '/llm/other/v1/embeddings?x=%2Fv1%2Fchat%2Fcompletions', 404],
  ['POST', '/llm/other/v1/chat/completions/x', 404],
  ['POST', '/llm/other/v1/completions/v1/chat/completions', 404],
  ['POST', '/llm/other/v1/files/chat/completions', 404],
  ['POST', '/llm/other/v1/model/info', 404],
  ['GET', '/llm/other/v1/model/info', 404],
  ['POST', '/llm/other/v1/responses/resp_1', 404],
  ['POST', '/llm/other/v1/chat%c0%afcompletions', 400],
  ['POST', '/llm/other/v1/chat%ef%bc%8fcompletions', 400],
  ['POST', '/llm/other/v1/chat%u002fcompletions', 400],
  ['POST', '/llm/other/v1/chat%2525252fcompletions', 400],
  ['POST', '/v1/chat%c0%afcompletions', 400],
  ['POST', '/v1/chat%u002fcompletions', 400],
  ['POST', '/v1/v1/chat/completions', 404],
  ['POST', '/v1/embeddings?/v1/chat/completions', 404],
]

test('only exact chat paths are chat calls', async (t, gateway) => {
  const { key } = await gateway.mint()
  for (const [method, path, status] of odd) {
    const before = scripted.received.length
    const headers = [`authorization: Bearer ${key}`]
    const answer = await sendRaw(gateway.port, toBytes({ method, path, headers, body }))
    t.equal(answer.status, status, `${method} ${path}`)
    t.equal(scripted.received.length, before, `${method} ${path} does not reach the model`)
  }
})

test('a key at its limit and an identity token can only list models', async (t, gateway) => {
  const { key } = await gateway.mint({ subscription: 'spent' })
  scripted.answer({
    headers: { 'content-type': 'application/json' },
    pieces: ['{"usage":{"total_tokens":5}}'],
  })
  await gateway.chat(key, {}, {}, '/llm/other/v1/chat/completions')
  await gateway.settled()
  const before = scripted.received.length
  for (const [credential, refused] of [
    [key, 429],
    ['token-guest', 401],
  ] as const) {
    for (const [method, path] of [
      ['POST', '/llm/other/v1/chat/completions'],
      ['POST', '/llm/other/v1/embeddings'],
      ['GET', '/llm/other/v1/responses/resp_1'],
      ['GET', '/llm/other/v1/models/other'],
      ['POST', '/llm/other/v1/audio/transcriptions'],
    ] as const) {
      const headers = [`authorization: Bearer ${credential}`]
      const answer = await sendRaw(gateway.port, toBytes({ method, path, headers, body }))
      t.equal(answer.status, refused, `${method} ${path}`)
    }
    for (const [method, path, status] of odd.filter(([, path]) => path.startsWith('/llm'))) {
      const headers = [`authorization: Bearer ${credential}`]
      const answer = await sendRaw(gateway.port, toBytes({ method, path, headers, body }))
      const listing = method === 'GET' && path.startsWith('/llm/other/v1/models')
      t.equal(answer.status, credential === key || listing ? status : 401, `${method} ${path}`)
    }
  }
  t.equal(scripted.received.length, before)
  const headers = [`authorization: Bearer ${key}`]
  for (const method of ['GET', 'HEAD']) {
    const listing = toBytes({ method, path: '/llm/other/v1/models', headers })
    t.equal((await sendRaw(gateway.port, listing)).status, 200, 'the list is still allowed')
  }
})

test('passes known operations and their queries on', async (t, gateway) => {
  const { key } = await gateway.mint()
  for (const [method, operation] of [
    ['POST', '/v1/chat/completions?api-version=2024-10-21'],
    ['POST', '/v1/messages?beta=true'],
    ['POST', '/v1/messages/count_tokens?beta=true'],
    ['GET', '/v1/responses/resp_1?include[]=usage'],
    ['DELETE', '/v1/responses/resp_1'],
    ['GET', '/v1/files?after=file-1&limit=2'],
    ['GET', '/v1/files/file-1/content'],
    ['POST', '/v1/audio/transcriptions'],
    ['POST', '/v1/rerank'],
    ['POST', '/v1/tokenize'],
    ['GET', '/v1/models/other'],
  ] as const) {
    const headers = [`authorization: Bearer ${key}`]
    const request = toBytes({
      method,
      path: `/llm/other${operation}`,
      headers,
      body: method === 'POST' ? body : '',
    })
    t.equal((await sendRaw(gateway.port, request)).status, 200, operation)
    t.match(scripted.received.at(-1), { method, path: operation })
  }
})

test('JSON bodies name the model on more shared paths', async (t, gateway) => {
  const { key } = await gateway.mint()
  for (const path of [
    '/v1/messages/count_tokens',
    '/v1/rerank',
    '/v1/score',
    '/v1/moderations',
    '/v1/images/generations',
    '/v1/audio/speech',
  ]) {
    t.equal((await gateway.ask(path, key, { method: 'POST', body })).status, 200, path)
    t.equal(scripted.received.at(-1)?.path, path)
    const foreign = { method: 'POST', body: '{"model":"nobody"}' }
    const expected = path.startsWith('/v1/messages') ? 404 : 403
    t.equal((await gateway.ask(path, key, foreign)).status, expected, path)
  }
})

test('uploads to shared paths get an error with the path to use', async (t, gateway) => {
  const { key } = await gateway.mint()
  for (const path of ['/v1/audio/transcriptions', '/v1/images/edits', '/v1/files', '/v1/batches']) {
    const answer = await gateway.ask(path, key, { method: 'POST', body: new FormData() })
    t.equal(answer.status, 400, path)
    t.match(JSON.parse(answer.text).error, {
      code: 'model_path_needed',
      message: `Name the model in the path: /<namespace>/<model>${path}.`,
    })
    t.equal((await gateway.ask(path, 'nonsense', { method: 'POST' })).status, 401)
  }
})
