/** Requests to the REST API from a command. */

import { randomUUID } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import { type ApiTarget, findApiTarget } from './api-target.ts'
import { Unreachable } from './command.ts'
import { printable } from './output.ts'
import type { CommandIo } from './terminal.ts'

/** A page of CSV; `next` is the query of the page after it. */
export interface CsvPage {
  readonly text: string
  readonly next: string | undefined
}

/** A refusal of the API, with its message; the command's runner replaces names of fields with flags. */
export class ApiRefusal extends Error {
  /** When to retry, of a request beyond the limit of requests; seconds. */
  readonly retryAfterS: number | undefined

  constructor(message: string, retryAfterS: number | undefined) {
    super(message)
    this.retryAfterS = retryAfterS
  }
}

/**
 * The JSON of a 2xx response, a CsvPage if it is CSV. Every failure is thrown as a readable error. With `once` the response
 * has a secret: the request has an idempotency key, and is repeated if its response is lost.
 */
export type ApiClient = (
  method: string,
  path: string,
  body?: object,
  once?: 'once',
) => Promise<unknown>

/** Every 2xx response that a command requests has one of these fields; responses of other servers have none. */
export const responseMarks = [
  ...['allowed', 'answers', 'data', 'key', 'propagation'],
  ...['reset', 'revokedCount', 'state', 'text', 'username'],
]
const timeoutMs = 30_000
/**
 * Pauses between attempts. Their sum exceeds the time for which an attempt whose process has died blocks the next one.
 */
const pausesMs = [250, 500, 1_000, 2_000, 4_000, 8_000]
/** Posts that only read. */
const readOnlyPath = /\/(search|explain|simulate)$/
/** Codes of the gateway's own responses while the service does not respond; the service's say what was done. */
const ownCodes: readonly unknown[] = [undefined, 'unavailable', 'timeout']
/** How often in a row a refused page of a list is requested again, and after at most how many seconds. */
const maxRefused = 3
const maxRetryAfterS = 120

/** A client of one server. */
export function createApiClient({ url, token, source }: ApiTarget): ApiClient {
  async function ask(method: string, path: string, body?: object, key?: string) {
    const response = await fetch(`${url}${path}`, {
      method,
      headers: {
        authorization: `Bearer ${token}`,
        accept: 'application/json',
        ...(key !== undefined && { 'idempotency-key': key }),
      },
      ...(body !== undefined && { body: JSON.stringify(body) }),
      // Only the configured server gets the token.
      redirect: 'manual',
      signal: AbortSignal.timeout(timeoutMs),
    })
    const { status } = response
    const isCsv = response.headers.get('content-type')?.startsWith('text/csv')
    const read = isCsv ? readCsv(response) : response.json()
    const content: unknown = await read.catch(() => undefined)
    const isOk = response.ok && typeof content === 'object' && content !== null
    const retryAfterS = Number(response.headers.get('retry-after') ?? Number.NaN)
    return { isOk, status, content, retryAfterS }
  }

  return async (method, path, body, once) => {
    const key = once && randomUUID()
    const isRead = method === 'GET' || readOnlyPath.test(path)
    const unsure = isRead ? '' : ' The request may or may not have been carried out.'
    /** `unsure` once an attempt may have been carried out. */
    let outcome = ''
    for (const pauseMs of [...(once ? pausesMs : []), undefined]) {
      const asked = await ask(method, path, body, key).catch((error: unknown) => {
        const isSent = !isUnreached(error)
        if (isSent) outcome = unsure
        if (isSent && pauseMs !== undefined) return undefined
        const what = isSent ? 'did not respond' : 'cannot be reached'
        throw new Unreachable(`${url} ${what} (${reasonOf(error)}).${outcome}`)
      })
      if (asked?.isOk) {
        const content = asked.content as { readonly key?: unknown }
        // The response of another server must not look like a success, such as a revoked key.
        if (once && typeof content.key !== 'string')
          throw new Error(`${url} responded without a key; it is not a Tollgate gateway.`)
        if (responseMarks.some((mark) => mark in content)) return content
        throw new Error(`${url} does not answer like a Tollgate.`)
      }
      const code = codeOf(asked?.content)
      if (asked && /^[25]/.test(`${asked.status}`) && ownCodes.includes(code)) outcome = unsure
      if (asked !== undefined && (pauseMs === undefined || !isUnsure(asked))) {
        const { status, content } = asked
        const message = refusalOf(content)
        if (message === undefined) {
          const what = status < 300 ? 'without a complete JSON document' : 'without a reason'
          throw new Error(`${url} answered ${status} ${what}.${outcome}`)
        }
        const of =
          status === 401 && source !== undefined ? ` The credential is from ${source}.` : ''
        const isLate = code === 'too_many_requests' && asked.retryAfterS >= 0
        throw new ApiRefusal(message + outcome + of, isLate ? asked.retryAfterS : undefined)
      }
      await delay(pauseMs)
    }
    throw new Error('the last try has a result')
  }
}

/** A client of the server that the flags or the environment name. */
export function connectApi(
  { env, err }: CommandIo,
  flags: Parameters<typeof findApiTarget>[1],
): ApiClient {
  return waiting(createApiClient(findApiTarget(env, flags)), err)
}

/** A client that waits for the limit of requests after its first response: a list may have more pages than that. */
function waiting(ask: ApiClient, say: (line: string) => void): ApiClient {
  let hasResponded = false
  return async (...request) => {
    for (let refused = 1; ; refused += 1) {
      try {
        const content = await ask(...request)
        hasResponded = true
        return content
      } catch (error) {
        const restS = (error instanceof ApiRefusal ? error.retryAfterS : undefined) ?? Infinity
        if (!hasResponded || restS > maxRetryAfterS || refused > maxRefused) throw error
        say(`Too many requests: continuing in ${restS} s.`)
        await delay(restS * 1_000)
      }
    }
  }
}

async function readCsv(response: Response): Promise<CsvPage> {
  const next = /^<(\?.*)>; rel="next"$/.exec(response.headers.get('link') ?? '')?.[1]
  return { text: await response.text(), next }
}

/** Whether nothing was sent. */
function isUnreached(error: unknown): boolean {
  const code =
    /^(ECONNREFUSED|ENOTFOUND|EAI_|EHOST|ENET|EPROTO|UND_ERR_CONNECT|bad port|ERR_(TLS|SSL)|CERT_|UNABLE_|DEPTH_ZERO_|SELF_SIGNED_)/
  return code.test(reasonOf(error))
}

/** Whether the request may have been done, or is in progress. */
function isUnsure({ status, content }: { readonly status: number; readonly content: unknown }) {
  const isBusy = codeOf(content) === 'idempotency_busy'
  return status === 200 || status === 201 || isBusy || /^50[234]/.test(`${status}`)
}

function codeOf(content: unknown): unknown {
  return (content as { error?: { code?: unknown } } | null | undefined)?.error?.code
}

function refusalOf(content: unknown): string | undefined {
  const message = (content as { error?: { message?: unknown } } | null | undefined)?.error?.message
  return typeof message === 'string' ? printable(message) : undefined
}

function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  if (error.name === 'TimeoutError') return `no response within ${timeoutMs / 1_000} s`
  const { cause } = error
  return cause instanceof Error
    ? ((cause as NodeJS.ErrnoException).code ?? cause.message)
    : error.message
}
