/**
 * The model server of `npm run bench`: responds at once with fixed bytes, JSON or a stream of 11 events in one write,
 * so that only the gateway in front of it is measured. Calls of a burst wait for their answers, so that all are in
 * progress at once.
 *
 * node bench/gateway/model-server.ts     # MODEL_SERVER_ADDRESS, and an IPC channel that ends it
 */

import { createServer } from 'node:net'
import { createHttp1Reader } from './http1-reader.ts'

const eventCount = 11
const base = { id: 'chatcmpl-bench', created: 1_704_067_200, model: 'bench' }
const usage = { prompt_tokens: 7, completion_tokens: 9, total_tokens: 16 }

const list = answer('application/json', {
  object: 'list',
  data: [{ id: 'bench', object: 'model', created: base.created, owned_by: 'tollgate' }],
})
const whole = answer('application/json', {
  ...base,
  object: 'chat.completion',
  choices: [
    {
      index: 0,
      message: { role: 'assistant', content: 'a small river carries quiet words past the mill' },
      finish_reason: 'stop',
    },
  ],
  usage,
})

const inBurst = answer('application/json', {
  ...{ ...base, object: 'chat.completion', choices: [] },
  usage: { prompt_tokens: 10, completion_tokens: 290, total_tokens: 300 },
})
const burstMs = 3_000

/** 9 words, an event with the usage, and the end. */
const events = [
  ...Array.from({ length: eventCount - 2 }, (_, i) => ({
    choices: [{ index: 0, delta: { content: ` word${i}` }, finish_reason: null }],
  })),
  { choices: [], usage },
].map(
  (event) => `data: ${JSON.stringify({ ...base, object: 'chat.completion.chunk', ...event })}\n\n`,
)
const stream = Buffer.from(
  'HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n' +
    [...events, 'data: [DONE]\n\n']
      .map((event) => `${event.length.toString(16)}\r\n${event}\r\n`)
      .join('') +
    '0\r\n\r\n',
)

function answer(type: string, body: object): Buffer {
  const text = JSON.stringify(body)
  return Buffer.from(
    `HTTP/1.1 200 OK\r\ncontent-type: ${type}\r\ncontent-length: ${text.length}\r\n\r\n${text}`,
  )
}

const server = createServer({ noDelay: true }, (socket) => {
  let reply = whole
  let isFirst = true
  const read = createHttp1Reader({
    onHead(head) {
      reply = head.startsWith('GET ') ? list : whole
      isFirst = true
    },
    onBody(piece) {
      // It comes before the messages.
      if (isFirst && piece.subarray(0, 200).includes('"stream":true')) reply = stream
      if (isFirst && piece.subarray(0, 20).includes('"max_tokens":')) reply = inBurst
      isFirst = false
    },
    onEnd() {
      if (reply === inBurst) setTimeout(() => socket.write(inBurst), burstMs)
      else socket.write(reply)
    },
  })
  socket.on('error', () => {})
  socket.on('data', (data) => {
    try {
      read(data)
    } catch {
      socket.destroy()
    }
  })
})
const [host, port] = (process.env.MODEL_SERVER_ADDRESS ?? '').split(':')
server.listen(Number(port), host)
for (const event of ['disconnect', 'SIGTERM', 'SIGINT']) process.once(event, () => process.exit(0))
