import { internalFields, modelChoosingFields } from '../../src/kinds/body-fields.ts'
import { accessPolicy, modelRef, subscription } from '../support/documents.ts'
import { gatewayTests, meter, models, subscriptions } from '../support/gateway.ts'
import { sendRaw, toBytes } from '../support/raw-http.ts'
import { startScriptedModel } from '../support/scripted-model.ts'

/**
 * It responds to every path and method, so a request that reaches it could have been a chat call.
 */
const scripted = await startScriptedModel()
const team = { groups: ['team'] }
const plenty = [[1_000_000, '1h']] as const
const scriptedModels = ['other', 'own', 'all', 'named', 'renamed', 'wide'].map(
  (name) => `llm/${name}`,
)
const test = gatewayTests({
  resources: (backendUrl) => [
    ...models(backendUrl).slice(0, 1),
    modelRef('other', { backendUrl: scripted.url, state: 'shared' }),
    modelRef('own', { backendUrl: scripted.url }),
    modelRef('all', { backendUrl: scripted.url, paths: 'all' }),
    modelRef('named', { backendUrl: scripted.url, modelIds: ['org/named'] }),
    modelRef('renamed', { backendUrl: scripted.url, upstreamModel: 'theirs' }),
    modelRef('wide', {
      ...{ backendUrl: scripted.url, modelIds: ['org/wide'], state: 'shared' },
      modelFields: ['fallbacks', 'tools[].model', 'kv_transfer_params'],
    }),
    accessPolicy('open', ['llm/sim', ...scriptedModels], team),
    ...subscriptions({ plenty: 1_000_000 }),
    subscription('wide', team, Object.fromEntries(scriptedModels.map((each) => [each, plenty]))),
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
    '/v1/tokenize',
    '/v1/detokenize',
  ]) {
    t.equal((await gateway.ask(path, key, { method: 'POST', body })).status, 200, path)
    t.equal(scripted.received.at(-1)?.path, path)
    const foreign = { method: 'POST', body: '{"model":"nobody"}' }
    const expected = path.startsWith('/v1/messages') ? 404 : 403
    t.equal((await gateway.ask(path, key, foreign)).status, expected, path)
  }
})

