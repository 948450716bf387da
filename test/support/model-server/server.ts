/** The tests' model server: takes a request, finds its endpoint, sends the requested answer. */

import http, { type IncomingMessage, type ServerResponse } from 'node:http'
import { setTimeout as wait } from 'node:timers/promises'
import { createAnswer } from './answer.ts'
import { type Ask, LONGEST_WAIT_MS, readBodyAsk, readHeaderAsk } from './ask.ts'
import { foldKeys, readBody, readFlag, readJson } from './body.ts'
import { chat, completions } from './chat.ts'
import { type Dialect, isJson, type Json } from './dialect.ts'
import { embeddings } from './embeddings.ts'
import { messages } from './messages.ts'
import { listModels, retrieveModel } from './models.ts'
import { readPath } from './path.ts'
import { Refusal, toErrorBody } from './refusal.ts'
import { responses } from './responses.ts'
import { type Outlet, sendEvents, sendWhole } from './send.ts'
import { createTally, type Tally } from './tally.ts'
import { chatUsage, usageField } from './usage.ts'

/** The ids listed by default. Any other name in a body is accepted as well. */
export const DEFAULT_MODELS: readonly string[] = ['sim-small', 'sim-large']

/** Options of a server. */
export interface ModelServerOptions {
  readonly models?: readonly string[]
}

const dialects: Readonly<Record<string, Dialect>> = {
  '/v1/chat/completions': chat,
  '/v1/completions': completions,
  '/v1/responses': responses,
  '/v1/messages': messages,
  '/v1/embeddings': embeddings,
}

/** Creates a server that does not listen yet; its only state is the tally. */
export function createModelServer(options: ModelServerOptions = {}): http.Server {
  const ids = options.models ?? DEFAULT_MODELS
  const tally = createTally()
  const server = http.createServer({ maxHeaderSize: 64 * 1024 }, (request, response) => {
    void serve(request, response, ids, tally)
  })
  // A gateway holds connections open as long as it wants; closing one that it is about to use would look like a failed
  // model.
  server.keepAliveTimeout = 0
  return server
}

async function serve(
  request: IncomingMessage,
  response: ServerResponse,
  ids: readonly string[],
  tally: Tally,
): Promise<void> {
  const path = readPath(request.url ?? '/')
  if (path.toLowerCase() === '/sim/requests') {
    if (request.method === 'DELETE') tally.reset()
    response.setHeader('content-type', 'application/json').end(JSON.stringify(tally.read()))
    return
  }
  // The gateway's own requests for the list of models are not counted.
  const isOwn = request.headers['user-agent'] === 'tollgate'
  const close = isOwn ? () => {} : tally.open(path.toLowerCase())
  const client = new AbortController()
  let isCut = false
  // A write fails if the client disconnects during it; the close event below handles that.
  response.on('error', () => {})
  response.once('close', () => {
    close(!isCut && !response.writableFinished)
    client.abort()
  })
  let usage: Json = {}
  const label = request.headers['x-sim-label']?.toString()
  const outlet: Outlet = {
    response,
    ask: {},
    signal: client.signal,
    acceptEncoding: String(request.headers['accept-encoding'] ?? ''),
    extra: {},
    report(next) {
      usage = tally.report(next, usage, label)
    },
    produce(tokens) {
      if (label !== undefined) tally.produce(tokens, label)
    },
    cut() {
      isCut = true
      response.destroy()
    },
  }
  try {
    await answer(request, path, ids, outlet)
  } catch (error) {
    if (!response.destroyed && !client.signal.aborted) await refuse(error, outlet)
  }
}

