/** Reads an OIDC provider's documents, limited in time and size, and never from another place. */

import { readFile } from 'node:fs/promises'
import { get as getHttp, type IncomingMessage } from 'node:http'
import { get as getHttps } from 'node:https'
import { isObject } from '../../core/formats/fields.ts'
import { isTrustworthy } from '../../core/formats/trustworthy.ts'
import { readBody } from '../../runtime/read-body.ts'

/** Reads a JSON object. Rejects with a message for the log. */
export type ReadDocument = (url: string, signal: AbortSignal) => Promise<JsonObject>

export type JsonObject = Readonly<Record<string, unknown>>

export interface DocumentOptions {
  /** Certificates (PEM) of the authorities to use instead of the default ones. */
  readonly ca?: string | undefined
  /** The same in a file, which is read each time. */
  readonly caFile?: string | undefined
  /** Timeout for a whole document. */
  readonly timeoutMs?: number
}

const mostBytes = 1_048_576

/** Reads over https, and over http only from this machine. Redirects are not followed. */
export function createReadDocument(options: DocumentOptions = {}): ReadDocument {
  const { caFile, timeoutMs = 5_000 } = options

  return async function readDocument(url, signal) {
    if (!isTrustworthy(url)) throw new Error(`${url} is neither https nor on this machine`)
    const deadline = AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)])
    const ca = options.ca ?? (caFile === undefined ? undefined : await readFile(caFile))
    const answer = await new Promise<IncomingMessage>((resolve, reject) => {
      const request = { signal: deadline, agent: false, headers: { accept: 'application/json' } }
      const get = url.startsWith('https:')
        ? getHttps(url, { ...request, ...(ca && { ca }) }, resolve)
        : getHttp(url, request, resolve)
      get.on('error', reject)
    })
    try {
      if (answer.statusCode !== 200) throw new Error(`${url} answered ${answer.statusCode}`)
      const text = await readBody(answer, mostBytes)
      if (text === undefined) throw new Error(`${url} is larger than 1 MiB`)
      return parseObject(url, text)
    } finally {
      answer.destroy()
    }
  }
}

function parseObject(url: string, text: string): JsonObject {
  try {
    const value: unknown = JSON.parse(text)
    if (isObject(value)) return value
  } catch {
    // Reported below: the parser's own message quotes the document.
  }
  throw new Error(`${url} is not a JSON object`)
}