test('the model in a body to tokenize is the one of the path', async (t, gateway) => {
  const { key } = await gateway.mint({ subscription: 'wide' })
  for (const operation of ['/v1/tokenize', '/v1/detokenize']) {
    const ask = async (name: string, model: string) => {
      const body = JSON.stringify({ model, prompt: 'a', tokens: [1] })
      const { status } = await gateway.ask(`/llm/${name}${operation}`, key, {
        method: 'POST',
        body,
      })
      return status
    }
    t.equal(await ask('named', 'org/named'), 200, operation)
    const before = scripted.received.length
    t.equal(await ask('named', 'other'), 403, operation)
    t.equal(scripted.received.length, before)
    t.equal(await ask('renamed', 'renamed'), 200, operation)
    t.match(scripted.received.at(-1)?.body, '"model":"theirs"')
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

/** Reads, changes or ends something that is stored at the server. */
const stored: readonly (readonly [string, string])[] = [
  ['GET', '/v1/responses/resp_1'],
  ['HEAD', '/v1/responses/resp_1'],
  ['GET', '/v1/responses/resp_1/input_items'],
  ['POST', '/v1/responses/resp_1/cancel'],
  ['DELETE', '/v1/responses/resp_1'],
  ['GET', '/v1/responses'],
  ['GET', '/v1/chat/completions'],
  ['DELETE', '/v1/chat/completions'],
  ['GET', '/v1/files?limit=2'],
  ['GET', '/v1/files/file-1'],
  ['GET', '/v1/files/file-1/content'],
  ['DELETE', '/v1/files/file-1'],
  ['GET', '/v1/batches'],
  ['GET', '/v1/batches/batch_1'],
  ['POST', '/v1/batches/batch_1/cancel'],
]

/** The same, at a server whose paths are all open. */
const storedElsewhere: readonly (readonly [string, string])[] = [
  ['GET', '/v1/chat/completions/chatcmpl-1/messages'],
  ['POST', '/v1/chat/completions/chatcmpl-1'],
  ['GET', '/v1/conversations/conv_1'],
  ['POST', '/v1/vector_stores/vs_1/search'],
  ['GET', '/v1/containers/c_1/files'],
  ['POST', '/v1/threads'],
  ['GET', '/v1/messages/batches'],
  ['GET', '/v1/Files/file-1'],
  ['POST', '/v1/files/'],
  ['GET', '/v1/files;x=1'],
  ['GET', '/v1/files%3Fx'],
  ['DELETE', '/v1/files/file-1%23x'],
  ['GET', '/v1/files.json'],
  ['GET', '/v1/v1/files'],
  ['GET', '/v1/x/files'],
  ['POST', '/v1/vector_store/list'],
  ['POST', '/v1/rag/query'],
  ['GET', '/v1/memories'],
  ['GET', '/v1/prompts/p'],
  ['POST', '/v1/interactions'],
  ['GET', '/v1/batch/1'],
  ['POST', '/v1/realtime/sessions'],
  ['GET', '/v1/skills'],
  ['POST', '/v1/fine_tuning/jobs'],
  ['GET', '/v1/fine-tunes'],
  ['GET', '/v1/videos/video_1/content'],
  ['GET', '/v1/cachedContents'],
  ['GET', '/v1/chat/deferred-completion/1'],
  ['GET', '/v1/async/chat/completions/1'],
  ['POST', '/v1/key/generate'],
  ['GET', '/v1/user/info'],
  ['GET', '/v1/mcp/server'],
  ['POST', '/v1/load_lora_adapter'],
  ['POST', '/v1/unload_lora_adapter'],
  ['POST', '/v1/models/unload'],
  ['POST', '/v1/reset_prefix_cache'],
  ['POST', '/v1/anything/cancel'],
  ['PATCH', '/v1/anything/1'],
  ['DELETE', '/v1/anything/1'],
  ['GET', '/v1/%252e%252e/props'],
]

/** At such a server other paths stay open. */
const openElsewhere: readonly (readonly [string, string])[] = [
  ['GET', '/v1/model/info'],
  ['POST', '/v1/anything'],
  ['PUT', '/v1/anything'],
  ['POST', '/v1/classify'],
  ['POST', '/v1/fim/completions'],
  ['GET', '/v1/audio/voices'],
  ['POST', '/v1/messages/count_tokens'],
  ['POST', '/v1/images/edits'],
]

test('what a server stores is closed', async (t, gateway) => {
  const { key } = await gateway.mint({ subscription: 'wide' })
  const before = scripted.received.length
  const headers = [`authorization: Bearer ${key}`]
  for (const [model, paths] of [
    ['own', stored],
    ['all', [...stored, ...storedElsewhere]],
  ] as const) {
    for (const [method, operation] of paths) {
      const asked = toBytes({ method, path: `/llm/${model}${operation}`, headers })
      const answer = await sendRaw(gateway.port, asked)
      t.equal(answer.status, 403, `${method} ${operation} of ${model}`)
      if (method === 'HEAD') continue
      t.match(JSON.parse(answer.body).error.message, /spec\.state: shared/, operation)
    }
  }
  t.equal(scripted.received.length, before, 'the server gets no request')
  for (const [method, operation] of openElsewhere) {
    const sent = method === 'POST' ? '{"model":"all"}' : ''
    const asked = toBytes({ method, path: `/llm/all${operation}`, headers, body: sent })
    t.equal((await sendRaw(gateway.port, asked)).status, 200, `${method} ${operation}`)
  }
  for (const [method, operation] of stored) {
    if (method === 'DELETE' && operation === '/v1/chat/completions') continue
    const asked = toBytes({ method, path: `/llm/other${operation}`, headers })
    t.equal((await sendRaw(gateway.port, asked)).status, 200, `${method} ${operation}, shared`)
  }
  for (const operation of ['/v1/responses', '/v1/chat/completions']) {
    for (const store of [true, false, null]) {
      const asked = { method: 'POST', body: JSON.stringify({ model: 'own', store }) }
      t.equal((await gateway.ask(`/llm/own${operation}`, key, asked)).status, 200)
      t.equal((await gateway.ask(operation, key, asked)).status, 200)
    }
  }
})

/** Members of a body by the field that they name, in the places where the APIs have it. */
const naming: readonly (readonly [string, string])[] = [
  ['previous_response_id', '"previous_response_id":"resp_1"'],
  ['previous_response_id', '"previousResponseId":"resp_1"'],
  ['conversation', '"conversation":"conv_1"'],
  ['conversation', '"conversation":{"id":"conv_1"}'],
  ['item_reference', '"input":[{"type":"item_reference","id":"msg_1"}]'],
  ['item_reference', '"input":[{"role":"user","content":"x"},{"id":"msg_1"}]'],
  ['item_reference', '"input":[{"id":"msg_1","type":null}]'],
  ['item_reference', '"input":[{"id":"msg_1","type":"item\\u005freference"}]'],
  ['item_reference', `"input":[{"id":"msg_1","type":${' '.repeat(70)}"item_reference"}]`],
  ['item_reference', `"input":[{"id":"msg_1","type"${' '.repeat(50)}:"item_reference"}]`],
  ['item_reference', `"input":[{"id":"msg_1","type" :${' '.repeat(70_000)}"item_reference"}]`],
  ['item_reference', `"input":[{"id":"msg_1","role":${' '.repeat(70)}null}]`],
  ['item_reference', '"input":[{"type":"image_generation_call","id":"ig_1"}]'],
  ['item_reference', '"input":[{"id":"ig_1","result":null,"type":"image_generation_call"}]'],
  ['item_reference', '"input":[{"type":"reasoning","id":"rs_1","summary":[]}]'],
  ['item_reference', '"input":[{"id":"rs_1","encrypted_content":null,"type":"reasoning"}]'],
  ['item_reference', '"input":[{"type":"reasoning","id":"rs_1","content":[],"role":"assistant"}]'],
  ['item_reference', '"input":[{"type":"reasoning","id":"rs_1","encrypted_content":""}]'],
  ['item_reference', '"input":[{"type":"reasoning","id":"r","summary":[{"text":"x"}]},{"id":1}]'],
  ['item_reference', '"input":[{"type":"reasonin\\u0067","id":"rs_1","summary":[]}]'],
  ['item_reference', '"input":[{"type":"image_generation_call","id":"ig_1","content":"x"}]'],
  ['previous_response_id', '"extra_body":{"previous_response_id":"resp_1"}'],
  ['item_reference', '"extra_body":{"input":[{"type":"item_reference","id":"msg_1"}]}'],
  ['file_id', '"extra_body" : {"input":[{"content":[{"file_id":"file-1"}]}]} '],
  ['cached_content', '"extra_body":{"google":{"cached_content":"cachedContents/1"}}'],
  ['cached_content', '"cachedContent":"cachedContents/1"'],
  ['skill_id', '"container":{"skills":[{"type":"custom","skill_id":"skill_1"}]}'],
  ['collection_ids', '"tools":[{"type":"file_search","collection_ids":["c"]}]'],
  ['library_ids', '"tools":[{"type":"document_library","library_ids":["l"]}]'],
  [
    'file_search_store_names',
    '"tools":[{"file_search":{"fileSearchStoreNames":["fileSearchStores/1"]}}]',
  ],
  ['file_id', '"input":[{"role":"user","content":[{"type":"input_file","file_id":"file-1"}]}]'],
  ['file_id', '"input":[{"role":"user","content":[{"type":"input_image","fileId":"file-1"}]}]'],
  ['file_id', '"input":[{"role":"user","content":[{"\\u0066ile_id":"file-1"}]}]'],
  ['file_id', '"input":[{"role":"user","content":[{"FILE-ID" : "file-1"}]}]'],
  [
    'file_id',
    '"messages":[{"role":"user","content":[{"type":"file","file":{"file_id":"file-1"}}]}]',
  ],
  [
    'file_id',
    '"messages":[{"role":"user","content":[{"type":"document","source":{"type":"file","file_id":"f"}}]}]',
  ],
  ['file_id', '"messages":[{"role":"user","content":[{"type":"container_upload","file_id":"f"}]}]'],
  ['file_id', '"messages":[{"content":[{"parameters":1},[[{"file_id":"f"}]]]}]'],
  ['file_id', '"messages":[{"content":[{"type":"tool_use","input":{"a":1}},{"file_id":"f"}]}]'],
  ['file_id', '"prompt":{"id":"pmpt_1","variables":{"x":{"type":"input_file","file_id":"f"}}}'],
  ['file_id', '"tools":[{"type":"image_generation","input_image_mask":{"file_id":"file-1"}}]'],
  [
    'file_ids',
    '"tools":[{"type":"code_interpreter","container":{"type":"auto","file_ids":["f"]}}]',
  ],
  ['input_file_id', '"input_file_id":"file-1"'],
  ['vector_store_ids', '"tools":[{"type":"file_search","vector_store_ids":["vs_1"]}]'],
  ['vector_store_ids', '"tools":[{"type":"file_search","vector_store_ids":[ \n "vs_1"]}]'],
  ['container', '"tools":[{"type":"code_interpreter","container":"cntr_1"}]'],
  ['container', '"container":"container_1"'],
  ['container', '"container":{"skills":[],"id":"container_1"}'],
  [
    'container_id',
    '"input":[{"type":"code_interpreter_call","id":"ci_1","container_id":"cntr_1"}]',
  ],
  [
    'container_id',
    '"tools":[{"type":"shell","environment":{"type":"container_reference","container_id":"cntr_1"}}]',
  ],
  ['tool_resources', '"tool_resources":{"file_search":{"vector_store_ids":["vs_1"]}}'],
  ['audio.id', '"messages":[{"role":"assistant","audio":{"id":"audio_1"}}]'],
]

/** Members in which the same names mean nothing stored. */
const harmless: readonly string[] = [
  '"previous_response_id":null,"conversation":null,"container":null',
  '"messages":[{"role":"user","content":[{"type":"text","text":"\\"file_id\\":\\"f\\"","file_id":null}]}]',
  '"messages":[{"role":"user","content":"{\\"file_id\\":\\"file-1\\",\\"container\\":\\"c\\"}"}]',
  '"messages":[{"role":"assistant","content":[{"type":"tool_use","id":"t","name":"x","input":{"file_id":"f","container":"c"}}]}]',
  '"messages":[{"role":"assistant","tool_calls":[{"id":"c","function":{"name":"x","arguments":"{\\"file_id\\":1}"}}]}]',
  '"tools":[{"type":"function","function":{"name":"x","parameters":{"type":"object","properties":{"file_id":{"type":"string"},"container":{"type":"string"},"model":{}},"required":["file_id"]}}}]',
  '"tools":[{"name":"x","input_schema":{"properties":{"file_ids":{"type":"array"}}},"input_examples":[{"file_ids":["a"]}]}]',
  '"tools":[{"type":"file_search","vector_store_ids":[]},{"type":"code_interpreter","container":{"type":"auto","file_ids":[ ]}}]',
  '"metadata":{"file_id":"x","container":"y"},"prompt":{"id":"p","variables":{"file_id":"x"}}',
  '"response_format":{"type":"json_schema","json_schema":{"name":"x","schema":{"properties":{"file_id":{}}}}}',
  '"text":{"format":{"type":"json_schema","name":"x","schema":{"properties":{"container_id":{}}}}}',
  '"documents":[{"text":"x","file_id":"y"}]',
  '"input":[{"type":"message","id":"msg_1","role":"assistant","content":[{"type":"output_text","text":"x","annotations":[{"type":"file_citation","file_id":"f"}]}]},{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"x"},{"type":"function_call_output","call_id":"c","output":"{}"},{"role":"user","content":"x"}]',
  '"input":[{"id":"ig_1","type":"image_generation_call","status":"completed","result":"aGk="}]',
  '"input":[{"id":"rs_1","type":"reasoning","content":[{"type":"reasoning_text","text":"x"}]}]',
  '"input":[{"type":"reasoning","summary":[]},{"id":"rs_1","content":"x","role":"assistant"}]',
  `"input":[{"id":"msg_1","type":${' '.repeat(70)}"message"}]`,
  `"messages":[{"file_id":${' '.repeat(70_000)}null,"container" : ${' '.repeat(70)}null}]`,
  '"extra_body":{"google":{"thinking_config":{"include_thoughts":true}}}',
  '"audio":{"voice":"alloy","format":"wav"},"store":true,"file_path":"x","files":[],"ids":["x"]',
]

test('a body names nothing that is stored', async (t, gateway) => {
  const { key } = await gateway.mint({ subscription: 'wide' })
  const ask = (path: string, model: string, members: string) =>
    gateway.ask(path, key, { method: 'POST', body: `{"model":"${model}",${members}}` })
  const before = scripted.received.length
  for (const [field, members] of naming) {
    for (const operation of ['/v1/responses', '/v1/chat/completions', '/v1/messages']) {
      const byPath = await ask(`/llm/own${operation}`, 'own', members)
      const byBody = await ask(operation, 'own', members)
      t.strictSame([byPath.status, byBody.status], [400, 400], members)
      t.strictSame(JSON.parse(byPath.text), JSON.parse(byBody.text))
      const message = `The request body is refused: ${field} names what is stored in the account that all callers of this model share; spec.state: shared of its ModelRef allows it.`
      t.equal(JSON.parse(byBody.text).error.message, message, members)
    }
  }
  const batch = { method: 'POST', body: '{"input_file_id":"file-1"}' }
  const refused = await gateway.ask('/llm/own/v1/batches', key, batch)
  t.equal(refused.status, 400)
  t.match(JSON.parse(refused.text).error.message, /input_file_id .* spec\.state: shared/)
  t.equal(scripted.received.length, before, 'the server gets no request')

  for (const [, members] of naming) {
    t.equal((await ask('/llm/other/v1/responses', 'other', members)).status, 200, members)
    t.equal((await ask('/v1/responses', 'other', members)).status, 200, members)
  }
  t.equal((await gateway.ask('/llm/other/v1/batches', key, batch)).status, 200)
  for (const members of harmless) {
    for (const operation of ['/v1/responses', '/v1/chat/completions', '/v1/messages']) {
      t.equal((await ask(`/llm/own${operation}`, 'own', members)).status, 200, members)
      t.equal((await ask(operation, 'own', members)).status, 200, members)
    }
  }
})

test('the place of a field in the body makes no difference', async (t, gateway) => {
  const { key } = await gateway.mint({ subscription: 'wide' })
  const ask = async (body: string) =>
    (await gateway.ask('/llm/own/v1/chat/completions', key, { method: 'POST', body })).status
  const blanks = ' '.repeat(100)
  for (const [value, status, step] of [
    ['"file-1"', 400, 1],
    ['null', 200, 1],
    ['[ ]', 200, 1],
    [`[${blanks}]`, 200, 3],
    [`[${blanks}"file-1"]`, 400, 3],
  ] as const) {
    for (let pad = 65_536 - 80 * step; pad < 65_536 + 8; pad += step) {
      const part = `{"file_id" :  ${value}}`
      const got = await ask(`{"model":"own","x":"${'x'.repeat(pad - 30)}","messages":[${part}]}`)
      if (got !== status) t.fail(`${got} with ${value} after ${pad}`)
    }
  }
  const spaces = ' '.repeat(70_000)
  t.equal(await ask(`{"model":"own","messages":[{"file_id"${spaces}:${spaces}"x"}]}`), 400)
  for (const colon of [':', `${spaces}:`]) {
    const list = `{"model":"own","messages":[{"file_ids"${colon}[${spaces}`
    t.equal(await ask(`${list}]}]}`), 200)
    t.equal(await ask(`${list}"x"]}]}`), 400)
    t.equal(await ask(list), 400)
  }
})

/** Of a form, or of JSON, for the same operations. */
const withForms = ['images/edits', 'images/variations']

test('a body that is no form is read', async (t, gateway) => {
  const { key } = await gateway.mint({ subscription: 'wide' })
  const ask = async (model: string, operation: string, body: string | FormData, type?: string) => {
    const headers = type === undefined ? {} : { 'content-type': type }
    return await gateway.ask(`/llm/${model}/v1/${operation}`, key, {
      method: 'POST',
      headers,
      body,
    })
  }
  const before = scripted.received.length
  for (const operation of withForms) {
    for (const type of [
      ...['application/json', 'text/plain', 'application/x-www-form-urlencoded'],
      ...['multipart/form-data', 'multipart/mixed; boundary=x'],
      'multipart/form-data; boundary=x, application/json',
    ]) {
      const stored = await ask('own', operation, '{"model":"own","image":{"file_id":"f"}}', type)
      t.equal(stored.status, 400, `${operation} ${type}`)
      t.match(stored.text, /file_id names what is stored/)
      const other = await ask('named', operation, '{"model":"expensive"}', type)
      t.equal(other.status, 403, `${operation} ${type}`)
    }
    t.equal((await ask('named', operation, '{"model":"org/named","models":["x"]}')).status, 400)
    t.equal((await ask('own', operation, 'RIFF')).status, 400)
  }
  t.equal(scripted.received.length, before, 'the server gets no request')
  for (const operation of withForms) {
    t.equal((await ask('named', operation, '{"model":"org/named","image":"x"}')).status, 200)
    t.match(scripted.received.at(-1), { headers: { 'content-type': 'application/json' } })
    const form = new FormData()
    form.set('image', 'x')
    t.equal((await ask('named', operation, form)).status, 200)
    t.match(scripted.received.at(-1), {
      headers: { 'content-type': /^multipart.form-data; bound/ },
    })
    const type = 'Multipart/Form-Data ; boundary=x'
    t.equal((await ask('named', operation, '--x--', type)).status, 200)
  }
})

test('no request speaks for another server of the model', async (t, gateway) => {
  const { key } = await gateway.mint({ subscription: 'wide' })
  const ask = (path: string, model: string, members: string) =>
    gateway.ask(path, key, { method: 'POST', body: `{"model":"${model}",${members}}` })
  const before = scripted.received.length
  for (const field of internalFields) {
    for (const members of [
      `"${field}":{"remote_host":"10.0.0.1"}`,
      `"nvext":{"${field.replaceAll('_', '-').toUpperCase()}":1}`,
      `"extra_body":{"${field}":{}}`,
    ]) {
      const byPath = await ask('/llm/own/v1/completions', 'own', members)
      const byBody = await ask('/v1/completions', 'own', members)
      t.strictSame([byPath.status, byBody.status], [400, 400], members)
      t.strictSame(JSON.parse(byPath.text), JSON.parse(byBody.text))
      t.match(JSON.parse(byBody.text).error.message, `${field} is for the servers of a model`)
    }
  }
  t.equal(scripted.received.length, before, 'the server gets no request')
  const opened = '"kv_transfer_params":{"do_remote_decode":true},"bootstrap_host":null'
  t.equal((await ask('/llm/wide/v1/completions', 'wide', opened)).status, 200)
  t.equal((await ask('/v1/completions', 'wide', opened)).status, 200)
})

test('extra_body has nothing that is read for counting', async (t, gateway) => {
  const { key } = await gateway.mint({ subscription: 'wide' })
  const ask = async (members: string, path = '/v1/chat/completions') => {
    const body = `{"model":"own",${members}}`
    const answers = [
      await gateway.ask(`/llm/own${path}`, key, { method: 'POST', body }),
      await gateway.ask(path, key, { method: 'POST', body }),
    ]
    t.strictSame(answers[0]?.text, answers[1]?.text, members)
    return answers[0]
  }
  for (const [members, message] of [
    ['"extra_body":{"stream":true}', 'extra_body must not have stream'],
    ['"extra_body":{"a":1,"stream_options":{}}', 'extra_body must not have stream_options'],
    ['"extra_body":{"extra_body":{"stream":true}}', 'extra_body must not have extra_body'],
    ['"extra_body":{"Stream":true}', 'a field must be spelled exactly stream'],
    ['"extra-body":{"stream":true}', 'a field must be spelled exactly extra_body'],
    ['"extra_body":"{}"', 'extra_body must be an object'],
    ['"extra_body":[["stream",true]]', 'extra_body must be an object'],
  ] as const) {
    const answer = await ask(members)
    t.equal(answer?.status, 400, members)
    t.match(JSON.parse(answer?.text ?? '').error.message, message)
  }
  t.equal((await ask('"extra_body":{"background":true}', '/v1/responses'))?.status, 400)
  for (const members of ['{}', 'null', '{"stream":null}', '{"top_k":5,"max_tokens":5}']) {
    t.equal((await ask(`"extra_body":${members}`))?.status, 200, members)
  }
})

const values: Readonly<Record<string, string>> = {
  extra_body: '"extra_body":{"model":"large"}',
  'tools[].model': '"tools":[{"type":"advisor_20260301","name":"advisor","model":"large"}]',
}

test('only model chooses the model', async (t, gateway) => {
  const { key } = await gateway.mint({ subscription: 'wide' })
  const ask = (path: string, model: string, members: string) =>
    gateway.ask(path, key, { method: 'POST', body: `{"model":"${model}",${members}}` })
  for (const field of modelChoosingFields) {
    const members = values[field] ?? `"${field}":["expensive"]`
    const before = scripted.received.length
    for (const [model, name] of [
      ['named', 'org/named'],
      ['renamed', 'renamed'],
      ...(field === 'fallbacks' || field === 'tools[].model'
        ? []
        : [['wide', 'org/wide'] as const]),
    ] as const) {
      for (const path of ['/v1/chat/completions', '/v1/messages']) {
        const byPath = await ask(`/llm/${model}${path}`, name, members)
        const byBody = await ask(path, name, members)
        t.strictSame([byPath.status, byBody.status], [400, 400], `${field} of ${model}`)
        t.strictSame(JSON.parse(byPath.text), JSON.parse(byBody.text))
        t.match(JSON.parse(byBody.text).error.message, `${field} may choose another model`)
      }
    }
    t.equal(scripted.received.length, before, 'the server gets no request')
    const absent = members.replace(/("model"|^"[A-Za-z_]+"):(\["expensive"\]|"large")/, '$1:null')
    for (const [model, name, sent] of [
      ['named', 'org/named', absent],
      ['renamed', 'renamed', absent],
      ['own', 'own', members],
    ] as const) {
      t.equal(
        (await ask(`/llm/${model}/v1/messages`, name, sent)).status,
        200,
        `${sent} of ${model}`,
      )
      t.equal((await ask('/v1/messages', name, sent)).status, 200, `${sent} of ${model}`)
    }
  }
  for (const field of modelChoosingFields) {
    const members = `"extra_body":{"a":[],${values[field] ?? `"${field}":["expensive"]`}}`
    for (const path of ['/llm/named/v1/messages', '/v1/messages']) {
      const { status, text } = await ask(path, 'org/named', members)
      t.equal(status, 400, `${path} ${members}`)
      t.match(JSON.parse(text).error.message, 'extra_body')
    }
  }
  for (const members of ['"fallbacks":["x"]', values['tools[].model'] ?? '']) {
    t.equal((await ask('/llm/wide/v1/messages', 'wide', members)).status, 200, members)
    t.equal((await ask('/v1/messages', 'wide', members)).status, 200, members)
  }
  t.equal((await ask('/llm/named/v1/messages', 'named', '"Fall-Backs":["x"]')).status, 400)
  t.equal(
    (await ask('/llm/named/v1/messages', 'named', '"extra_body":{"x":{"model":1}}')).status,
    200,
  )
  for (const query of ['fallbacks=x', 'Models[]=x', 'deploymentId=x', 'candidate_count=9']) {
    const path = `/v1/messages?${query}`
    t.equal((await ask(`/llm/named${path}`, 'named', '"x":1')).status, 400, query)
    t.equal((await ask(path, 'named', '"x":1')).status, 400, query)
  }
})

test('ids of models may have escaped slashes', async (t, gateway) => {
  const { key } = await gateway.mint({ subscription: 'wide' })
  const headers = [`authorization: Bearer ${key}`]
  const ask = async (path: string, method = 'GET') =>
    (await sendRaw(gateway.port, toBytes({ method, path, headers }))).status
  for (const id of ['meta-llama%2Fname', 'meta-llama%2fname', 'a%2Fb%2Fc-1:x']) {
    const path = `/v1/models/${id}`
    t.equal(await ask(`/llm/other${path}?x=%2F`), 200, id)
    t.match(scripted.received.at(-1), { method: 'GET', path: `${path}?x=%2F` })
    // The service has no gateway to ask for lists here, and no model of this name.
    for (const prefix of ['', '/maas-api']) t.equal(await ask(`${prefix}${path}`), 404, id)
  }
  const before = scripted.received.length
  for (const id of [
    ...['%2Fa', 'a%2F', 'a%2F%2Fb', 'a%2F.%2Fb', 'a%2F..%2Fb', '..%2Fb', 'a%2F%2e%2e'],
    ...['a%252Fb', 'a%25', 'a%5Cb', 'a%5cb', 'a%2Fb%5C', 'a%2Fb%25'],
  ]) {
    for (const prefix of ['/llm/other', '', '/maas-api']) {
      t.equal(await ask(`${prefix}/v1/models/${id}`), 400, `${prefix} ${id}`)
    }
  }
  for (const path of [
    ...['/llm%2Fother/v1/models/a', '/llm/other/v1%2Fmodels/a', '/llm/other/v1/files/a%2Fb'],
    ...['/llm/other/v1/responses/a%2Fb', '/v1/api-keys/a%2Fb', '/maas-api%2Fv1/models/a'],
    ...['/llm/other/v1/models%2Fa', '/x/y/z/v1/models/a%2Fb', '/v1/model/a%2Fb/subscriptions'],
  ]) {
    t.equal(await ask(path), 400, path)
  }
  t.equal(await ask('/llm/other/v1/models/a%2Fb', 'POST'), 404)
  t.equal(scripted.received.length, before)
})

test('a key of ours in a query does not reach a model', async (t, gateway) => {
  const { key } = await gateway.mint({ subscription: 'wide' })
  const ask = (path: string) => gateway.ask(path, key, { method: 'POST', body })
  const before = scripted.received.length
  const escaped = key.replace('sk', '%73%6b').replace('_', '%5F')
  for (const query of [`key=${key}`, `a=1&api_key=${escaped}`, `x[y]=Bearer%20${key}`, key]) {
    for (const path of ['/llm/other/v1/chat/completions', '/v1/chat/completions']) {
      const { status, text } = await ask(`${path}?${query}`)
      t.equal(status, 400, query)
      t.match(JSON.parse(text).error.message, 'The query must not hold an API key')
      t.notOk(text.includes(key))
    }
    const listing = await gateway.ask(`/llm/other/v1/models?${query}`, key)
    t.equal(listing.status, 400, query)
  }
  t.equal(scripted.received.length, before)
  for (const query of ['key=sk-ant-api03-abc_def', 'key=sk-tg-a_b', 'key=x', 'sk-=1']) {
    t.equal((await ask(`/llm/other/v1/chat/completions?${query}`)).status, 200, query)
  }
})

test('says what the base URL should be, and what is not served', async (t, gateway) => {
  const { key } = await gateway.mint()
  for (const [path, message] of [
    ['/anthropic/v1/messages', /below \/anthropic: the base URL .* address of this gateway alone/],
    ['/openai/v1/chat/completions', /below \/openai and \/api: the base URL .* and \/v1/],
    ['/api/v1/chat/completions', /below \/openai and \/api: the base URL .* and \/v1/],
    ['/v1/responses/compact', /not served; send the input itself to POST \/v1\/responses/],
    ['/v1/responses/input_tokens', /not served; send the input itself to POST \/v1\/responses/],
    ['/llm/other/v1/responses/compact', /This operation is not served/],
    ['/llm/other/v1/responses/input_tokens', /This operation is not served/],
  ] as const) {
    const { status, text } = await gateway.ask(path, key, { method: 'POST', body })
    t.equal(status, 404, path)
    t.match(JSON.parse(text).error.message, message)
  }
  t.equal((await gateway.ask('/', undefined, { method: 'HEAD' })).status, 200)
})
