import type { Test } from 'tap'
import { chatPath, gatewayTests } from '../support/gateway.ts'
import { type RawAnswer, sendRaw, toBytes } from '../support/raw-http.ts'

const test = gatewayTests()

/** Checks for a JSON error with this status and code. */
function isRefusal(t: Test, answer: RawAnswer, status: number, code: string, title: string): void {
  t.equal(answer.status, status, title)
  t.match(answer.head, /content-type: application\/json/i)
  t.match(JSON.parse(answer.body), { error: { code, type: String, message: /./ } })
}

test("the gateway's own errors have one format", async (t, gateway) => {
  const { key } = await gateway.mint()
  const headers = [`authorization: Bearer ${key}`]
  const many = Array.from({ length: 101 }, (_, i) => `x-${i}: y`)
  for (const [title, bytes, status, code] of [
    ['an unknown path', toBytes({ path: '/nothing' }), 404, 'not_found'],
    ['a path with %2f', toBytes({ path: '/llm%2fsim' }), 400, 'bad_request'],
    ['a tunnel', 'CONNECT g:443 HTTP/1.1\r\nhost: g:443\r\n\r\n', 404, 'not_found'],
    ['no path', toBytes({ method: 'OPTIONS', path: '*' }), 404, 'not_found'],
    ['https in the clear', toBytes({ path: `https://g${chatPath}` }), 400, 'bad_request'],
    ['not HTTP', 'hello\r\n\r\n', 400, 'bad_request'],
    ['no host', `GET ${chatPath} HTTP/1.1\r\n\r\n`, 400, 'bad_request'],
    [
      'two content lengths',
      toBytes({ path: '/', headers: ['content-length: 1', 'content-length: 2'] }),
      400,
      'bad_request',
    ],
    [
      'a length and chunks',
      toBytes({ path: chatPath, headers: ['content-length: 3', 'transfer-encoding: chunked'] }),
      400,
      'bad_request',
    ],
    ['a NUL in a header', toBytes({ path: '/', headers: ['x: a\0b'] }), 400, 'bad_request'],
    [
      'a huge header',
      toBytes({ path: '/', headers: [`x: ${'y'.repeat(70_000)}`] }),
      431,
      'headers_too_large',
    ],
    ['many headers', toBytes({ path: '/', headers: many }), 431, 'headers_too_large'],
    [
      'a websocket',
      toBytes({
        method: 'GET',
        path: chatPath,
        headers: ['connection: upgrade', 'upgrade: websocket'],
      }),
      426,
      'not_served',
    ],
    ['no body', toBytes({ path: chatPath, headers }), 400, 'invalid_body'],
    ['no JSON', toBytes({ path: chatPath, headers, body: 'x' }), 400, 'invalid_body'],
    [
      'no JSON, shared',
      toBytes({ path: '/v1/responses', headers, body: 'x' }),
      400,
      'invalid_body',
    ],
  ] as const) {
    isRefusal(t, await sendRaw(gateway.port, bytes), status, code, title)
  }
})

