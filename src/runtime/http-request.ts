/** Sends HTTP requests, with TLS or without, over TCP or a Unix socket. */

import type { IncomingMessage } from 'node:http'
import https, { type RequestOptions } from 'node:https'
import { type Address, loopbackIfWildcard } from '../formats/address.ts'
import { request } from './node-http.ts'

interface HttpRequest extends RequestOptions {
  readonly body?: string
  /** Called once the request has a connection. */
  readonly onConnect?: () => void
}

/**
 * Resolves with the head of the response, regardless of its status; the caller reads or destroys it. Rejects if there
 * is no response. Redirects are not followed. The scheme of `url` decides about TLS; options replace its other parts.
 */
export function sendRequest(url: string | URL, asked: HttpRequest): Promise<IncomingMessage> {
  const { body, onConnect, ...options } = asked
  const send = new URL(url).protocol === 'https:' ? https.request : request
  return new Promise((resolve, reject) => {
    const sent = send(url, options, resolve).on('error', reject)
    if (onConnect !== undefined) {
      sent.once('socket', (socket) => {
        if (socket.connecting) socket.once('connect', onConnect)
        else onConnect()
      })
    }
    sent.end(body)
  })
}

/** The options for a listener on this machine, or for a Unix socket. */
export function targetOf(address: Address): RequestOptions {
  if ('path' in address) return { socketPath: address.path }
  return { hostname: loopbackIfWildcard(address.host), port: address.port }
}

/** The text of a response; undefined if it has more than `maxBytes` bytes, whose rest is not read. */
export async function readBody(
  response: IncomingMessage,
  maxBytes: number,
): Promise<string | undefined> {
  const chunks: Uint8Array[] = []
  let size = 0
  // Leaving the loop in any way destroys the response.
  for await (const chunk of response) {
    size += chunk.byteLength
    if (size > maxBytes) return undefined
    chunks.push(chunk)
  }
  return Buffer.concat(chunks).toString()
}
