import { once } from 'node:events'
import http from 'node:http'
import http2 from 'node:http2'
import { gunzipSync } from 'node:zlib'
import { counts, scales } from '../support/counted.ts'
import { chatPath, type Gateway, gatewayTests, meter, models } from '../support/gateway.ts'

const test = gatewayTests({
  resources: (backendUrl) => [...models(backendUrl), ...scales(0, 17, 40), meter],
})

const messages = [{ role: 'user', content: 'Hi' }]
const withUsage = { stream: true, stream_options: { include_usage: true } }

/** The total tokens of the usage blocks in a stream, in order. */
function usagesIn(stream: string): readonly number[] {
  return [...stream.matchAll(/"total_tokens":(\d+)/g)].map(([, digits]) => Number(digits))
}

test('counts a complete response', async (t, gateway) => {
  await counts(t, gateway, 17, async (key) => {
    const { status, text } = await gateway.chat(key)
    t.equal(status, 200)
    t.equal(
      JSON.parse(text).usage.total_tokens,
      17,
      'one token in the prompt, sixteen in the answer',
    )
  })
})

for (const [title, sim, fields] of [
  ['counts a stream', {}, { stream: true }],
  ['counts a stream with requested usage', {}, withUsage],
  [
    'counts usage that the client declined',
    {},
    { stream: true, stream_options: { include_usage: false } },
  ],
  ['counts cumulative usage once', { usageEveryChunk: true }, { stream: true }],
  ['counts usage that arrives byte by byte', { splitUsageBytes: true }, { stream: true }],
  ['counts a stream that arrives byte by byte', { splitBytes: 1, words: 39 }, { stream: true }],
  ['counts a stream with CRLF', { crlf: true }, { stream: true }],
  [
    'counts usage with CRLF that arrives byte by byte',
    { crlf: true, splitUsageBytes: 1 },
    { stream: true },
  ],
  ['counts a slow stream', { chunkDelayMs: 20 }, { stream: true }],
  ['counts a megabyte in events', { answerBytes: 1_048_576 }, { stream: true }],
  ['counts a megabyte in one response', { answerBytes: 1_048_576 }, {}],
  ['counts a response that arrives byte by byte', { splitBytes: 1 }, {}],
  ['ignores a charset in the content type', { contentType: 'application/json; charset=utf-8' }, {}],
  ['counts an empty stream', { words: 0, totalTokens: 40 }, { stream: true }],
] as const) {
  test(title, async (t, gateway) => {
    const tokens = 'totalTokens' in sim || 'words' in sim ? 40 : 17
    await counts(t, gateway, tokens, async (key) => {
      const { status, text } = await gateway.chat(key, sim, fields)
      t.equal(status, 200)
      const unasked = 'stream' in fields && fields !== withUsage && !('usageEveryChunk' in sim)
      t.equal(
        usagesIn(text).at(-1),
        unasked ? undefined : tokens,
        'the client gets usage only if it asked for it',
      )
      if ('stream' in fields) t.match(text, /data: \[DONE\]\r?\n\r?\n$/)
    })
  })
}

test('counts on shared routes', async (t, gateway) => {
  for (const fields of [{}, { stream: true }, withUsage]) {
    await counts(t, gateway, 17, (key) => gateway.chat(key, {}, fields, '/v1/chat/completions'))
  }
})

test('counts a response for a client that accepts gzip', async (t, gateway) => {
  for (const fields of [{}, { stream: true }]) {
    await counts(t, gateway, 17, async (key) => {
      const body = JSON.stringify({ messages, sim: { compress: 'auto' }, ...fields })
      const headers = { 'accept-encoding': 'gzip, br;q=0.9, *' }
      const answer = await send(gateway, key, body, headers)
      t.equal(answer.headers['content-encoding'], undefined)
      t.strictSame(usagesIn(answer.body.toString()), 'stream' in fields ? [] : [17])
    })
  }
})

test('does not count a gzip response that the client did not ask for', async (t, gateway) => {
  // An unreadable response is not estimated; the service warns about the model.
  await counts(t, gateway, 0, async (key) => {
    const body = JSON.stringify({ messages, sim: { compress: 'gzip' } })
    const answer = await send(gateway, key, body)
    t.equal(usagesIn(gunzipSync(answer.body).toString())[0], 17)
  })
})

test('counts a request of five megabytes', async (t, gateway) => {
  const content = 'x'.repeat(5 * 1_048_576)
  for (const path of [chatPath, '/v1/chat/completions']) {
    for (const fields of [{}, { stream: true }]) {
      await counts(t, gateway, 17, async (key) => {
        const long = { messages: [{ role: 'user', content }], ...fields }
        t.equal((await gateway.chat(key, {}, long, path)).status, 200)
      })
    }
  }
})

test('counts 20 megabytes in each direction', async (t, gateway) => {
  await counts(t, gateway, 17, async (key) => {
    const long = { messages: [{ role: 'user', content: 'x'.repeat(20_000_000) }] }
    t.equal((await gateway.chat(key, { answerBytes: 20_000_000 }, long)).status, 200)
  })
})

test('counts a chunked request', async (t, gateway) => {
  await counts(t, gateway, 17, async (key) => {
    const body = JSON.stringify({ messages, ...withUsage })
    const pieces = [body.slice(0, 5), body.slice(5, 6), body.slice(6)]
    const answer = await send(gateway, key, pieces)
    t.equal(answer.status, 200)
    t.strictSame(usagesIn(answer.body.toString()), [17])
  })
})

test('counts an HTTP/2 request', async (t, gateway) => {
  const session = http2.connect(gateway.url)
  t.teardown(() => session.close())
  for (const fields of [{}, withUsage]) {
    await counts(t, gateway, 17, async (key) => {
      const stream = session.request({
        ':method': 'POST',
        ':path': chatPath,
        authorization: `Bearer ${key}`,
        'content-type': 'application/json',
      })
      stream.end(JSON.stringify({ messages, ...fields }))
      const [headers] = await once(stream, 'response')
      t.equal(headers[':status'], 200)
      t.strictSame(usagesIn((await stream.toArray()).join('')), [17])
    })
  }
})

test('counts only chat completions by default', async (t, gateway) => {
  const body = JSON.stringify({ model: 'sim', input: 'x', prompt: 'x', max_tokens: 1, messages })
  for (const operation of ['completions', 'embeddings', 'messages', 'responses']) {
    for (const path of [`/llm/sim/v1/${operation}`, `/v1/${operation}`]) {
      await counts(t, gateway, 0, async (key) => {
        const answer = await gateway.ask(path, key, { method: 'POST', body })
        t.equal(answer.status, 200, path)
        t.match(answer.text, '"usage":{')
      })
    }
  }
})

/** A chat call by node:http, which leaves headers and encoding unchanged. */
async function send(
  gateway: Gateway,
  key: string,
  body: string | readonly string[],
  more: http.OutgoingHttpHeaders = {},
): Promise<{ status: number | undefined; headers: http.IncomingHttpHeaders; body: Buffer }> {
  const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json', ...more }
  const request = http.request(gateway.url + chatPath, { method: 'POST', headers })
  if (typeof body === 'string') request.end(body)
  else {
    for (const piece of body) await new Promise((written) => request.write(piece, written))
    request.end()
  }
  const [response] = (await once(request, 'response')) as [http.IncomingMessage]
  const chunks: Buffer[] = await response.toArray()
  return { status: response.statusCode, headers: response.headers, body: Buffer.concat(chunks) }
}
