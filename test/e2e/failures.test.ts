import { once } from 'node:events'
import http from 'node:http'
import type { AddressInfo } from 'node:net'
import { createServer, type Socket } from 'node:net'
import root from 'tap'
import { counts, scales } from '../support/counted.ts'
import { accessPolicy, modelRef, subscription } from '../support/documents.ts'
import { freePorts } from '../support/free-ports.ts'
import { chatPath, type Gateway, gatewayTests, meter } from '../support/gateway.ts'
import { startModelServer } from '../support/model-server.ts'
import { poll } from '../support/poll.ts'

/** A model that writes the bytes of a test and then leaves the connection open. */
let script: (socket: Socket) => void = () => {}
let open = 0
const scripted = createServer((socket) => {
  open += 1
  socket.on('error', () => {}).on('close', () => (open -= 1))
  socket.once('data', () => script(socket))
}).listen(0, '127.0.0.1')
root.teardown(() => scripted.close())
await once(scripted, 'listening')
const [downPort = 0] = await freePorts(1)

const team = { groups: ['team'] }
const test = gatewayTests({
  resources: (backendUrl) => [
    modelRef('sim', { backendUrl }),
    modelRef('other', {
      backendUrl: `http://127.0.0.1:${(scripted.address() as AddressInfo).port}`,
    }),
    modelRef('down', { backendUrl: `http://127.0.0.1:${downPort}` }),
    accessPolicy('open', ['llm/sim', 'llm/other', 'llm/down'], team),
    subscription('down', team, { 'llm/down': [[1_000, '1h']] }),
    ...scales(0, 3),
    meter,
  ],
})
const otherPath = '/llm/other/v1/chat/completions'
const head = 'HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n'
const event = (tokens: number | null) =>
  `data: {"choices":[],"usage":${tokens === null ? null : `{"total_tokens":${tokens}}`}}\n\n`

/** Calls the scripted model and disconnects after this text has arrived. */
async function leaveAfter(gateway: Gateway, key: string, end: string): Promise<void> {
  const headers = { authorization: `Bearer ${key}` }
  const request = http.request(gateway.url + otherPath, { method: 'POST', headers })
  request.on('error', () => {})
  request.end('{"messages":[],"stream":true,"stream_options":{"include_usage":true}}')
  const [response] = (await once(request, 'response')) as [http.IncomingMessage]
  response.on('error', () => {})
  let text = ''
  for await (const chunk of response) {
    text += chunk
    if (text.endsWith(end)) break
  }
  request.destroy()
}

function isEnvelope(text: string, code: string): boolean {
  const { error } = JSON.parse(text)
  return error.code === code && typeof error.type === 'string' && typeof error.message === 'string'
}

test('a client that leaves a stream is charged the reported usage', async (t, gateway) => {
  script = (socket) => socket.write(head + event(1) + event(2) + event(3))
  await counts(t, gateway, 3, (key) => leaveAfter(gateway, key, event(3)), 'other')
  await poll(() => open === 0, 'the connection to the model is closed')
})

test('a client that leaves before any usage is charged nothing', async (t, gateway) => {
  script = (socket) => socket.write(head + event(null))
  await counts(t, gateway, 0, (key) => leaveAfter(gateway, key, event(null)), 'other')
  await poll(() => open === 0, 'the connection to the model is closed')
})

test('a client that leaves before the response is charged nothing', async (t, gateway) => {
  const { abandoned, open: before } = await gateway.model.tally()
  const { key } = await gateway.mint({ subscription: 'limit-1' })
  const waiting = new AbortController()
  const hanging = gateway.ask(chatPath, key, {
    method: 'POST',
    signal: waiting.signal,
    body: JSON.stringify({ messages: [], sim: { hang: true } }),
  })
  const failed = t.rejects(hanging, { name: 'AbortError' })
  await poll(
    async () => (await gateway.model.tally()).open === before + 1,
    'the model has the request',
  )
  waiting.abort()
  await failed
  await poll(
    async () => (await gateway.model.tally()).abandoned === abandoned + 1,
    'the connection to the model is closed',
  )
  await gateway.settled()
  t.notOk(await gateway.isSpent(key))
})

