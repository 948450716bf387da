/**
 * The sample model server of `npm start`: responds like a model, without one. Chat, messages and
 * responses, whole and streamed; embeddings; the list of models. A word is a token, and a response
 * has 16 words or as many as the request allows.
 *
 * node examples/model-server.ts [[host:]port]     # or MODEL_SERVER_ADDRESS; 127.0.0.1:8090
 *
 * SIGTERM, SIGINT and the end of a parent that started it with an IPC channel stop it.
 */
import http, { type ServerResponse } from 'node:http'
import { json } from 'node:stream/consumers'

type Json = Record<string, unknown>
type Answer = (body: Json) => { whole: Json; events?: readonly Json[] }

const [, host = '127.0.0.1', port] =
  /^(?:(.+):)?(\d+)$/.exec(process.argv[2] ?? process.env.MODEL_SERVER_ADDRESS ?? '8090') ?? []
const vocabulary = 'a small river carries quiet words past the old stone mill at dawn'.split(' ')
const list = ['sim-small', 'sim-large'].map((id) => {
  return { id, object: 'model', created: 1_704_067_200, owned_by: 'tollgate' }
})

/** The words of a response, the number of words in the request, and the resulting usage. */
function write(body: Json, most: unknown) {
  const length = typeof most === 'number' ? Math.max(0, Math.min(most, 10_000)) : 16
  const pieces = Array.from({ length }, (_, i) => ` ${vocabulary[i % vocabulary.length]}`)
  const asked = JSON.stringify([body.system, body.instructions, body.messages, body.input])
  const input = asked.match(/\w+/g)?.length ?? 0
  return { pieces, text: pieces.join(''), input, output: length, total: input + length }
}

const chat: Answer = (body) => {
  const said = write(body, body.max_completion_tokens ?? body.max_tokens)
  const { input: prompt_tokens, output: completion_tokens, total: total_tokens } = said
  const usage = { prompt_tokens, completion_tokens, total_tokens }
  const base = { id: 'chatcmpl-sample', created: 1_704_067_200, model: body.model }
  const whole = (object: string, choices: readonly Json[]) => ({ ...base, object, choices })
  const chunk = (delta: Json, finish_reason: string | null = null) =>
    whole('chat.completion.chunk', [{ index: 0, delta, finish_reason }])
  const message = { role: 'assistant', content: said.text }
  const asksForUsage = (body.stream_options as Json | undefined)?.include_usage === true
  return {
    whole: { ...whole('chat.completion', [{ index: 0, message, finish_reason: 'stop' }]), usage },
    events: [
      chunk({ role: 'assistant', content: '' }),
      ...said.pieces.map((content) => chunk({ content })),
      chunk({}, 'stop'),
      ...(asksForUsage ? [{ ...whole('chat.completion.chunk', []), usage }] : []),
    ],
  }
}

const messages: Answer = (body) => {
  const { pieces, text, input, output } = write(body, body.max_tokens)
  const base = { id: 'msg_sample', type: 'message', role: 'assistant', model: body.model }
  const usage = { input_tokens: input, output_tokens: output }
  const end = { stop_reason: 'end_turn', stop_sequence: null }
  const deltas = pieces.map((text) => ({ type: 'text_delta', text }))
  return {
    whole: { ...base, content: [{ type: 'text', text }], ...end, usage },
    events: [
      { type: 'message_start', message: { ...base, content: [], usage } },
      { type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } },
      ...deltas.map((delta) => ({ type: 'content_block_delta', index: 0, delta })),
      { type: 'content_block_stop', index: 0 },
      { type: 'message_delta', delta: end, usage: { output_tokens: output } },
      { type: 'message_stop' },
    ],
  }
}

const responses: Answer = (body) => {
  const { pieces, text, input, output, total } = write(body, body.max_output_tokens)
  const item = { id: 'msg_sample', type: 'message', role: 'assistant', status: 'completed' }
  const part = { type: 'output_text', text, annotations: [] }
  const base = { id: 'resp_sample', object: 'response', created_at: 1_704_067_200 }
  const usage = { input_tokens: input, output_tokens: output, total_tokens: total }
  const begun = { ...base, model: body.model, status: 'in_progress', output: [] }
  const whole = { ...begun, status: 'completed', output: [{ ...item, content: [part] }], usage }
  const place = { item_id: item.id, output_index: 0, content_index: 0 }
  const events = [
    { type: 'response.created', response: begun },
    { type: 'response.output_item.added', output_index: 0, item: { ...item, content: [] } },
    { type: 'response.content_part.added', ...place, part: { ...part, text: '' } },
    ...pieces.map((delta) => ({ type: 'response.output_text.delta', ...place, delta })),
    { type: 'response.output_text.done', ...place, text },
    { type: 'response.output_item.done', output_index: 0, item: whole.output[0] },
    { type: 'response.completed', response: whole },
  ]
  return { whole, events: events.map((event, i) => ({ ...event, sequence_number: i })) }
}

const embeddings: Answer = (body) => {
  const { input } = write(body, 0)
  const data = [body.input].flat().map((_, index) => {
    return { object: 'embedding', index, embedding: [0.6, 0.8] }
  })
  const usage = { prompt_tokens: input, total_tokens: input }
  return { whole: { object: 'list', data, model: body.model, usage } }
}

const served = new Map<string | undefined, Answer>([
  ['/v1/chat/completions', chat],
  ['/v1/messages', messages],
  ['/v1/responses', responses],
  ['/v1/embeddings', embeddings],
])

function send(response: ServerResponse, status: number, body: Json): void {
  const headers = { 'content-type': 'application/json' }
  response.writeHead(status, headers).end(JSON.stringify(body))
}

const server = http.createServer(async (request, response) => {
  const answer = request.method === 'POST' ? served.get(request.url) : undefined
  if (request.url === '/v1/models') return send(response, 200, { object: 'list', data: list })
  if (answer === undefined) return send(response, 404, { error: { message: 'Nothing is here' } })
  const body = await json(request).catch(() => undefined)
  if (typeof body !== 'object' || body === null) {
    return send(response, 400, { error: { message: 'The body is not a JSON object' } })
  }
  const { whole, events } = answer(body as Json)
  if (!('stream' in body && body.stream === true) || !events) return send(response, 200, whole)
  response.writeHead(200, { 'content-type': 'text/event-stream' })
  for (const event of events) {
    const name = typeof event.type === 'string' ? `event: ${event.type}\n` : ''
    response.write(`${name}data: ${JSON.stringify(event)}\n\n`)
  }
  response.end(answer === chat ? 'data: [DONE]\n\n' : '')
})
// Gateways keep connections. Closing one that a gateway is about to use looks like a failing model.
server.keepAliveTimeout = 0
server.once('error', (error) => {
  console.error(`model server: ${error.message}`)
  process.exit(1)
})
server.listen(Number(port), host.replace(/^\[(.*)\]$/, '$1'), () => {
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
