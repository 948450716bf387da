import http from 'node:http'
import net from 'node:net'
import { text as readText } from 'node:stream/consumers'
import { setTimeout as wait } from 'node:timers/promises'
import { gunzipSync } from 'node:zlib'
import OpenAI from 'openai'
import t, { type Test } from 'tap'
import { listenLocally } from './listening.ts'
import { createModelServer } from './model-server/server.ts'

interface Answer {
  readonly status: number
  readonly headers: http.IncomingHttpHeaders
  readonly bytes: Buffer
  readonly text: string
  /** The parsed JSON of a complete answer, for deep matching only. */
  readonly json: ReturnType<typeof JSON.parse>
  /** Parsed data of a stream's events. */
  readonly events: ReturnType<typeof JSON.parse>[]
}

interface Call {
  readonly body?: unknown
  readonly sim?: unknown
  readonly method?: string
  readonly headers?: http.OutgoingHttpHeaders
}

const hello = [{ role: 'user' as const, content: 'hello dear model' }]

async function startServer(t: Test, models?: readonly string[]) {
  const server = createModelServer(models === undefined ? {} : { models })
  const port = await listenLocally(t, server)
  const call = (path: string, { body, sim, method, headers }: Call = {}) => {
    const { promise, resolve, reject } = Promise.withResolvers<Answer>()
    const request = http.request({
      port,
      path,
      agent: false,
      method: method ?? (body === undefined ? 'GET' : 'POST'),
      headers: { ...headers, ...(sim === undefined ? {} : { 'x-sim': JSON.stringify(sim) }) },
    })
    request.once('error', reject)
    request.once('response', (response) => {
      const chunks: Buffer[] = []
      response.on('data', (chunk) => chunks.push(chunk))
      response.once('error', reject)
      response.once('end', () => resolve(toResult(response, Buffer.concat(chunks))))
    })
    const isText = typeof body === 'string' || body instanceof Buffer || body === undefined
    request.end(isText ? body : JSON.stringify(body))
    return promise
  }
  const tally = async () => (await call('/sim/requests')).json
  return { port, call, tally }
}

function toResult(response: http.IncomingMessage, raw: Buffer): Answer {
  const bytes = response.headers['content-encoding'] === 'gzip' ? gunzipSync(raw) : raw
  const text = bytes.toString()
  const type = String(response.headers['content-type'])
  const lines = text.split(/\r?\n/).filter((line) => line.startsWith('data: {'))
  return {
    status: response.statusCode ?? 0,
    headers: response.headers,
    bytes,
    text,
    json: type.startsWith('application/json') ? JSON.parse(text) : undefined,
    events: lines.map((line) => JSON.parse(line.slice('data: '.length))),
  }
}

/** Polls until the claim is true; fails after ten seconds. */
async function until(claim: () => Promise<boolean>): Promise<void> {
  for (let tries = 0; tries < 400; tries++) {
    if (await claim()) return
    await wait(25)
  }
  throw new Error('the claim did not become true')
}

/** The bytes of a response as sent, including chunk framing. */
async function callRaw(port: number, path: string, sim: unknown, body: unknown): Promise<string> {
  const socket = net.connect(port, '127.0.0.1')
  const text = JSON.stringify(body)
  socket.write(
    `POST ${path} HTTP/1.1\r\nhost: sim\r\nx-sim: ${JSON.stringify(sim)}\r\n` +
      `content-length: ${Buffer.byteLength(text)}\r\nconnection: close\r\n\r\n${text}`,
  )
  return await readText(socket)
}

