/**
 * The sample model server of `npm start`: responds like a model, without one, on every operation that
 * the gateway serves. A word is a token, and a response has 16 words, or as many as the request
 * allows, 64 at most.
 *
 * npx node examples/model-server.ts [[host:]port]     # or MODEL_SERVER_ADDRESS; 127.0.0.1:8090
 *
 * SIGTERM, SIGINT and the end of a parent that started it with an IPC channel stop it.
 */
import http, { type IncomingMessage, type ServerResponse } from 'node:http'
import { json } from 'node:stream/consumers'
import { chat, completions } from './sample-model/chat.ts'
import * as figures from './sample-model/figures.ts'
import * as media from './sample-model/media.ts'
import { countTokens, messages } from './sample-model/messages.ts'
import { responses } from './sample-model/responses.ts'
import { type Answer, type Json, madeAt, type Written } from './sample-model/words.ts'

const [, host = '127.0.0.1', port] =
  /^(?:(.+):)?(\d+)$/.exec(process.argv[2] ?? process.env.MODEL_SERVER_ADDRESS ?? '8090') ?? []

const models = ['sim-small', 'sim-large'].map((id) => {
  return { id, object: 'model', created: madeAt, owned_by: 'tollgate' }
})

const posted = new Map<string, Answer>([
  ['/v1/chat/completions', chat],
  ['/v1/completions', completions],
  ['/v1/messages', messages],
  ['/v1/messages/count_tokens', countTokens],
  ['/v1/responses', responses],
  ['/v1/embeddings', figures.embeddings],
  ['/v1/rerank', figures.rerank],
  ['/v1/score', figures.score],
  ['/v1/moderations', figures.moderations],
  ['/v1/images/generations', media.images],
  ['/v1/audio/speech', media.speech],
  ['/v1/tokenize', figures.tokenize],
  ['/v1/detokenize', figures.detokenize],
])

/** Operations whose body is an upload; it is not read. */
const uploaded = new Map<string, Answer>([
  ['/v1/images/edits', media.images],
  ['/v1/images/variations', media.images],
  ['/v1/audio/transcriptions', media.transcription],
  ['/v1/audio/translations', media.transcription],
])

const got = new Map<string, Json>([
  ['/v1/models', { object: 'list', data: models }],
  ...models.map((model): [string, Json] => [`/v1/models/${model.id}`, model]),
  // Nothing is ever stored.
  ...['files', 'batches'].map((name): [string, Json] => [
    `/v1/${name}`,
    { object: 'list', data: [], has_more: false },
  ]),
])

function send(response: ServerResponse, status: number, body: Json | Buffer, type?: string): void {
  const content = Buffer.isBuffer(body) ? body : JSON.stringify(body)
  response.writeHead(status, { 'content-type': type ?? 'application/json' }).end(content)
}

/** In the form of the API that the path belongs to. */
function refuse(response: ServerResponse, status: 400 | 404, path: string, message: string): void {
  const kind = status === 404 ? 'not_found_error' : 'invalid_request_error'
  const isAnthropic = /^\/v1\/messages(?:\/|$)/.test(path)
  const error = { type: kind, message, ...(!isAnthropic && { param: null, code: null }) }
  send(response, status, isAnthropic ? { type: 'error', error } : { error })
}

function write(response: ServerResponse, written: Written, isStream: boolean): void {
  const { whole, type, events, end } = written
  if (!isStream || events === undefined) {
    send(response, 200, whole, type)
    return
  }
  response.writeHead(200, { 'content-type': 'text/event-stream' })
  for (const event of events) {
    const name = typeof event.type === 'string' ? `event: ${event.type}\n` : ''
    response.write(`${name}data: ${JSON.stringify(event)}\n\n`)
  }
  response.end(end)
}

async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const { method = '', url = '' } = request
  // Clients add parameters, such as `?beta=true`, which change nothing here.
  const path = url.replace(/[?#].*$/s, '')
  const found = method === 'GET' || method === 'HEAD' ? got.get(path) : undefined
  if (found !== undefined) return send(response, 200, found)
  const upload = method === 'POST' ? uploaded.get(path) : undefined
  if (upload !== undefined) {
    request.resume()
    return write(response, upload({}), false)
  }
  const reply = method === 'POST' ? posted.get(path) : undefined
  if (reply === undefined) {
    return refuse(response, 404, path, `The sample model has nothing at ${method} ${path}.`)
  }
  const body: unknown = await json(request).catch(() => undefined)
  if (typeof body !== 'object' || body === null || Array.isArray(body)) {
    return refuse(response, 400, path, 'The body is not a JSON object.')
  }
  write(response, reply(body as Json), (body as Json).stream === true)
}

const server = http.createServer((request, response) => void answer(request, response))
// Gateways keep connections. Closing one that a gateway is about to use looks like a failing model.
server.keepAliveTimeout = 0
server.once('error', (error) => {
  console.error(`model server: ${error.message}`)
  process.exit(1)
})
// Without a host Node listens on IPv6 too, where there is IPv6.
server.listen(Number(port), host === '[::]' ? undefined : host.replace(/^\[(.*)\]$/, '$1'), () => {
  const bound = server.address()
  const actual = typeof bound === 'object' && bound !== null ? bound.port : port
  console.log(`model server listening on http://${host}:${actual}`)
})
for (const event of ['SIGTERM', 'SIGINT', 'disconnect']) {
  process.once(event, () => {
    // An open channel to the parent would keep this process alive.
    if (process.connected) process.disconnect()
    server.close()
    server.closeAllConnections()
  })
}
