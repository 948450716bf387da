import { counts, scales } from '../support/counted.ts'
import { accessPolicy, modelRef } from '../support/documents.ts'
import { gatewayTests, meter, models } from '../support/gateway.ts'
import { poll } from '../support/poll.ts'
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
  env: { METER_PATHS: 'chat,completions' },
})

const path = '/llm/other/v1/chat/completions'
const stream = { 'content-type': 'text/event-stream' }
const text = '{"id":"c","choices":[{"index":0,"delta":{"content":"Hi"}}]}'
const usage = '"usage":{"total_tokens":40}'
const extra = `{"id":"c","choices":[],${usage}}`
const call =
  '{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"name":"f"}}]}}]}'
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
  'one line end between events': [
    [`data: ${text}\ndata: ${extra}\ndata: [DONE]\n`],
    `data: ${text}\ndata: [DONE]\n`,
  ],
  'one line end, byte by byte': [
    torn(`data: ${text}\r\ndata: ${extra}\r\ndata: [DONE]\r\n`),
    `data: ${text}\r\ndata: [DONE]\r\n`,
  ],
  'one CR, cut before usage and its line end': [
    [`data: ${text}\rdata: ${extra.slice(0, -9)}`, extra.slice(-9), '\rdata: [DONE]\r'],
    `data: ${text}\rdata: [DONE]\r`,
  ],
  'a CR, and LFs after other bytes': [
    torn(`data: ${text}\r: hi\ndata: ${extra}\n\n${events(['[DONE]'])}`),
    `data: ${text}\r: hi\n\n${events(['[DONE]'])}`,
  ],
  'usage elsewhere in the text is kept': [
    [events([text, `{"choices":[],${usage},"x_groq":{${usage.replace('40', '9')}}}`])],
    events([text, `{"choices":[],"x_groq":{${usage.replace('40', '9')}}}`]),
  ],
  'the last text in its event': [
    [`data: ${text}\n\ndata: ${text}\ndata: ${extra}\n\n${events(['[DONE]'])}`],
    events(plain),
  ],
  'a tool call in its event': [
    [`data: ${call}\ndata: ${extra}\n\n${events(['[DONE]'])}`],
    events([call, '[DONE]']),
  ],
  'the end in its event': [
    [`${events([text])}data: ${extra}\ndata: [DONE]\n\n`],
    events([text, '[DONE]']),
  ],
  'names and comments in its event': [
    torn(`id: 1\nevent: x\n: hi\ndata: ${text}\nid: 2\ndata: ${extra}\n: ho\n\ndata: [DONE]\n\n`),
    `id: 1\nevent: x\n: hi\ndata: ${text}\nid: 2\n: ho\n\ndata: [DONE]\n\n`,
  ],
  'a comment before it stays': [
    [`: hi\nretry: 5\ndata: ${extra}\n\n${events(['[DONE]'])}`],
    `: hi\nretry: 5\n${events(['[DONE]'])}`,
  ],
  'its name goes with it': [
    torn(`${events([text])}id: 2\nevent: x\ndata: ${extra}\n\n${events(['[DONE]'])}`),
    events([text, '[DONE]']),
  ],
  'an extra event first': [[events([extra, text, '[DONE]'])], events([text, '[DONE]'])],
  'one line end, usage first': [
    [`data: ${extra}\ndata: ${text}\ndata: [DONE]`],
    `data: ${text}\ndata: [DONE]`,
  ],
  'data on several lines before the end in its event': [
    torn(
      `data: ${text}\ndata: {"choices":[],\ndata: "usage":{"total_tokens":40}\ndata: }\ndata: [DONE]\n`,
    ),
    `data: ${text}\ndata: [DONE]\n`,
  ],
  'what says nothing beside usage': [
    [
      events([
        text,
        extra
          .replace('}', `,"prompt_tokens":null}`)
          .replace(
            '{',
            '{"object":"x","created":1,"model":"m","system_fingerprint":"f","service_tier":null,"obfuscation":"a","error":null,',
          ),
        '[DONE]',
      ]),
    ],
    events([text, '[DONE]']),
  ],
  'usage alone': [[events([text, '{"usage":{"total_tokens":40}}'])], events([text])],
  'usage beside something that is no choice is kept': [
    [events(['{"response":"Hi","usage":{"total_tokens":40}}', '[DONE]'])],
    events(['{"response":"Hi","usage":{"total_tokens":40}}', '[DONE]']),
  ],
  'two texts on a line are kept': [
    [events([`${text}${extra}`, '[DONE]'])],
    events([`${text}${extra}`, '[DONE]']),
  ],
  ...Object.fromEntries(
    [
      '"timings":{"predicted_ms":7.5,"usage":{"total_tokens":1}}',
      '"error":{"message":"x"}',
      '"citations":["a","b"]',
      '"prompt_filter_results":[{"prompt_index":0}]',
      '"x_groq":{"id":"r"}',
    ].map((more) => [
      `only usage beside ${more}`,
      [
        [
          events([text]),
          ...torn(
            events([`{"choices":[], ${usage} , ${more}}`, `{${more},"choices":[] , ${usage}}`]),
          ),
        ],
        events([text, `{"choices":[],  ${more}}`, `{${more},"choices":[] }`]),
      ],
    ]),
  ),
  'a brace in lines that are no object': [
    torn(`data: note: {\ndata: "{" {\ndata: ${text}\ndata: ${extra}\ndata: [DONE]\n`),
    `data: note: {\ndata: "{" {\ndata: ${text}\ndata: [DONE]\n`,
  ],
  'a brace in a line that is no object, in pieces': [
    ['data: "{', '" ', `{\ndata: ${text}\ndata: ${extra}\ndata: [DONE]\n`],
    `data: "{" {\ndata: ${text}\ndata: [DONE]\n`,
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

/** Where else servers report 40 tokens in a stream, to a client that has asked. */
const elsewhere: Readonly<Record<string, readonly string[]>> = {
  "the first choice's": [
    text,
    `{"choices":[{"index":0,"delta":{},${usage}},{"usage":{"total_tokens":9}}]}`,
  ],
  "x_groq's": [text, `{"choices":[{"index":0}],"x_groq":{"id":"r",${usage}}}`],
  'the top level before others': [
    `{"x_groq":{"usage":{"total_tokens":9}},"choices":[{"usage":{"total_tokens":8}}],${usage}}`,
  ],
  'the first that is usable': [
    `{"choices":[{${usage}}],"usage":{"total_tokens":"x"},"x_groq":{"usage":{"total_tokens":9}}}`,
  ],
  'parts without a total after an early total': [
    '{"choices":[{}],"usage":{"total_tokens":11}}',
    '{"choices":[],"usage":{"prompt_tokens":30,"completion_tokens":10}}',
  ],
  'zeros after it': [
    `{"choices":[{}],${usage}}`,
    '{"choices":[],"usage":{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0}}',
  ],
  "Anthropic's form": [
    '{"type":"message_start","message":{"usage":{"input_tokens":20,"cache_read_input_tokens":8,"output_tokens":1}}}',
    '{"type":"message_delta","usage":{"output_tokens":12}}',
  ],
}

test('counts usage wherever servers report it', async (t, gateway) => {
  const asked = { stream: true, stream_options: { include_usage: true } }
  for (const [title, data] of Object.entries(elsewhere)) {
    for (const pieces of [[events(data)], torn(events(data, '\r\n'))]) {
      scripted.answer({ headers: stream, pieces })
      const send = async (key: string) => {
        const { text: seen } = await gateway.chat(key, {}, asked, path)
        t.equal(seen, pieces.map(String).join(''), title)
      }
      await counts(t, gateway, 40, send, 'other')
    }
  }
  for (const body of [
    `{"choices":[{"message":{"content":"[{"},${usage}},{"usage":{"total_tokens":9}}]}`,
    '{"object":"list","usage":{"prompt_tokens":40},"data":[{"embedding":[0.1]}]}',
  ]) {
    scripted.answer({ headers: { 'content-type': 'application/json' }, pieces: [body] })
    await counts(t, gateway, 40, (key) => gateway.chat(key, {}, {}, path), 'other')
  }
})

/** Pieces of a stream, and what a client must have of each before the next is sent. */
const paced: Readonly<Record<string, readonly (readonly [sent: string, seen: string])[]>> = {
  'one line end': [
    [`data: ${text}\n`, `data: ${text}\n`],
    [`data: ${text}\n`, `data: ${text}\n`],
    [': ping\n', ': ping\n'],
    [`data: ${extra}\n`, ''],
    ['data: [DONE]\n', 'data: [DONE]\n'],
  ],
  'an end that comes with the next event': [
    [`data: ${text}\r\n`, `data: ${text}\r\n`],
    [`\r\ndata: ${text}\r\n`, `\r\ndata: ${text}\r\n`],
    [`\r\ndata: ${extra}\r\n`, '\r\n'],
    ['\r\ndata: [DONE]\r\n', 'data: [DONE]\r\n'],
  ],
  'a CR, and the beginning of a line after it': [
    [`data: ${text}\r`, `data: ${text}\r`],
    [`\ndata: ${text}\r\ndata: {"cho`, `\ndata: ${text}\r\n`],
    [`ices":[{}]}\r`, 'data: {"choices":[{}]}\r'],
  ],
  'usage first': [
    [`event: x\ndata: ${extra}\n`, ''],
    [`\nevent: y\ndata: ${text}\n`, `event: y\ndata: ${text}\n`],
  ],
  'no event at all': [
    ['\u001f\u008b\b event', '\u001f\u008b\b event'],
    ['more\n', 'more\n'],
    [': pi', ': pi'],
    ['ng\n', 'ng\n'],
  ],
}

test('what is complete arrives before more is sent', async (t, gateway) => {
  for (const [title, steps] of Object.entries(paced)) {
    const { key } = await gateway.mint({ subscription: 'limit-41' })
    let received = ''
    const pieces = async function* () {
      let expected = ''
      for (const [sent, seen] of steps) {
        yield sent
        expected += seen
        await poll(() => received.length >= expected.length, `${title}: ${JSON.stringify(seen)}`)
      }
    }
    scripted.answer({ headers: stream, pieces: pieces() })
    const response = await fetch(gateway.url + path, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      body: JSON.stringify({ model: 'other', stream: true, messages: [] }),
    })
    const decoder = new TextDecoder()
    for await (const bytes of response.body ?? [])
      received += decoder.decode(bytes, { stream: true })
    t.equal(received, steps.map(([, seen]) => seen).join(''), title)
  }
})

test('removes only usage on every route and operation', async (t, gateway) => {
  for (const operation of ['chat/completions', 'completions']) {
    for (const at of [`/llm/other/v1/${operation}`, `/v1/${operation}`]) {
      const { key } = await gateway.mint({ subscription: 'limit-41' })
      const sent = operation === 'completions' ? '{"choices":[{"text":"Hi"}]}' : text
      scripted.answer({
        headers: stream,
        pieces: [`data: ${sent}\ndata: ${extra}\ndata: [DONE]\n`],
      })
      const ask = { model: 'other', stream: true, prompt: 'x' }
      const { text: seen } = await gateway.chat(key, undefined, ask, at)
      t.equal(seen, `data: ${sent}\ndata: [DONE]\n`, at)
    }
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
