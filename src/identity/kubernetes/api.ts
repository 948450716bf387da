/**
 * The two questions that we ask a cluster's API server. A POST each, so this is no general client:
 * `@kubernetes/client-node` would cost 88 MB and more than half a second at each start.
 */

import { readFile } from 'node:fs/promises'
import { type IncomingMessage, request as requestHttp } from 'node:http'
import { Agent, request as requestHttps } from 'node:https'

export type JsonObject = Readonly<Record<string, unknown>>

/** Creates a review and answers it with its status. Rejects when there is no usable answer. */
export type Review = (path: string, body: JsonObject) => Promise<JsonObject>

/** Where the API server is, and what we show it. Files are in PEM, and read again each minute. */
export interface ClusterAccess {
  readonly server: string
  readonly tokenFile?: string | undefined
  readonly token?: string | undefined
  readonly ca?: string | undefined
  readonly caFile?: string | undefined
  readonly cert?: string | undefined
  readonly key?: string | undefined
}

export interface ReviewOptions {
  /** For a whole answer. */
  readonly timeoutMs?: number
  readonly monotonic?: () => number
}

interface Shown {
  readonly token: string | undefined
  readonly agent: Agent
  readonly readAt: number
  readonly written: string
}

const rereadMs = 60_000
const mostBytes = 1_048_576

export function createReview(access: ClusterAccess, options: ReviewOptions = {}): Review {
  const { timeoutMs = 5_000, monotonic = () => performance.now() } = options
  let shown: Promise<Shown> | undefined
  let last: Shown | undefined

  async function readAccess(): Promise<Shown> {
    const [token, ca] = await Promise.all([
      access.token ?? readText(access.tokenFile),
      access.ca ?? readText(access.caFile),
    ])
    const { cert, key } = access
    const written = JSON.stringify([ca, cert, key])
    // The same certificates go on with the same connections.
    const agent =
      last?.written === written
        ? last.agent
        : new Agent({ keepAlive: true, timeout: 30_000, ...compact({ ca, cert, key }) })
    last = { token: token?.trim(), agent, readAt: monotonic(), written }
    return last
  }

  /** One reading for all who ask meanwhile; one that failed is not kept. */
  async function current(): Promise<Shown> {
    if (last !== undefined && monotonic() - last.readAt < rereadMs) return last
    shown ??= readAccess().finally(() => {
      shown = undefined
    })
    return await shown
  }

  return async function review(path, body) {
    const { token, agent } = await current()
    const text = JSON.stringify(body)
    const answer = await new Promise<IncomingMessage>((resolve, reject) => {
      const isPlain = access.server.startsWith('http:')
      const sent = (isPlain ? requestHttp : requestHttps)(
        `${access.server.replace(/\/+$/, '')}${path}`,
        {
          method: 'POST',
          signal: AbortSignal.timeout(timeoutMs),
          ...(!isPlain && { agent }),
          headers: {
            'content-type': 'application/json',
            'content-length': Buffer.byteLength(text),
            accept: 'application/json',
            ...(token && { authorization: `Bearer ${token}` }),
          },
        },
        resolve,
      )
      sent.on('error', reject)
      sent.end(text)
    })
    const chunks: Buffer[] = []
    let size = 0
    for await (const chunk of answer) {
      size += chunk.length
      if (size > mostBytes) throw new Error('the API server answers more than 1 MiB')
      chunks.push(chunk)
    }
    if (answer.statusCode !== 201 && answer.statusCode !== 200) {
      throw new Error(toProblem(answer.statusCode, path))
    }
    return statusOf(Buffer.concat(chunks).toString())
  }
}

function toProblem(status: number | undefined, path: string): string {
  const kind = path.slice(path.lastIndexOf('/') + 1)
  if (status === 403) return `our role may not create ${kind} (403)`
  if (status === 401) return 'the API server does not believe our own token (401)'
  return `the API server answered ${status}`
}

function statusOf(text: string): JsonObject {
  try {
    const { status } = JSON.parse(text) as { status?: unknown }
    if (isObject(status)) return status
  } catch {
    // Told below: the parser's own words quote the answer.
  }
  throw new Error('the API server answered no review')
}

export function isObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

async function readText(path: string | undefined): Promise<string | undefined> {
  return path === undefined ? undefined : await readFile(path, 'utf8')
}

/** Without what is undefined. */
function compact(fields: Readonly<Record<string, string | undefined>>): Record<string, string> {
  const found = Object.entries(fields).filter(([, value]) => value !== undefined)
  return Object.fromEntries(found) as Record<string, string>
}
