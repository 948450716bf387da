/** Reads an OIDC provider's documents, limited in time and size, and never from another place. */

import { readFile } from 'node:fs/promises'
import { isObject, type JsonObject } from '../../formats/fields.ts'
import { parseJson } from '../../formats/parse-json.ts'
import { isTrustworthy } from '../../formats/trustworthy.ts'
import { readResponseBody, sendRequest } from '../../runtime/http-request.ts'

/** Reads a JSON object, posting a form if there is one. Rejects with a message for the log. */
export type ReadDocument = (
  url: string,
  signal: AbortSignal,
  form?: URLSearchParams,
) => Promise<JsonObject>

interface DocumentOptions {
  /** Certificates (PEM) of the authorities to use instead of the default ones. */
  readonly ca?: string | undefined
  /** A file with such certificates, which is read for each document. */
  readonly caFile?: string | undefined
  /** Timeout for a whole document. */
  readonly timeoutMs?: number
}

const maxBytes = 1_048_576

/** Reads over https, and over http only from this machine. Redirects are not followed. */
export function createDocumentReader(options: DocumentOptions = {}): ReadDocument {
  const { caFile, timeoutMs = 5_000 } = options

  return async function readDocument(url, signal, form) {
    if (!isTrustworthy(url)) throw new Error(`${url} is neither https nor on this machine`)
    const deadline = AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)])
    const ca = options.ca ?? (caFile === undefined ? undefined : await readFile(caFile))
    const request = {
      method: form ? 'POST' : 'GET',
      headers: {
        accept: 'application/json',
        ...(form && { 'content-type': 'application/x-www-form-urlencoded' }),
      },
      ...(form && { body: form.toString() }),
      signal: deadline,
      agent: false,
      ...(ca && { ca }),
    } as const
    const response = await sendRequest(url, request)
    if (response.statusCode !== 200) {
      response.destroy()
      throw new Error(`${url} answered ${response.statusCode}`)
    }
    const text = await readResponseBody(response, maxBytes)
    if (text === undefined) throw new Error(`${url} is larger than 1 MiB, or in too many pieces`)
    const value = parseJson(text)
    if (!isObject(value)) throw new Error(`${url} is not a JSON object`)
    return value
  }
}
