/** The internal listener from the first moment on: alive, and not ready. */

import { createServer, type RequestListener, type Server } from 'node:http'
import { createServer as createSecureServer } from 'node:https'
import type { SocketAddress } from '../config.ts'
import type { ServerTls } from '../tls/listener-tls.ts'
import { listenServer } from './listen.ts'

export interface EarlyProbes {
  readonly address: SocketAddress
  /** Has `server` accept what comes from here on, on the same port and without a gap. */
  handOver(server: Server): Promise<void>
  /** Safe to call after `handOver`. */
  close(): void
}

/** A start may wait for its database for half a minute, in which a process is not to be taken for dead. */
const answer: RequestListener = ({ url }, response) => {
  const isAlive = url?.replace(/\?.*$/s, '') === '/livez'
  const status = isAlive ? 'alive' : 'not ready'
  response
    .writeHead(isAlive ? 200 : 503, {
      'content-type': 'application/json; charset=utf-8',
      connection: 'close',
      ...(!isAlive && { 'retry-after': '2' }),
    })
    .end(JSON.stringify({ status }))
}

/** Listens at once; rejects with the setting's name when that is not possible. */
export async function openEarlyProbes(at: SocketAddress, tls?: ServerTls): Promise<EarlyProbes> {
  const server = tls ? createSecureServer(tls.options, answer) : createServer(answer)
  const address = await listenServer('INTERNAL_ADDRESS', server, at)
  let isOurs = true
  return {
    address,
    async handOver(next) {
      isOurs = false
      await new Promise<void>((listening, failed) => {
        next.once('error', failed)
        next.listen(server, () => {
          next.off('error', failed)
          listening()
        })
      })
    },
    close() {
      // The port is then another server's to close.
      if (isOurs) server.close()
      server.closeAllConnections()
    },
  }
}