test('a stream that the model aborts ends', async (t, gateway) => {
  await counts(t, gateway, 3, async (key) => {
    const sim = { usageEveryChunk: true, dropAfterChunks: 3 }
    await t.rejects(gateway.chat(key, sim, { stream: true }), { name: 'TypeError' })
  })
  await counts(t, gateway, 0, async (key) => {
    await t.rejects(gateway.chat(key, { dropAfterChunks: 3 }, { stream: true }))
  })
})

test('an aborted response is an error', async (t, gateway) => {
  await counts(t, gateway, 0, async (key) => {
    const { status, text } = await gateway.chat(key, { dropAfterChunks: 1 })
    t.ok(status >= 500, `status ${status}`)
    t.type(JSON.parse(text).error.code, 'string')
  })
})

test('passes errors of the model on', async (t, gateway) => {
  await counts(t, gateway, 0, async (key) => {
    const { status, text } = await gateway.chat(key, { status: 500 })
    t.equal(status, 500)
    t.ok(isEnvelope(text, 'sim_status'))
  })
})

test('a response that is not HTTP is 502', async (t, gateway) => {
  script = (socket) => socket.end('I am a teapot\r\n\r\n')
  const { key } = await gateway.mint({ subscription: 'limit-1' })
  const { status, text } = await gateway.chat(key, {}, {}, otherPath)
  t.equal(status, 502)
  t.ok(isEnvelope(text, 'bad_gateway'))
})

test('a response that is not valid, or ends early, is 502 in the same words', async (t, gateway) => {
  const { key } = await gateway.mint({ subscription: 'limit-1' })
  const head = 'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 99\r\n\r\n'
  for (const [path, response] of [
    [otherPath, `${head}{"id":`],
    [otherPath.replace('chat/completions', 'messages'), 'I am a teapot\r\n\r\n'],
  ] as const) {
    script = (socket) => socket.end(response)
    const { status, text } = await gateway.chat(key, {}, {}, path)
    t.equal(status, 502, path)
    t.match(JSON.parse(text).error.message, /is not valid, or ended before it was complete\.$/)
  }
})

test('a model that closes the connection is 503', async (t, gateway) => {
  script = (socket) => socket.destroy()
  const { key } = await gateway.mint({ subscription: 'limit-1' })
  const { status, text } = await gateway.chat(key, {}, {}, otherPath)
  t.equal(status, 503)
  t.ok(isEnvelope(text, 'unavailable'))
})

test('passes invalid JSON on without counting it', async (t, gateway) => {
  const body = 'no JSON: "usage":{"total_tokens":3}'
  script = (socket) =>
    socket.end(
      `HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`,
    )
  await counts(
    t,
    gateway,
    0,
    async (key) => {
      const { status, text } = await gateway.chat(key, {}, {}, otherPath)
      t.equal(status, 200)
      t.equal(text, body)
    },
    'other',
  )
})

test('passes events that are not JSON on without counting them', async (t, gateway) => {
  const body =
    'data: {"usage":{"total_tokens":3}\n\ndata:\n\n: {"usage":{"total_tokens":3}}\n\nx\n\n'
  script = (socket) => socket.end(head + body)
  await counts(
    t,
    gateway,
    0,
    async (key) => {
      const { status, text } = await gateway.chat(key, {}, { stream: true }, otherPath)
      t.equal(status, 200)
      t.equal(text, body)
    },
    'other',
  )
})

test('an unreachable model is 503', async (t, gateway) => {
  const { key } = await gateway.mint({ subscription: 'down' })
  const ask = () => gateway.chat(key, {}, {}, '/llm/down/v1/chat/completions')
  const { status, text, headers } = await ask()
  t.equal(status, 503)
  t.equal(headers.get('retry-after'), '1')
  t.ok(isEnvelope(text, 'unavailable'))
  await startModelServer(t, downPort)
  await poll(async () => (await ask()).status === 200, 'the model is back')
})
