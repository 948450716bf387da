/**
 * Two chat servers on Express: one with the framework's router and parser, and one that dispatches by
 * the end of the path. Prints {"router": port, "suffix": port} and serves until its input is closed.
 */
// @ts-nocheck: written like typical Express code, without types.
import express from 'express'

let count = 0

function answer(kind, response, body) {
  if (typeof body !== 'object' || body === null) return response.status(400).json({ error: {} })
  count += 1
  const stream = Boolean(body.stream)
  const reported = !stream || Boolean(body.stream_options?.include_usage)
  const total = 10 + (count % 90)
  const usage = { prompt_tokens: 6, completion_tokens: total - 6, total_tokens: total }
  const model = encodeURIComponent(String(body.model))
  response.set('x-served', [kind, model, total, Number(stream), Number(reported)].join(';'))
  if (!stream) {
    const choice = { index: 0, message: { role: 'assistant', content: 'la la' }, text: 'la la' }
    return response.json({ choices: [choice], usage })
  }
  const events = Array(2).fill({ choices: [{ index: 0, delta: { content: 'la' } }] })
  if (reported) events.push({ choices: [], usage })
  response.type('text/event-stream')
  for (const event of events) response.write(`data: ${JSON.stringify(event)}\n\n`)
  response.end('data: [DONE]\n\n')
}

const list = (_, response) => response.json({ object: 'list', data: [{ id: 'sim' }] })
const failed = (error, _, response, next) =>
  response.headersSent
    ? next(error)
    : response.status(400).json({ error: { message: String(error) } })

const router = express()
  .use((request, _, next) => {
    // As the package method-override does.
    const wanted = request.get('x-http-method-override')
    if (wanted && request.method === 'POST') request.method = wanted.toUpperCase()
    next()
  })
  .use(express.json({ limit: '64mb' }), express.urlencoded({ extended: true }), express.text())
  .post('/v1/chat/completions', (request, response) => answer('chat', response, request.body))
  .post('/v1/completions', (request, response) => answer('completions', response, request.body))
  .get('/v1/models', list)
  .use(failed)

const suffix = express()
  .use(express.raw({ type: () => true, limit: '64mb' }))
  .use((request, response) => {
    // IIS and some PHP front ends send the original request in these headers.
    const target =
      request.get('x-original-url') ?? request.get('x-rewrite-url') ?? request.originalUrl
    const method = request.get('x-http-method-override') ?? request.method
    const read = () => JSON.parse(Buffer.isBuffer(request.body) ? request.body.toString() : '{}')
    if (method === 'POST' && target.endsWith('/v1/chat/completions'))
      return answer('chat', response, read())
    if (method === 'POST' && target.endsWith('/v1/completions'))
      return answer('completions', response, read())
    if (target.includes('/v1/models')) return list(request, response)
    response.status(404).end()
  })
  .use(failed)

const start = (app) =>
  new Promise((settle) => {
    const server = app.listen(0, '127.0.0.1', () => settle(server.address().port))
  })
console.log(JSON.stringify({ router: await start(router), suffix: await start(suffix) }))
process.stdin.on('end', () => process.exit()).resume()
