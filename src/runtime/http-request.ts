/** Sends HTTP requests, with TLS or without, over TCP or a Unix socket. */

import type { IncomingMessage } from 'node:http'
import https, { type RequestOptions } from 'node:https'
import { finished } from 'node:stream'
import { type Address, loopbackIfWildcard } from '../formats/address.ts'
import { request } from './node-http.ts'

interface HttpRequest extends RequestOptions {
  readonly body?: string
  /** Called once the request has a connection. */
  readonly onConnect?: () => void
}

/** Interim responses (1xx) before a response, each of which costs as much as a request: a server may send them without end. */
const maxInterim = 10
/** Pieces of a body, besides one for each 256 bytes: a server may send single bytes, as fast as others send kilobytes. */
const maxPieces = 10_000
const bytesPerPiece = 256

/**
 * Resolves with the head of the response, regardless of its status; the caller reads or destroys it. Rejects if there
 * is no response, or too many interim ones. Redirects are not followed. The scheme of `url` decides about TLS; options
 * replace its other parts.
 */
export function sendRequest(url: string | URL, asked: HttpRequest): Promise<IncomingMessage> {
  const { body, onConnect, ...options } = asked
  const send = new URL(url).protocol === 'https:' ? https.request : request
  return new Promise((resolve, reject) => {
    let interim = 0
    const sent = send(url, options, resolve)
      .on('error', reject)
      .on('information', () => {
        interim += 1
        if (interim > maxInterim) sent.destroy(new Error('it sends interim responses without end'))
      })
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
export function requestOptionsOf(address: Address): RequestOptions {
  if ('path' in address) return { socketPath: address.path }
  return { hostname: loopbackIfWildcard(address.host), port: address.port }
}

/** The text of a response; undefined if it has more than `maxBytes` bytes, or too many pieces; the rest is not read. */
export function readResponseBody(
  response: IncomingMessage,
  maxBytes: number,
): Promise<string | undefined> {
  const pieces: Uint8Array[] = []
  let size = 0
  return new Promise((resolve, reject) => {
    // Piece by piece: an iterator gets all those of a packet as one, after they were read.
    response.on('data', (piece: Uint8Array) => {
      pieces.push(piece)
      size += piece.byteLength
      if (size <= maxBytes && pieces.length <= maxPieces + size / bytesPerPiece) return
      resolve(undefined)
      response.destroy()
    })
    finished(response, (error) => (error ? reject(error) : resolve(`${Buffer.concat(pieces)}`)))
  })
}
