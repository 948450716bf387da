/**
 * Requests to a cluster's API server: JSON both ways, and watches. Not a general client, because we
 * need few: `@kubernetes/client-node` would cost 88 MB and more than half a second at each start,
 * and would still leave watching, retrying and leases to us.
 */

import { readFile } from 'node:fs/promises'
import type { IncomingMessage } from 'node:http'
import { Agent } from 'node:https'
import type { JsonObject } from '../formats/fields.ts'
import { parseObject } from '../formats/parse-json.ts'
import { readResponseBody, sendRequest } from '../runtime/http-request.ts'
import { createSingleFlight } from '../runtime/single-flight.ts'

/** The address of the API server, and our credentials. Files are PEM, and read again each minute. */
export interface ClusterAccess {
  readonly server: string
  readonly tokenFile?: string | undefined
  /** Counts while there is no file, or it cannot be read. */
  readonly token?: string | undefined
  readonly ca?: string | undefined
  readonly caFile?: string | undefined
  readonly cert?: string | undefined
  readonly certFile?: string | undefined
  readonly key?: string | undefined
  readonly keyFile?: string | undefined
}

export interface ClientOptions {
  /** Timeout for a whole response, or for the start of a watch. */
  readonly timeoutMs?: number
  /** The largest response, except for watches. */
  readonly maxBytes?: number
  readonly monotonic?: () => number
}

export interface KubeRequest {
  readonly method?: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  readonly path: string
  readonly body?: JsonObject
  /** The body's type. */
  readonly contentType?: string
  readonly signal?: AbortSignal
}

export interface KubeClient {
  /** The response's object. Rejects with a KubeError, or without a usable response. */
  send(request: KubeRequest): Promise<JsonObject>
  /** A response that is read line by line as it arrives; it is closed after `idleMs` of silence. */
  open(request: KubeRequest & { readonly idleMs: number }): Promise<AsyncIterable<Buffer>>
}

/** The response is larger than a client reads, or takes longer. */
export class TooLarge extends Error {}

/** The number of refusals in a row before one counts: an API server that is starting has no roles yet. */
export const refusalsBelieved = 3

/** Whether the API server refuses us, which only other credentials or permissions can change. */
export function isRefusal(error: unknown): boolean {
  return error instanceof KubeError && (error.status === 401 || error.status === 403)
}

/** The API server refused the request. */
export class KubeError extends Error {
  readonly status: number
  /** Seconds until the next attempt, as requested by the server; 0: not given. */
  readonly retryAfterSeconds: number
  /** Whether it is an API server's own Status, not a page of something before it. */
  readonly isStatus: boolean

  constructor(status: number, message: string, retryAfterSeconds = 0, isStatus = true) {
    super(message)
    this.name = 'KubeError'
    this.status = status
    this.retryAfterSeconds = retryAfterSeconds
    this.isStatus = isStatus
  }
}

/** The pause that the server asks for, in milliseconds; at most a minute, and 0 if it asks for none. */
export function pauseOf(error: unknown): number {
  return error instanceof KubeError ? 1_000 * Math.min(error.retryAfterSeconds, 60) : 0
}

interface Shown {
  readonly token: string | undefined
  readonly agent: Agent
  readonly readAt: number
  readonly written: string
}

const rereadMs = 60_000