t.test('the openai client accepts every answer', async (t) => {
  const { port, tally } = await startServer(t)
  const client = new OpenAI({
    apiKey: 'none',
    baseURL: `http://127.0.0.1:${port}/v1`,
    maxRetries: 0,
  })

  t.test('chat, whole and streamed', async (t) => {
    const whole = await client.chat.completions.create({ model: 'sim-small', messages: hello })
    t.equal(whole.choices[0]?.message.content?.split(' ').length, 16)
    t.match(whole, { model: 'sim-small', choices: [{ finish_reason: 'stop' }] })
    t.match(whole.usage, { prompt_tokens: 3, completion_tokens: 16, total_tokens: 19 })

    const stream = client.chat.completions.stream({
      model: 'sim-small',
      messages: hello,
      stream_options: { include_usage: true },
    })
    const final = await stream.finalChatCompletion()
    t.equal(final.choices[0]?.message.content, whole.choices[0]?.message.content)
    t.match(final.usage, { total_tokens: 19 })
  })

  t.test('completions, whole and streamed', async (t) => {
    const asked = { model: 'sim-small', prompt: 'two words', max_tokens: 3 }
    const whole = await client.completions.create(asked)
    t.match(whole, { object: 'text_completion', choices: [{ finish_reason: 'length' }] })
    t.match(whole.usage, { prompt_tokens: 2, completion_tokens: 3, total_tokens: 5 })
    let text = ''
    for await (const chunk of await client.completions.create({ ...asked, stream: true })) {
      text += chunk.choices[0]?.text
      t.notOk(chunk.usage)
    }
    t.equal(text, whole.choices[0]?.text)
  })

  t.test('responses, whole and streamed', async (t) => {
    const asked = { model: 'sim-large', input: 'two words', instructions: 'be brief' }
    const whole = await client.responses.create(asked)
    t.match(whole, { status: 'completed', model: 'sim-large' })
    t.match(whole.usage, { input_tokens: 4, output_tokens: 16, total_tokens: 20 })
    const final = await client.responses.stream(asked).finalResponse()
    t.equal(final.output_text, whole.output_text)
    t.match(final.usage, { input_tokens: 4, output_tokens: 16, total_tokens: 20 })
    const cut = await client.responses.create({ ...asked, max_output_tokens: 2 })
    t.match(cut, { status: 'incomplete', incomplete_details: { reason: 'max_output_tokens' } })
  })

  t.test('embeddings, as floats and base64', async (t) => {
    const asked = { model: 'sim-small', input: ['one', 'two words'], dimensions: 12 }
    const floats = await client.embeddings.create({ ...asked, encoding_format: 'float' })
    const decoded = await client.embeddings.create(asked)
    t.equal(floats.data[1]?.embedding.length, 12)
    t.strictSame(decoded.data, floats.data)
    t.match(floats.usage, { prompt_tokens: 3, total_tokens: 3 })
    t.notSame(floats.data[0]?.embedding, floats.data[1]?.embedding)
  })

  t.test('models, listed and retrieved', async (t) => {
    const { data } = await client.models.list()
    t.strictSame(
      data.map(({ id }) => id),
      ['sim-small', 'sim-large'],
    )
    t.match(await client.models.retrieve('sim-large'), { id: 'sim-large', object: 'model' })
    await t.rejects(client.models.retrieve('sim-huge'), { status: 404, code: 'model_not_found' })
  })

  t.test('error statuses raise its error classes', async (t) => {
    const ask = (status: number) =>
      client.chat.completions.create(
        { model: 'sim-small', messages: hello },
        { headers: { 'x-sim': JSON.stringify({ status }) } },
      )
    const raised = (status: number) => ask(status).then(null, (error: unknown) => error)
    t.ok((await raised(401)) instanceof OpenAI.AuthenticationError)
    t.ok((await raised(403)) instanceof OpenAI.PermissionDeniedError)
    t.ok((await raised(429)) instanceof OpenAI.RateLimitError)
    t.ok((await raised(500)) instanceof OpenAI.InternalServerError)
  })

  t.test('all requests are in the tally', async (t) => {
    t.match(await tally(), {
      requests: { '/v1/chat/completions': 6, '/v1/responses': 3, '/v1/models': 1 },
      abandoned: 0,
    })
  })
})

