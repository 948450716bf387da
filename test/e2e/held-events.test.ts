import { randomBytes } from 'node:crypto'
import http, { type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import root from 'tap'
import { counts, scales } from '../support/counted.ts'
import { accessPolicy, modelRef, subscription } from '../support/documents.ts'
import { residentMiB, timesPlain } from '../support/envoy-load.ts'
import { type Gateway, gatewayTests, meter, models } from '../support/gateway.ts'
import { poll } from '../support/poll.ts'
import { startScriptedModel } from '../support/scripted-model.ts'

const KiB = 2 ** 10
const MiB = 2 ** 20
const scripted = await startScriptedModel()
const unfinished = await startUnfinishedModel()
const test = gatewayTests({
  resources: (backendUrl) => [
    ...models(backendUrl).slice(0, 1),
    modelRef('other', { backendUrl: scripted.url }),
    modelRef('unfinished', { backendUrl: unfinished.url }),
    accessPolicy('open', ['llm/sim', 'llm/other', 'llm/unfinished'], { groups: ['team'] }),
    ...scales(0, 40),
    subscription(
      'plenty',
      { groups: ['team'] },
      { 'llm/other': [[1e9, '1h']], 'llm/unfinished': [[1e9, '1h']] },
    ),
    meter,
  ],
})

const path = '/llm/other/v1/chat/completions'
const stream = { 'content-type': 'text/event-stream' }
const asked = { stream: true, stream_options: { include_usage: true } }

/** A model server whose answers begin alike and do not end. Lua keeps equal texts once, so each is shifted by a byte. */
async function startUnfinishedModel() {
  const open = new Set<ServerResponse>()
  let beginning = ''
  const server = http.createServer((request, response) => {
    request.resume()
    response.writeHead(200, stream)
    if (request.method === 'GET') return response.end()
    open.add(response)
    response.on('close', () => open.delete(response))
    return response.write(beginning.replace('{', `{${' '.repeat(open.size)}`))
  })
  await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening))
  root.teardown(() => {
    server.close()
    server.closeAllConnections()
  })
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    open,
    begin(text: string) {
      beginning = text
    },
  }
}

/** Streams through the gateway, and the number of bytes that each has received. */
function startStreams(gateway: Gateway, key: string, count: number, fields: object) {
  const agent = new http.Agent({ keepAlive: false, maxSockets: Number.POSITIVE_INFINITY })
  const received = Array.from({ length: count }, () => 0)
  const requests = received.map((_, i) => {
    const request = http.request({
      agent,
      port: gateway.port,
      path: '/llm/unfinished/v1/chat/completions',
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    })
    request.on('error', () => {})
    request.on('response', (response) => {
      response.on('error', () => {})
      response.on('data', (data: Buffer) => {
        received[i] = (received[i] ?? 0) + data.length
      })
    })
    request.end(JSON.stringify({ model: 'unfinished', messages: [], ...fields }))
    return request
  })
  return {
    received,
    async stop() {
      for (const request of requests) request.destroy()
      await poll(() => unfinished.open.size === 0, 'the model sees that they are gone')
    },
  }
}

test('events that do not end take no memory', async (t, gateway) => {
  const { key } = await gateway.mint()
  const size = 8 * MiB
  const count = 20
  const text = randomBytes(size / 2).toString('hex')
  unfinished.begin(`data: {"choices":[{"delta":{"content":"${text}`)
  for (const fields of [{ stream: true }, asked]) {
    const before = residentMiB(gateway.envoy.pid)
    const streams = startStreams(gateway, key, count, fields)
    await poll(() => streams.received.every((each) => each > size), 'all of it has passed', 30_000)
    const grown = residentMiB(gateway.envoy.pid) - before
    t.ok(grown < 100, `${count} streams of ${size / MiB} MiB take ${grown.toFixed(0)} MiB`)
    await streams.stop()
  }
})

test('a thread holds events of at most 4 MiB', async (t, gateway) => {
  const { key } = await gateway.mint()
  const size = 60 * KiB
  const count = 200
  unfinished.begin(`data: {"choices":[],"x":"${'x'.repeat(size)}`)
  const fit = (4 * MiB) / size
  for (const round of ['at first', 'after streams that were reset']) {
    const streams = startStreams(gateway, key, count, { stream: true })
    await poll(() => unfinished.open.size === count, 'all have begun')
    const passed = () => streams.received.filter((each) => each > size).length
    await poll(() => passed() >= count - fit, `most pass, ${round}`)
    t.ok(passed() < count - fit + 10, `${passed()} of ${count} pass, ${round}`)
    await streams.stop()
    // The streams that are gone are looked for once a second.
    await new Promise((resolve) => setTimeout(resolve, 1_100))
  }
})

