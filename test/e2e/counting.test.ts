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

/** The tokens of the usage blocks of a stream, in their order. */
function usagesIn(stream: string): readonly number[] {
  return [...stream.matchAll(/"total_tokens":(\d+)/g)].map(([, digits]) => Number(digits))
}

test('a whole answer is counted', async (t, gateway) => {
  await counts(t, gateway, 17, async (key) => {
    const { status, text } = await gateway.chat(key)
    t.equal(status, 200)
    t.equal(JSON.parse(text).usage.total_tokens, 17, 'one word asks, sixteen answer')
  })
})

for (const [title, sim, fields] of [
  ['a stream is counted unasked', {}, { stream: true }],
  ['a stream is counted when asked', {}, withUsage],
  [
    'an unwanted usage is still counted',
    {},
    { stream: true, stream_options: { include_usage: false } },
  ],
  ['running usage counts once, the last', { usageEveryChunk: true }, { stream: true }],
  ['a usage in single bytes is counted', { splitUsageBytes: true }, { stream: true }],
  ['a stream in single bytes is counted', { splitBytes: 1, words: 39 }, { stream: true }],
  ['CRLF ends lines as well', { crlf: true }, { stream: true }],
  ['CRLF in single bytes is counted', { crlf: true, splitUsageBytes: 1 }, { stream: true }],
  ['a slow stream is counted', { chunkDelayMs: 20 }, { stream: true }],
  ['a megabyte in events is counted', { answerBytes: 1_048_576 }, { stream: true }],
  ['a megabyte at once is counted', { answerBytes: 1_048_576 }, {}],
  ['an answer in single bytes is counted', { splitBytes: 1 }, {}],
  [
    'a charset beside the type is no matter',
    { contentType: 'application/json; charset=utf-8' },
    {},
  ],
  ['an empty answer has tokens too', { words: 0, totalTokens: 40 }, { stream: true }],
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
        'the client sees what it asked for',
      )
      if ('stream' in fields) t.match(text, /data: \[DONE\]\r?\n\r?\n$/)
    })
  })
}

test('shared routes count alike', async (t, gateway) => {
  for (const fields of [{}, { stream: true }, withUsage]) {
    await counts(t, gateway, 17, (key) => gateway.chat(key, {}, fields, '/v1/chat/completions'))
  }
})

test('a client that wants gzip is counted', async (t, gateway) => {
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

test('gzip that nobody asked for goes uncounted', async (t, gateway) => {
  // What cannot be read is not guessed; the service warns about such a model.
  await counts(t, gateway, 0, async (key) => {
    const body = JSON.stringify({ messages, sim: { compress: 'gzip' } })
    const answer = await send(gateway, key, body)
    t.equal(usagesIn(gunzipSync(answer.body).toString())[0], 17)
  })
})

test('a request of five megabytes is counted', async (t, gateway) => {
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

test('twenty megabytes each way are counted', async (t, gateway) => {
  await counts(t, gateway, 17, async (key) => {
    const long = { messages: [{ role: 'user', content: 'x'.repeat(20_000_000) }] }
    t.equal((await gateway.chat(key, { answerBytes: 20_000_000 }, long)).status, 200)
  })
})

test('a chunked request is counted', async (t, gateway) => {
  await counts(t, gateway, 17, async (key) => {
    const body = JSON.stringify({ messages, ...withUsage })
    const pieces = [body.slice(0, 5), body.slice(5, 6), body.slice(6)]
    const answer = await send(gateway, key, pieces)
    t.equal(answer.status, 200)
    t.strictSame(usagesIn(answer.body.toString()), [17])
  })
})

test('a client of HTTP/2 is counted', async (t, gateway) => {
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

test('only chat completions are counted', async (t, gateway) => {
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

/** A chat call by node:http, which leaves all headers and the encoding as they are. */
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