t.test('anthropic messages, whole and streamed', async (t) => {
  const { call, tally } = await startServer(t)
  const body = { model: 'sim-small', max_tokens: 4, system: 'be brief', messages: hello }
  const whole = await call('/v1/messages', { body })
  t.match(whole.json, {
    type: 'message',
    role: 'assistant',
    content: [{ type: 'text', text: 'a small river carries' }],
    stop_reason: 'max_tokens',
    usage: { input_tokens: 5, output_tokens: 4 },
  })
  const streamed = await call('/v1/messages', { body: { ...body, stream: true } })
  const types = streamed.events.map(({ type }) => type)
  t.strictSame(
    [...new Set(types)],
    [
      'message_start',
      'content_block_start',
      'ping',
      'content_block_delta',
      'content_block_stop',
      'message_delta',
      'message_stop',
    ],
  )
  t.match(streamed.events[0].message.usage, { input_tokens: 5, output_tokens: 0 })
  t.match(streamed.events.at(-2).usage, { input_tokens: 5, output_tokens: 4 })
  t.match(streamed.text, /^event: message_start\ndata: \{/)
  t.match(await tally(), { completionTokens: 8, totalTokens: 18 })
})

t.test('streams contain usage only on request', async (t) => {
  const { call } = await startServer(t)
  const chat = (extra: object, sim: object = {}) =>
    call('/v1/chat/completions', { body: { messages: hello, stream: true, ...extra }, sim })
  const plain = await chat({})
  t.notMatch(plain.text, /usage/)
  t.ok(plain.text.endsWith('data: [DONE]\n\n'))
  t.match(plain.headers['content-type'], /^text\/event-stream/)

  const asked = await chat({ stream_options: { include_usage: true } }, { words: 2 })
  t.equal(asked.events.length, 5)
  t.match(asked.events[0], { choices: [{ delta: { role: 'assistant' } }], usage: null })
  t.match(asked.events[3], { choices: [{ finish_reason: 'stop' }], usage: null })
  t.match(asked.events[4], { choices: { length: 0 }, usage: { total_tokens: 5 } })

  const options = { include_usage: true, continuous_usage_stats: true }
  const every = await chat({ stream_options: options }, { words: 2 })
  t.strictSame(
    every.events.map(({ usage }) => usage.total_tokens),
    [3, 4, 5, 5, 5],
  )
  const forced = await chat({}, { usageEveryChunk: true, words: 2 })
  t.strictSame(
    forced.events.map(({ usage }) => usage.completion_tokens),
    [0, 1, 2, 2],
  )
})

t.test('body and header accept the same requests, the header takes precedence', async (t) => {
  const { call } = await startServer(t)
  const ask = (sim: unknown, header?: unknown) =>
    call('/v1/chat/completions', { body: { messages: hello, sim }, sim: header })
  t.match((await ask({ words: 2 })).json.usage, { completion_tokens: 2 })
  t.match((await ask({ words: 2, totalTokens: 40 }, { words: 5 })).json.usage, {
    prompt_tokens: 35,
    completion_tokens: 5,
    total_tokens: 40,
  })
  t.match((await ask({ totalTokens: 3 })).json.usage, { prompt_tokens: 0, completion_tokens: 3 })
  t.match((await ask({ usage: 'none' })).json, { usage: undefined })
  t.match((await ask({ usage: 'null' })).json, { usage: null })
  t.match((await ask({ usage: 'text' })).json.usage, { total_tokens: '19' })
  t.strictSame((await ask({ usage: { total_tokens: -1 } })).json.usage, { total_tokens: -1 })
  t.match((await ask({ usageRaw: '{"total_tokens":4e1}' })).text, /"usage":\{"total_tokens":4e1\}/)
  for (const wrong of [{ wrods: 2 }, { words: -1 }, { status: 200 }, 3, { splitBytes: 0 }]) {
    t.match(await ask(wrong), { status: 400, json: { error: { code: 'invalid_sim' } } })
    t.match(await ask(undefined, wrong), { status: 400, json: { error: { code: 'invalid_sim' } } })
  }
  t.equal((await call('/v1/models', { headers: { 'x-sim': '{' } })).status, 400)
})

t.test('answers are padded to the requested number of bytes', async (t) => {
  const { call } = await startServer(t)
  const body = { messages: hello, sim: { answerBytes: 1_000_001 } }
  const whole = await call('/v1/chat/completions', { body })
  t.equal(whole.json.choices[0].message.content.length, 1_000_001)
  t.equal(whole.json.usage.completion_tokens, 16)
  const { events } = await call('/v1/chat/completions', { body: { ...body, stream: true } })
  const text = events.map(({ choices }) => choices[0].delta.content ?? '').join('')
  t.equal(text, whole.json.choices[0].message.content)
})

t.test('answers are split as requested', async (t) => {
  const { port } = await startServer(t)
  const sizes = (raw: string) =>
    [...raw.matchAll(/(?:^|\r\n)([0-9a-f]+)\r\n(?!\r\n)/g)].map(([, hex]) => Number(`0x${hex}`))
  const body = { messages: hello, stream: true, stream_options: { include_usage: true } }
  const path = '/v1/chat/completions'

  const single = await callRaw(port, path, { words: 1, splitBytes: 1 }, body)
  t.ok(sizes(single).length > 400)
  t.ok(sizes(single).every((size) => size <= 1))

  const usageOnly = await callRaw(port, path, { words: 1, splitUsageBytes: true }, body)
  const large = sizes(usageOnly).filter((size) => size > 1)
  t.equal(large.length, 4, 'opening, word, closing and [DONE] are complete')
  t.ok(sizes(usageOnly).length > 200)

  const json = await callRaw(port, path, { words: 1, splitBytes: 7 }, { messages: hello })
  t.ok(sizes(json).every((size) => size <= 7))

  const crlf = await callRaw(port, path, { words: 1, crlf: true }, body)
  t.notMatch(crlf, /[^\r]\n/)
  t.match(crlf, /data: \[DONE\]\r\n\r\n/)
})

t.test('compression is as requested', async (t) => {
  const { call } = await startServer(t)
  const ask = (sim: object, encoding: string, stream: boolean) =>
    call('/v1/chat/completions', {
      body: { messages: hello, stream },
      sim,
      headers: { 'accept-encoding': encoding },
    })
  for (const stream of [true, false]) {
    const plain = await ask({}, 'gzip', stream)
    t.equal(plain.headers['content-encoding'], undefined)
    const zipped = await ask({ compress: 'auto' }, 'br, gzip', stream)
    t.equal(zipped.headers['content-encoding'], 'gzip')
    t.equal(zipped.text.length, plain.text.length)
    const unasked = await ask({ compress: 'auto' }, 'br, gzip;q=0', stream)
    t.equal(unasked.headers['content-encoding'], undefined)
    const always = await ask({ compress: 'gzip', splitBytes: 1, answerBytes: 5000 }, '', stream)
    t.equal(always.headers['content-encoding'], 'gzip')
    t.match(always.text, /\.{200}/)
  }
})

t.test('broken answers are as requested', async (t) => {
  const { port, call, tally } = await startServer(t)
  const body = { messages: hello }
  const path = '/v1/chat/completions'
  t.match(await call(path, { body, sim: { status: 503 } }), {
    status: 503,
    json: { error: { type: 'server_error', message: String }, usage: undefined },
  })
  t.match(await call(path, { body, sim: { status: 500, usage: { total_tokens: 7 } } }), {
    status: 500,
    json: { usage: { total_tokens: 7 } },
  })
  t.match(await call(path, { body, sim: { contentType: 'text/plain' } }), {
    headers: { 'content-type': 'text/plain' },
  })
  const cut = { code: 'ECONNRESET' }
  await t.rejects(call(path, { body, sim: { dropAfterChunks: 0 } }), cut)
  await t.rejects(call(path, { body: { ...body, stream: true }, sim: { dropAfterChunks: 3 } }), cut)
  const raw = await callRaw(port, path, { dropAfterChunks: 3 }, { ...body, stream: true })
  t.equal(raw.match(/data: /g)?.length, 3)
  t.match(await tally(), { abandoned: 0 })
})

t.test('the echo shows the request as it arrived', async (t) => {
  const { call } = await startServer(t)
  const body = '{ "messages":[], "a":1, "a":2, "big":12345678901234567890 }'
  const sim = { echo: true, words: 1 }
  const whole = await call('/V1/chat/completions/?x=1', { body, sim, headers: { 'x-own': 'yes' } })
  t.match(whole.json.sim_echo, {
    method: 'POST',
    path: '/V1/chat/completions/?x=1',
    headers: { 'x-own': 'yes' },
    body,
  })
  const streamed = await call('/v1/responses', { body: { input: '', stream: true }, sim })
  t.match(streamed.events[0].sim_echo.body, '"stream":true')
  t.equal(streamed.events.filter((event) => 'sim_echo' in event).length, 1)
  t.match((await call('/v1/models', { sim })).json.sim_echo, { method: 'GET', body: '' })
})

t.test('accepts what lenient servers accept', async (t) => {
  const { call } = await startServer(t)
  const path = '/v1/chat/completions'
  const streams = async (body: string | Buffer, call_: Call = {}, at = path) => {
    const { status, text } = await call(at, { body, ...call_ })
    return status === 200 && text.endsWith('[DONE]\n\n')
  }
  const m = '"messages":[]'
  const bodies = {
    'duplicate keys': `{"stream":false,${m},"stream":true}`,
    'NaN and infinities': `{${m},"x":[NaN,-Infinity,Infinity],"y":"\\"NaN","stream":true}`,
    'numbers too large': `{${m},"x":1e999,"stream":true}`,
    'lone surrogates': `{${m},"x":"\\ud800","stream":true}`,
    'deep nesting': `{${m},"x":${'['.repeat(100_000)}${']'.repeat(100_000)},"stream":true}`,
    'deep messages': `{"messages":${'['.repeat(100_000)}${']'.repeat(100_000)},"stream":true}`,
    'stream as text': `{${m},"stream":"True"}`,
    'stream as number': `{${m},"stream":1}`,
    'a byte order mark': `\ufeff{${m},"stream":true}`,
    'control characters in names': `{${m},"model":"a\\nb","stream":true}`,
  }
  for (const [name, body] of Object.entries(bodies)) t.ok(await streams(body), name)
  const plain = `{${m},"stream":true}`
  t.ok(await streams(Buffer.from(plain, 'utf16le')), 'UTF-16')
  t.ok(await streams(plain, { headers: { 'content-type': 'text/plain' } }), 'any content type')
  const paths = ['/v1/chat/completions/', '//v1//chat/completions', '/V1/Chat/COMPLETIONS']
  paths.push('/v1%2fchat/completions', '/v1/chat;a=b/completions', '/v1/x/../chat/completions')
  paths.push('/v1/chat/completions?stream=false', '/v1/chat/%63ompletions')
  for (const at of paths) t.ok(await streams(plain, {}, at), at)
  const folded = { sim: { foldKeys: true } }
  t.ok(await streams(`{${m},"stream":false,"STREAM":true}`, folded), 'keys in any case')
  t.ok(await streams(`{${m},"\u017ftream":true}`, folded), 'the long s')
  t.notOk(await streams(`{${m},"STREAM":true}`), 'only on request')
})

t.test('refuses what every server refuses', async (t) => {
  const { call } = await startServer(t)
  const path = '/v1/chat/completions'
  const bodies = ['{', '', '[]', 'null', '{"messages":', '{}', '{"messages":[],"stream":"maybe"}']
  for (const body of [...bodies, '{"messages":[],"stream_options":{"include_usage":true}}']) {
    t.match(await call(path, { body }), {
      status: 400,
      json: { error: { type: 'invalid_request_error', message: String } },
    })
  }
  t.match(await call('/v1/nothing', { body: '{}' }), {
    status: 404,
    json: { error: { code: 'not_found' } },
  })
  t.equal((await call(path)).status, 405)
  t.equal((await call('/__proto__')).status, 404)
  const headers = { 'content-length': 65 * 1024 * 1024, expect: '100-continue' }
  t.equal((await call(path, { body: '{', headers })).status, 413)
})

t.test('large bodies are read completely', async (t) => {
  const { call } = await startServer(t)
  const content = 'word '.repeat(1_000_000)
  const { json } = await call('/v1/chat/completions', { body: { messages: [{ content }] } })
  t.equal(json.usage.prompt_tokens, 1_000_000)
})

t.test('a client that disconnects stops the work', async (t) => {
  const { port, tally } = await startServer(t)
  const asks = [
    { hang: true },
    { hangAfterChunks: 1 },
    { delayMs: 60_000 },
    { chunkDelayMs: 60_000 },
    { words: 900_000 },
  ]
  for (const [index, sim] of asks.entries()) {
    const socket = net.connect(port, '127.0.0.1')
    const body = JSON.stringify({ messages: [], stream: true, sim })
    socket.pause()
    socket.write(
      `POST /v1/chat/completions HTTP/1.1\r\nhost: sim\r\n` +
        `content-length: ${body.length}\r\n\r\n${body}`,
    )
    await until(async () => (await tally()).open === 1)
    socket.destroy()
    await until(async () => (await tally()).open === 0)
    t.match(await tally(), { abandoned: index + 1, completionTokens: 0 })
  }
})

t.test('the tally has what was produced, reported or not', async (t) => {
  const { call, tally } = await startServer(t)
  const ask = (label: string, path: string, body: object, sim: object) =>
    call(path, {
      ...{ body: { messages: hello, input: 'hello', ...body }, headers: { 'x-sim-label': label } },
      sim: { words: 10, promptTokens: 5, ...sim },
    })
  const cut = { dropAfterChunks: 7 }
  await ask('whole', '/v1/chat/completions', {}, { usage: 'none' })
  await ask('stream', '/v1/messages', { stream: true }, {})
  // Events without text come first: one, three and four.
  for (const path of ['/v1/chat/completions', '/v1/messages', '/v1/responses']) {
    await ask(path, path, { stream: true }, cut).catch(() => {})
  }
  await until(async () => (await tally()).open === 0)
  t.match(await tally(), {
    labels: { stream: 15 },
    produced: {
      ...{ whole: 15, stream: 15 },
      '/v1/chat/completions': 11,
      '/v1/messages': 9,
      '/v1/responses': 8,
    },
  })
})

t.test('the tally has the usage that was reported', async (t) => {
  const { call, tally } = await startServer(t)
  const body = { messages: hello }
  const path = '/v1/chat/completions'
  const stream = { ...body, stream: true }
  const include = { ...stream, stream_options: { include_usage: true } }
  await call(path, { body, sim: { totalTokens: 40 } })
  await call(path, { body: include, sim: { totalTokens: 40, usageEveryChunk: true } })
  await call(path, { body: stream, sim: { totalTokens: 40 } })
  await call(path, { body, sim: { usage: { total_tokens: 'many' } } })
  await call('/v1/nothing')
  await until(async () => (await tally()).open === 0)
  t.strictSame(await tally(), {
    requests: { [path]: 4, '/v1/nothing': 1 },
    open: 0,
    abandoned: 0,
    completionTokens: 32,
    totalTokens: 80,
  })
  await call('/sim/requests', { method: 'DELETE' })
  t.match(await tally(), { requests: {}, completionTokens: 0, totalTokens: 0 })
  t.strictSame((await tally()).requests, {})
})