const usage = '"usage":{"total_tokens":40}'
const filler = (bytes: number) => 'x'.repeat(bytes)

/** Events of any length, each of 40 tokens, as pieces. */
const events: Readonly<Record<string, readonly string[]>> = {
  'usage behind 8 MiB': [`data: {"a":"${filler(8 * MiB)}",${usage}}\n\n`],
  'usage before 8 MiB': [`data: {${usage},"a":"${filler(8 * MiB)}"}\n\n`],
  'usage behind many small things': [
    `data: {"a":[${'{"usage":{"total_tokens":1}},'.repeat(10_000)}1],${usage}}\n\n`,
  ],
  'usage in a long response': [
    `event: response.completed\ndata: {"type":"response.completed","response":{"output":[{"text":"${filler(300_000)}"}],${usage}}}\n\n`,
  ],
  'usage on the last of many lines': [
    `${`data: ${' '.repeat(1_000)}\n`.repeat(100)}data: {${usage}}\n\n`,
  ],
  'a long usage': [`data: {"usage":{"x":"${filler(100_000)}","total_tokens":40}}\n\n`],
  'pieces cut in usage': [
    `data: {"a":"${filler(70_000)}","us`,
    'age":',
    '{"total_',
    'tokens":4',
    '0',
    '}',
    '}\r',
    '\n\r\n',
  ],
}

for (const [title, pieces] of Object.entries(events)) {
  test(`counts an event of any length: ${title}`, async (t, gateway) => {
    const bytes = pieces.join('')
    for (const fields of [{ stream: true }, asked]) {
      scripted.answer({ headers: stream, pieces })
      await counts(
        t,
        gateway,
        40,
        async (key) => {
          const { text } = await gateway.chat(key, {}, fields, path)
          t.ok(text === bytes, 'the response is unchanged')
        },
        'other',
      )
    }
  })
}

test('adds up the usage of the answers in a list', async (t, gateway) => {
  const answer = (tokens: number | string) =>
    `{"object":"response","output":[{"usage":{"total_tokens":7}}],"usage":{"total_tokens":${tokens}}}`
  for (const [list, tokens] of [
    [`[${answer(11)},${answer(9)},${answer(20)}]`, 40],
    [` [\n${answer(40)}\n]\n`, 40],
    [`[[${answer(40)}]]`, 40],
    [`[{},${answer(40)},{"usage":null}]`, 40],
    [`[${answer(40)},${answer('"x"')}]`, 0],
    ['[]', 0],
  ] as const) {
    for (const pieces of [[list], [...list]]) {
      scripted.answer({ headers: { 'content-type': 'application/json' }, pieces })
      await counts(
        t,
        gateway,
        tokens,
        async (key) => {
          const { text } = await gateway.chat(key, {}, {}, path)
          t.ok(text === list, 'the response is unchanged')
        },
        'other',
      )
    }
  }
})

test('counts whatever a content-encoding says, if it is readable', async (t, gateway) => {
  const events = `data: {"choices":[1]}\n\ndata: {"choices":[],${usage}}\n\n`
  for (const encoding of ['identity', 'utf-8', 'none', '']) {
    for (const [type, text, fields] of [
      ['application/json', `{${usage}}`, {}],
      ['text/event-stream', events, asked],
    ] as const) {
      const headers = { 'content-type': type, 'content-encoding': encoding }
      scripted.answer({ headers, pieces: [text] })
      await counts(
        t,
        gateway,
        40,
        async (key) => {
          const answer = await gateway.chat(key, {}, fields, path)
          t.ok(answer.text === text, `${encoding}: the response is unchanged`)
        },
        'other',
      )
    }
  }
})

test('removes an extra event of at most 64 KiB', async (t, gateway) => {
  const extra = (size: number) => {
    const [before, after] = ['data: {"choices":[],"obfuscation":"', `",${usage}}\n\n`]
    return before + filler(size - before.length - after.length) + after
  }
  const done = 'data: [DONE]\n\n'
  const halves = (text: string) => [text.slice(0, 20_000), text.slice(20_000)]
  for (const [size, kept] of [
    [65_536, false],
    [65_537, true],
  ] as const) {
    for (const pieces of [[extra(size) + done], [...halves(extra(size)), done]]) {
      scripted.answer({ headers: stream, pieces })
      await counts(
        t,
        gateway,
        40,
        async (key) => {
          const { text } = await gateway.chat(key, {}, { stream: true }, path)
          t.ok(text === (kept ? pieces.join('') : done), `${size} bytes in ${pieces.length} pieces`)
        },
        'other',
      )
    }
  }
})

