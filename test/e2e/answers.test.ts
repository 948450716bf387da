import { counts, scales } from '../support/counted.ts'
import { accessPolicy, modelRef } from '../support/documents.ts'
import { gatewayTests, meter, models } from '../support/gateway.ts'
import { startScriptedModel } from '../support/scripted-model.ts'

const scripted = await startScriptedModel()
const test = gatewayTests({
  resources: (backendUrl) => [
    ...models(backendUrl).slice(0, 1),
    modelRef('other', { backendUrl: scripted.url }),
    accessPolicy('open', ['llm/sim', 'llm/other'], { groups: ['team'] }),
    ...scales(0, 40),
    meter,
  ],
})

const path = '/llm/other/v1/chat/completions'
const stream = { 'content-type': 'text/event-stream' }
const text = '{"id":"c","choices":[{"index":0,"delta":{"content":"Hi"}}]}'
const extra = '{"id":"c","choices":[],"usage":{"total_tokens":40}}'
const closing = '{"choices":[{"index":0,"delta":{}}],"usage":{"total_tokens":40}}'

/** A stream of these data fields, with this line ending. */
const events = (data: readonly string[], eol = '\n') =>
  data.map((each) => `data: ${each}${eol}${eol}`).join('')

/** The bytes as separate chunks. */
const torn = (bytes: string) => Array.from(Buffer.from(bytes), (byte) => Buffer.of(byte))

const plain = [text, text, '[DONE]']
const withExtra = [text, text, extra, '[DONE]']

/** Streams as the model sends them, and as a client receives them that did not ask for usage. */
const streams: Readonly<Record<string, readonly [readonly (string | Buffer)[], string]>> = {
  'an extra event': [[events(withExtra)], events(plain)],
  'an extra event on its own': [
    [events([text, text]), events([extra]), events(['[DONE]'])],
    events(plain),
  ],
  'two extra events and empty ones at once': [
    [`\n${events([text])}\n${events([extra])}\n${events([extra, '[DONE]'])}`],
    `\n${events([text])}\n\n${events(['[DONE]'])}`,
  ],
  'an extra event byte by byte': [torn(events(withExtra)), events(plain)],
  'CRLF byte by byte': [torn(events(withExtra, '\r\n')), events(plain, '\r\n')],
  'CRLF cut before its last byte': [
    [events([text, text, extra], '\r\n').slice(0, -1), `\n${events(['[DONE]'], '\r\n')}`],
    events(plain, '\r\n'),
  ],
  'CRLF at once': [[events(withExtra, '\r\n')], events(plain, '\r\n')],
  'CR alone': [torn(events(withExtra, '\r')), events(plain, '\r')],
  'CR alone at once': [[events(withExtra, '\r')], events(plain, '\r')],
  'an event with a name and a comment': [
    [`: hi\n\nevent: x\ndata: ${extra}\nid: 1\n\n${events(['[DONE]'])}`],
    `: hi\n\n${events(['[DONE]'])}`,
  ],
  'data on two lines': [
    [`data: {"choices":[],\ndata: "usage":{"total_tokens":40}}\n\n${events(plain)}`],
    events(plain),
  ],
  'no space after the colon': [[`data:${extra}\n\n${events(plain)}`], events(plain)],
  'a byte-order mark': [[`\ufeff${events(withExtra)}`], `\ufeff${events(plain)}`],
  'no blank line at the end': [
    [events([text]), `data: ${extra}\n\ndata: [DONE]`],
    `${events([text])}data: [DONE]`,
  ],
  'an unterminated extra event at the end': [[events([text]), `data: ${extra}`], events([text])],
  'usage with text is kept': [
    [events([text, closing, '[DONE]'])],
    events([text, closing, '[DONE]']),
  ],
  'a null usage is kept': [
    [events(['{"choices":[],"usage":null}', extra, '[DONE]'])],
    events(['{"choices":[],"usage":null}', '[DONE]']),
  ],
  'spaces in the JSON': [
    [events(['{ "usage" : { "total_tokens" : 40 } , "choices" : [ ] }', '[DONE]'])],
    events(['[DONE]']),
  ],
  'NaN in the JSON': [
    [events(['{"x":NaN,"choices":[],"usage":{"total_tokens":40}}', '[DONE]'])],
    events(['[DONE]']),
  ],
  'usage in the generated text': [
    [
      events([
        JSON.stringify({ choices: [{ delta: { content: '"usage":{"total_tokens":1}' } }] }),
        extra,
      ]),
    ],
    events([JSON.stringify({ choices: [{ delta: { content: '"usage":{"total_tokens":1}' } }] })]),
  ],
  'nested usage': [
    [
      events([
        '{"choices":[{"usage":{"total_tokens":1}}],"x":{"usage":{"total_tokens":2}}}',
        extra,
      ]),
    ],
    events(['{"choices":[{"usage":{"total_tokens":1}}],"x":{"usage":{"total_tokens":2}}}']),
  ],
  'a long event before it': [
    [events([JSON.stringify({ choices: [{ delta: { content: 'x'.repeat(200_000) } }] }), extra])],
    events([JSON.stringify({ choices: [{ delta: { content: 'x'.repeat(200_000) } }] })]),
  ],
}