test('a nearly right path says what is right', async (t, gateway) => {
  for (const [path, message] of [
    ['/chat/completions', /^\/v1 is missing .*must end in \/v1\.$/],
    ['/messages', /^\/v1 is missing/],
    ['/rerank', /^\/v1 is missing/],
    ['/models?limit=5', /^\/v1 is missing/],
    ['/llm/sim/chat/completions', /^\/v1 is missing/],
    [
      '/models-here/v1/chat/completions',
      /^Before \/v1 there may be \/<namespace>\/<model>, or nothing/,
    ],
    ['/v2/v1/messages', /^Before \/v1 there may be .* of an Anthropic client the address alone\.$/],
    ['/v1/v1/chat/completions', /^\/v1 is there twice: .*must not end in \/v1\.$/],
    ['/v1/v1/messages', /^\/v1 is there twice/],
    ['/v1/messages/v1/messages', /^The base URL of this client must not name an operation: /],
    ['/v1/messages/v1/messages/count_tokens', /^The base URL of this client must not name/],
    ['/v1/chat/completions/chat/completions', /^The base URL of this client must not name/],
    ['/v1/chat/completions/models', /^The base URL of this client must not name/],
    ['/v1/responses/responses', /^The base URL of this client must not name/],
    ['/v1/embeddings/embeddings', /^The base URL of this client must not name/],
    ['/v1/fim/completions', /^Nothing is served at this path\.$/],
    ['/v2x/sim/chat/completions', /^\/v1 is missing/],
    ['/v1/messages/batches/b/results', /^Batches of messages are not served/],
    ['/v2/rerank', /^Write this path as \/v1\/rerank\.$/],
    ['/v1beta/models/sim:generateContent', /^Gemini's API is not served/],
    ['/upload/v1beta/files', /^Gemini's API is not served/],
    ['/v1/interactions', /^Gemini's API is not served/],
    ['/models/sim:generateContent', /^Gemini's API is not served/],
    ['/api/chat', /^Ollama's API is not served/],
    ['/api/tags', /^Ollama's API is not served/],
    ['/openai/deployments/sim/chat/completions', /^Azure's paths are not served/],
    ['/mcp', /^MCP servers are not served here/],
    ['/v1/mcp/x', /^MCP servers are not served here/],
    ['/v1/assistants', /^This part of OpenAI's API is not served/],
    ['/v1/threads/t/runs', /^This part of OpenAI's API is not served/],
    ['/v1/chat/completion', /; the paths are \/v1\/chat\/completions, /],
    ['/v1/embedding/', /; the paths are /],
    ['/v1/api_keys', /; API keys are at \/v1\/api-keys\.$/],
    ['/v1/keys/search', /; API keys are at/],
    ['/', /\/console is a page for people, \/docs describes the API/],
    ['/v1/nothing', /^Nothing is served at this path\.$/],
    ['/api/v1', /^Nothing is served at this path\.$/],
    ['/internal/v1/resources', /^Nothing is served at this path\.$/],
    ['/maas-api/chat/completions', /^Nothing is served at this path\.$/],
  ] as const) {
    for (const method of ['GET', 'POST']) {
      const answer = await sendRaw(gateway.port, toBytes({ method, path }))
      t.equal(answer.status, 404, path)
      t.match(answer.head, /^x-should-retry: false\r?$/im, path)
      const { type, error } = JSON.parse(answer.body)
      t.match(error.message, message, path)
      const code = /\/v1\/messages/.test(path) ? { type: 'error' } : { code: 'not_found' }
      t.match({ type, code: error.code }, code)
      t.equal(error.type, 'not_found_error')
    }
  }
})

test("a method of Gemini's API is refused below /v1, too", async (t, gateway) => {
  for (const method of ['generateContent', 'streamGenerateContent?alt=sse', 'embedContent']) {
    const path = `/v1/models/sim:${method}`
    const answer = await sendRaw(gateway.port, toBytes({ method: 'POST', path, body: '{}' }))
    isRefusal(t, answer, 404, 'not_found', path)
    t.match(JSON.parse(answer.body).error.message, /^Gemini's API is not served/)
    t.equal((await sendRaw(gateway.port, toBytes({ method: 'GET', path }))).status, 401)
  }
})

test("Anthropic's libraries find the id of a request where they look", async (t, gateway) => {
  const { key } = await gateway.mint()
  const text = JSON.stringify({ model: 'sim', max_tokens: 1, messages: [] })
  for (const [title, path, sent, body, status] of [
    ['a response of a model', '/v1/messages', key, text, 200],
    ['an unknown key', '/v1/messages', 'sk-tg-x_y', text, 401],
    ['an unknown model', '/v1/messages', key, text.replace('sim', 'none'), 404],
    ['no JSON', '/llm/sim/v1/messages', key, 'x', 400],
    ['an unknown path', '/v1/messages/batches', key, text, 404],
    ['an unknown model, by path', '/llm/none/v1/messages', key, text, 404],
  ] as const) {
    const answer = await gateway.ask(path, sent, { method: 'POST', body })
    t.equal(answer.status, status, title)
    t.match(answer.headers.get('request-id'), /^[0-9a-f-]{36}$/, title)
    t.equal(answer.headers.get('request-id'), answer.headers.get('x-request-id'), title)
  }
})

test('a stored response needs the model in the path', async (t, gateway) => {
  const { key } = await gateway.mint()
  const headers = [`authorization: Bearer ${key}`]
  for (const [method, rest] of [
    ['GET', ''],
    ['DELETE', ''],
    ['GET', '/input_items'],
    ['POST', '/cancel'],
  ] as const) {
    const path = `/v1/responses/resp_1${rest}`
    const shared = await sendRaw(gateway.port, toBytes({ method, path, headers }))
    isRefusal(t, shared, 400, 'model_path_needed', path)
    t.match(shared.body, `/<namespace>/<model>${path}`)
    const inPath = toBytes({ method, path: `/llm/sim${path}`, headers })
    t.notMatch((await sendRaw(gateway.port, inPath)).body, /model_path_needed|This operation/)
    const nobody = await sendRaw(gateway.port, toBytes({ method, path }))
    isRefusal(t, nobody, 401, 'credential_invalid', path)
  }
  for (const path of ['/v1/chat/completions', '/v1/embeddings', '/v1/messages/count_tokens']) {
    const { status, body } = await sendRaw(gateway.port, toBytes({ method: 'GET', path, headers }))
    t.equal(status, 400, path)
    t.match(body, `Name the model in the path: /<namespace>/<model>${path}. GET has no body`)
  }
  const other = toBytes({ method: 'GET', path: '/v1/responses/a/b/c', headers })
  isRefusal(t, await sendRaw(gateway.port, other), 404, 'not_found', 'no operation')
})

test('an upgrade to websocket is 426 before its caller is known', async (t, gateway) => {
  const headers = ['connection: upgrade', 'upgrade: websocket', 'sec-websocket-version: 13']
  for (const path of [chatPath, '/v1/responses', '/v1/messages', '/v1/models', '/nothing']) {
    const answer = await sendRaw(gateway.port, toBytes({ method: 'GET', path, headers }))
    t.equal(answer.status, 426, path)
    const anthropic = path === '/v1/messages'
    t.match(JSON.parse(answer.body), {
      ...(anthropic && { type: 'error' }),
      error: {
        type: 'invalid_request_error',
        message: /^Upgrades such as WebSocket are not served/,
        ...(!anthropic && { code: 'not_served' }),
      },
    })
  }
})

test('an offer of h2c is ignored', async (t, gateway) => {
  const { key } = await gateway.mint()
  const headers = [
    ...['connection: Upgrade, HTTP2-Settings', 'upgrade: h2c', 'http2-settings: AAMAAABkAAQAAP__'],
    `authorization: Bearer ${key}`,
  ]
  const body = '{"model":"sim","messages":[]}'
  const answer = await sendRaw(gateway.port, toBytes({ path: chatPath, headers, body }))
  t.equal(answer.status, 200, 'as the HttpClient of Java sends it')
})

test('serves HTTP/1.0 clients', async (t, gateway) => {
  const { key } = await gateway.mint()
  const body = '{"model":"sim","messages":[],"stream":true}'
  for (const path of [chatPath, '/v1/chat/completions']) {
    for (const host of ['host: x\r\n', '']) {
      const head = `POST ${path} HTTP/1.0\r\n${host}authorization: Bearer ${key}\r\n`
      const request = `${head}content-length: ${body.length}\r\n\r\n${body}`
      const answer = await sendRaw(gateway.port, request)
      t.match(answer.head, /^HTTP\/1\.[01] 200 /, path)
      t.match(answer.body, /data: \[DONE\]\n\n$/)
      t.notMatch(answer.head, /transfer-encoding/i)
    }
  }
})

test('a body of 34 MiB is 413', async (t, gateway) => {
  const body = `{"model":"sim","messages":[],"x":"${'x'.repeat(34 * 1_048_576)}"}`
  for (const path of [chatPath, '/v1/chat/completions', '/v1/embeddings']) {
    const { key } = await gateway.mint() // A new key makes Check take longest.
    const headers = [`authorization: Bearer ${key}`]
    const answer = await sendRaw(gateway.port, toBytes({ path, headers, body }))
    isRefusal(t, answer, 413, 'body_too_large', path)
  }
})

test('does not wait for the body of an unknown client', async (t, gateway) => {
  const length = 'content-length: 1000000000'
  const bad = 'authorization: Bearer sk-tg-0123456789abcdef_0123456789'
  for (const [path, headers, status] of [
    ['/v1/chat/completions', [length], 401],
    ['/v1/messages', [length], 401],
    [chatPath, [length], 401],
    [chatPath, [length, bad], 401],
    ['/llm/sim/v1/files', [length, bad], 401],
    ['/nothing', [length, bad], 404],
  ] as const) {
    // The body never arrives.
    const answer = await sendRaw(gateway.port, toBytes({ path, headers }))
    t.equal(answer.status, status, path)
  }
})

test('reads credentials in the same way on both routes', async (t, gateway) => {
  const { key } = await gateway.mint()
  const body = '{"model":"sim","messages":[]}'
  for (const [credential, status] of [
    [`bearer ${key}`, 200],
    [`BEARER   ${key} `, 200],
    [key, 401],
    [`Basic ${key}`, 401],
    [`Token ${key}`, 401],
    [`Bearer`, 401],
    [`Bearer ${key} ${key}`, 401],
    [`Bearer ${key},Bearer ${key}`, 200],
    [`Bearer ${key},Bearer ${key}x`, 401],
    [`Bearer ${key.slice(0, -1)}`, 401],
    [`Bearer ${key}x`, 401],
    [`Bearer ${key.toUpperCase()}`, 401],
  ] as const) {
    for (const path of [chatPath, '/v1/chat/completions']) {
      const headers = [`authorization: ${credential}`]
      const answer = await sendRaw(gateway.port, toBytes({ path, headers, body }))
      t.equal(answer.status, status, `${credential.replaceAll(key, '<key>')} at ${path}`)
      if (status === 401) t.match(answer.head, /www-authenticate: bearer/i)
    }
  }
  const twice = [`authorization: Bearer ${key}`, `authorization: Bearer ${key}x`]
  const answer = await sendRaw(gateway.port, toBytes({ path: chatPath, headers: twice, body }))
  t.equal(answer.status, 401, 'two credentials are invalid')
})