test('white space before an answer in JSON stays before it', async (t, gateway) => {
  unfinished.begin(' \r\n')
  const { key } = await gateway.mint()
  const ask = { model: 'unfinished', messages: [], stream: true }
  const asking = gateway.chat(key, {}, ask, '/llm/unfinished/v1/chat/completions')
  await poll(() => unfinished.open.size === 1, 'it has begun')
  await new Promise((resolve) => setTimeout(resolve, 200))
  for (const response of unfinished.open) response.end(`{${usage}}`)
  t.equal((await asking).text, ` \r\n{${usage}}`)
})

const size = MiB
const fill = (text: string, bytes = size) => text.repeat(Math.ceil(bytes / text.length))
const delta = 'data: {"id":"c","model":"m","choices":[{"index":0,"delta":{"content":"Hello"}}]}\n\n'
const object = (text: string) => `{${fill(text)}"a":1}`

/** Answers of the same length, each of whatever makes some part of the script work most. */
const answers: Readonly<Record<string, string>> = {
  'usage of 1e300': fill('data: {"usage":{"total_tokens":1e300}}\n\n'),
  'usage of 310 digits': fill(`data: {"usage":{"total_tokens":${'1'.repeat(310)}}}\n\n`),
  'usage of fractions': fill(`data: {"usage":{"total_tokens":0.${'0'.repeat(300)}1}}\n\n`),
  'one usage of 1e300': `{"usage":${object('"total_tokens":1e300,"total_tokens":1e-300,')}}`,
  'usage in turn': fill(`data: {${usage}}\n\ndata: {"usage":{"total_tokens":41}}\n\n`),
  'one usage in turn': `data: {"usage":${object('"total_tokens":1,"total_tokens":2,')}}\n\n`,
  'usage in each event': fill(delta.replace('}]}', `}],${usage}}`)),
  'null in each event': fill(delta.replace('}]}', '}],"usage":null}')),
  'line ends': `${fill('\n')}x`,
  'carriage returns': `${fill('\r')}x`,
  'tiny events': `${fill('a\n\n')}x`,
  'usage in lines without data': fill('"usage":1\n\n'),
  'events of no usage': fill('"usage"\n\n'),
  'lines of data': `data: {"usage":1}\n${fill('data:\n')}x`,
  'lines in a string': `data: {"usage":"\n${fill('data: a\n')}x`,
  comments: fill(':\n\n'),
  'lines of one event': fill(delta.slice(0, -1)),
  'comments in one event': `${fill(':\n')}data: ${`{${usage}}`}\n`,
  'names in one event': `${fill('id:\n')}data: ${`{${usage}}`}\n`,
  'lines of nothing': `${fill('e\n')}data: ${`{${usage}}`}\n`,
  'nulls beside usage': `data: {${usage},${fill('"a":null,')}"b":1}\n\n`,
  members: object('"a":1,'),
  'members of five letters': object('"usagf":1,'),
  'repeated usage': object(`${usage},"usage":{},`),
  arrays: `{"a":[${fill('[],')}1]}`,
  escapes: `{"a":"${fill('\\\\\\"')}"}`,
  'iterations of nothing': `{"usage":{"iterations":[${fill('{},')}{}]}}`,
  'event of iterations': `data: {"usage":{"iterations":[${fill('{},')}{}]}}\n\n`,
}

test('no answer costs more than five times a plain one', async (t, gateway) => {
  const { key } = await gateway.mint()
  const send = (text: string, fields: object) => async () => {
    scripted.answer({ headers: stream, pieces: [text] })
    const answer = await gateway.chat(key, {}, fields, path)
    const isRight = fields === asked ? answer.text === text : answer.status === 200
    if (!isRight) throw new Error(`${answer.status} ${answer.text.slice(0, 40)}`)
  }
  // If the client has not asked for usage, lines are looked at alone.
  for (const fields of [asked, { stream: true }]) {
    const others = Object.fromEntries(
      Object.entries(answers)
        .filter(([name]) => fields === asked || name.includes('line') || name.includes('event'))
        .map(([name, text]) => [name, send(text, fields)]),
    )
    const plain = send(fill(delta), fields)
    for (const [name, ratio] of await timesPlain(gateway.envoy.pid, plain, others, 5)) {
      t.ok(ratio <= 5, `${name}: ${ratio.toFixed(1)} times, asked: ${fields === asked}`)
    }
  }
})