for (const [title, [pieces, seen]] of Object.entries(streams)) {
  test(`removes only the usage that was not asked for: ${title}`, async (t, gateway) => {
    for (const headers of [stream, { 'content-type': 'text/plain' }, {}]) {
      scripted.answer({ headers, pieces })
      await counts(
        t,
        gateway,
        40,
        async (key) => {
          const answer = await gateway.chat(key, {}, { stream: true }, path)
          t.equal(answer.status, 200)
          t.ok(answer.text === seen.replace(/^\ufeff/, ''), 'only the extra event is missing')
        },
        'other',
      )
    }
  })
}

test('a client that asks for usage gets the stream unchanged', async (t, gateway) => {
  const asked = { stream: true, stream_options: { include_usage: true } }
  for (const bytes of [events(withExtra), events(withExtra, '\r\n')]) {
    scripted.answer({ headers: stream, pieces: torn(bytes) })
    await counts(
      t,
      gateway,
      40,
      async (key) => {
        t.equal((await gateway.chat(key, {}, asked, path)).text, bytes)
      },
      'other',
    )
  }
})

test('removes a content-length that is no longer right', async (t, gateway) => {
  const bytes = events(withExtra)
  scripted.answer({ headers: { ...stream, 'content-length': bytes.length }, pieces: [bytes] })
  const { key } = await gateway.mint({ subscription: 'limit-41' })
  const answer = await gateway.chat(key, {}, { stream: true }, path)
  t.equal(answer.text, events(plain))
  t.notOk(answer.headers.has('content-length'))
})

const whole = '{"choices":[{"message":{"content":"Hi"}}],"usage":{"total_tokens":40}}'

/** Responses that are not streams, each of 40 tokens. */
const documents: Readonly<Record<string, readonly (string | Buffer)[]>> = {
  'at once': [whole],
  'byte by byte': torn(whole),
  'after white space': [`\r\n \t${whole}`],
  'with a NaN': [whole.replace('{', '{"x":NaN,"y":Infinity,')],
  'after usage in the generated text': [
    whole.replace('"Hi"', '"\\"usage\\":{\\"total_tokens\\":1}","usage":{"total_tokens":2}'),
  ],
  'several lines: the last counts': ['{"usage":{"total_tokens":1}}\n', `${whole}\n`],
  'with escapes': [whole.replace('"Hi"', '"\\\\\\"{[\\u0022"')],
}

for (const [title, pieces] of Object.entries(documents)) {
  test(`counts a response of any content type: ${title}`, async (t, gateway) => {
    for (const type of ['application/json', 'text/plain', 'application/x-ndjson', undefined]) {
      scripted.answer({ headers: type === undefined ? {} : { 'content-type': type }, pieces })
      await counts(
        t,
        gateway,
        40,
        async (key) => {
          const { text: seen } = await gateway.chat(key, {}, {}, path)
          t.equal(seen, pieces.join(''), 'the response is unchanged')
        },
        'other',
      )
    }
  })
}

test('a response is not buffered', async (t, gateway) => {
  const size = 40 * 2 ** 20
  const long = `{"choices":[{"message":{"content":"${'x'.repeat(size)}"}}],"usage":{"total_tokens":40}}`
  scripted.answer({ headers: { 'content-type': 'application/json' }, pieces: [long] })
  await counts(
    t,
    gateway,
    40,
    async (key) => {
      const { status, text: seen } = await gateway.chat(key, {}, {}, path)
      t.equal(status, 200)
      t.ok(seen.length === long.length)
    },
    'other',
  )
})