async function answer(
  request: IncomingMessage,
  path: string,
  ids: readonly string[],
  outlet: Outlet,
): Promise<void> {
  const headerAsk = readHeaderAsk(request.headers['x-sim'])
  const bytes = await readBody(request)
  const route = path.toLowerCase()
  const dialect = Object.hasOwn(dialects, route) ? dialects[route] : undefined
  if (dialect === undefined) {
    const prepared = await prepare(request, bytes, headerAsk, outlet)
    if (prepared !== undefined) await sendWhole(prepared, 200, lookUp(request, path, ids))
    return
  }
  checkMethod(request, 'POST')
  const given = await readJson(bytes, request.headers['content-encoding'])
  const ask = readBodyAsk(given, headerAsk)
  const body = ask.foldKeys ? foldKeys(given) : given
  const isStreamed = readFlag(body, 'stream')
  if (!isStreamed && isJson(body.stream_options)) {
    const message = "The 'stream_options' parameter is only allowed when 'stream' is enabled."
    throw new Refusal(400, 'invalid_value', message)
  }
  const made = createAnswer(dialect, body, ask, ids)
  const prepared = await prepare(request, bytes, ask, outlet)
  if (prepared === undefined) return
  const { prompt, completion } = made.tokens
  if (isStreamed && dialect.events) {
    prepared.produce(prompt)
    await sendEvents(prepared, dialect.events(made))
  } else {
    prepared.produce(prompt + completion)
    await sendWhole(prepared, 200, dialect.whole(made))
  }
}

/**
 * Does what may be requested of any answer: waits, hangs, refuses, echoes. Returns where to send
 * the answer, or undefined if none is left to send.
 */
async function prepare(
  request: IncomingMessage,
  bytes: Buffer,
  ask: Ask,
  outlet: Outlet,
): Promise<Outlet | undefined> {
  const { signal } = outlet
  const { method, url, headers } = request
  const echo = { sim_echo: { method, path: url, headers, body: bytes.toString() } }
  const prepared: Outlet = { ...outlet, ask, extra: ask.echo ? echo : {} }
  if (ask.delayMs) await wait(ask.delayMs, undefined, { signal })
  if (ask.hang) {
    await wait(LONGEST_WAIT_MS, undefined, { signal })
    outlet.cut()
    return undefined
  }
  if (ask.status !== undefined) {
    const body = toErrorBody(ask.status, 'sim_status', `Status ${ask.status}, as requested`)
    const tokens = { prompt: ask.totalTokens ?? 0, completion: 0 }
    const isReporting = 'usage' in ask || ask.usageRaw !== undefined || 'totalTokens' in ask
    const usage = isReporting ? usageField(ask, chatUsage(tokens)) : {}
    await sendWhole(prepared, ask.status, { ...body, ...usage })
    return undefined
  }
  return prepared
}

/** Answers requests that need no model. Throws Refusal 404 for an unknown path. */
function lookUp(request: IncomingMessage, path: string, ids: readonly string[]): Json {
  const [, version, noun, ...id] = path.split('/')
  if (path.toLowerCase() === '/health') return { status: 'ok' }
  if (version?.toLowerCase() !== 'v1' || noun?.toLowerCase() !== 'models') {
    throw new Refusal(404, 'not_found', `Unknown request URL: ${request.method} ${path}`)
  }
  checkMethod(request, 'GET')
  return id.length === 0 ? listModels(ids) : retrieveModel(ids, id.join('/'))
}

function checkMethod({ method }: IncomingMessage, allowed: string): void {
  if (method === allowed) return
  throw new Refusal(405, 'method_not_allowed', `Only ${allowed} is answered here, not ${method}`)
}

/**
 * Answers with an error. If the answer has begun, it cuts the connection, which is the only way to
 * tell the client.
 */
async function refuse(error: unknown, outlet: Outlet): Promise<void> {
  const { response } = outlet
  if (response.headersSent) return outlet.cut()
  const { status, code, message } =
    error instanceof Refusal ? error : new Refusal(500, 'internal_error', String(error))
  // The rest of a body above the limit is not read, so its connection cannot be used again.
  if (status === 413) response.setHeader('connection', 'close')
  await sendWhole({ ...outlet, ask: {} }, status, toErrorBody(status, code, message)).catch(() => {
    response.destroy()
  })
}