export function createClient(access: ClusterAccess, options: ClientOptions = {}): KubeClient {
  const { timeoutMs = 5_000, maxBytes = 64 * 1_048_576 } = options
  const { monotonic = () => performance.now() } = options
  const isPlain = access.server.startsWith('http:')
  const base = access.server.replace(/\/+$/, '')
  let last: Shown | undefined

  const readAccess = createSingleFlight(async (): Promise<Shown> => {
    const [token, ca, cert, key] = await Promise.all([
      readToken(access),
      access.ca ?? readText(access.caFile),
      access.cert ?? readText(access.certFile),
      access.key ?? readText(access.keyFile),
    ])
    const written = JSON.stringify([ca, cert, key])
    // Unchanged certificates keep their connections.
    const agent =
      last?.written === written
        ? last.agent
        : new Agent({ keepAlive: true, timeout: 30_000, ...compact({ ca, cert, key }) })
    last = { token, agent, readAt: monotonic(), written }
    return last
  })

  /** Sends a request; resolves with the head of the response. */
  async function begin(
    { method = 'GET', path, body, contentType = 'application/json' }: KubeRequest,
    signal: AbortSignal,
  ): Promise<IncomingMessage> {
    const isFresh = last !== undefined && monotonic() - last.readAt < rereadMs
    const { token, agent } = last !== undefined && isFresh ? last : await readAccess()
    const text = body === undefined ? undefined : writeBody(body, contentType)
    return await sendRequest(`${base}${path}`, {
      method,
      signal,
      ...(!isPlain && { agent }),
      headers: {
        accept: 'application/json',
        ...(text !== undefined && {
          'content-type': contentType,
          'content-length': Buffer.byteLength(text),
        }),
        ...(token && { authorization: `Bearer ${token}` }),
      },
      ...(text !== undefined && { body: text }),
    })
  }

  /** Throws the error of a response, or that there was none in time. */
  function fail(error: unknown, isLate: boolean): never {
    // Another token may be there by now.
    if (last !== undefined && error instanceof KubeError && error.status === 401)
      last = { ...last, readAt: Number.NEGATIVE_INFINITY }
    if (!isLate) throw error
    throw new Error(`timeout: the API server did not respond within ${timeoutMs / 1_000} s`)
  }

  async function readWhole(response: IncomingMessage): Promise<string> {
    const text = await readResponseBody(response, maxBytes)
    if (text !== undefined) return text
    throw new TooLarge(`the response of the API server is larger than ${maxBytes / 1_048_576} MiB`)
  }

  return {
    async send(request) {
      const deadline = AbortSignal.timeout(timeoutMs)
      const signal = request.signal ? AbortSignal.any([request.signal, deadline]) : deadline
      let hasBegun = false
      try {
        const response = await begin(request, signal)
        hasBegun = true
        const text = await readWhole(response)
        if (!isGood(response)) throw toError(response, text)
        return toObject(text)
      } catch (error) {
        if (hasBegun && deadline.aborted)
          throw new TooLarge(
            `timeout: the API server did not finish its response within ${timeoutMs / 1_000} s`,
          )
        return fail(error, deadline.aborted)
      }
    },
    async open({ idleMs, ...request }) {
      const opening = new AbortController()
      const giveUp = setTimeout(() => opening.abort(), timeoutMs)
      const signal = request.signal
        ? AbortSignal.any([request.signal, opening.signal])
        : opening.signal
      try {
        const response = await begin(request, signal)
        if (!isGood(response)) throw toError(response, await readWhole(response))
        response.setTimeout(idleMs, () =>
          response.destroy(new Error('the watch timed out: it sent nothing')),
        )
        return response
      } catch (error) {
        return fail(error, opening.signal.aborted)
      } finally {
        clearTimeout(giveUp)
      }
    },
  }
}

/** Characters that YAML does not allow as they are, or takes for line breaks. */
const unlikeJson = /[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]/g

function writeBody(body: JsonObject, contentType: string): string {
  const text = JSON.stringify(body)
  if (!contentType.endsWith('yaml')) return text
  return text.replace(unlikeJson, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`)
}

function isGood({ statusCode = 0 }: IncomingMessage): boolean {
  return statusCode >= 200 && statusCode < 300
}

/** The server's message, if the response is a Status. */
function toError({ statusCode = 0, headers }: IncomingMessage, text: string): KubeError {
  let message = `the API server answered ${statusCode}`
  // Without an object, the response did not come from an API server.
  const { kind, message: said } = parseObject(text) ?? {}
  const isStatus = kind === 'Status'
  if (isStatus && typeof said === 'string' && said !== '') message += `: ${said}`
  const seconds = Number(headers['retry-after'])
  return new KubeError(statusCode, message, Number.isFinite(seconds) ? seconds : 0, isStatus)
}

function toObject(text: string): JsonObject {
  const parsed = parseObject(text)
  if (parsed === undefined) throw new Error('the response of the API server is not an object')
  return parsed
}

async function readToken({ token, tokenFile }: ClusterAccess): Promise<string | undefined> {
  const reading = readText(tokenFile)
  const text = token === undefined ? await reading : await reading.catch(() => token)
  return text?.trim() || token?.trim()
}

async function readText(path: string | undefined): Promise<string | undefined> {
  return path === undefined ? undefined : await readFile(path, 'utf8')
}

/** Removes undefined fields. */
function compact(fields: Readonly<Record<string, string | undefined>>): Record<string, string> {
  const found = Object.entries(fields).filter(([, value]) => value !== undefined)
  return Object.fromEntries(found) as Record<string, string>
}
