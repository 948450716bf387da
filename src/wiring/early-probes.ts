/** The internal listener from the first moment on: alive, and not ready yet. */

import { createServer, type RequestListener, type Server } from 'node:http'
import { createServer as createSecureServer } from 'node:https'
import type { Config } from '../config.ts'
import type { ServerTls } from '../tls/listener-tls.ts'
import { listenServer } from './listen.ts'

/** A start may wait for its database for half a minute, in which a process is not to be taken for dead. */
const answerWith =
  (isReady: () => boolean): RequestListener =>
  ({ url }, response) => {
    const path = url?.replace(/\?.*$/s, '')
    const status = path === '/livez' ? 'alive' : isReady() ? 'ready' : 'not ready'
    const isUnknown = status === 'ready' && path !== '/readyz'
    response
      .writeHead(isUnknown ? 404 : status === 'not ready' ? 503 : 200, {
        'content-type': 'application/json; charset=utf-8',
        connection: 'close',
        ...(status === 'not ready' && { 'retry-after': '2' }),
      })
      .end(isUnknown ? '' : JSON.stringify({ status }))
  }

/**
 * Listens at once; rejects with the setting's name when that is not possible. `isReady` is for a process
 * that has no other listener to hand over to.
 */
export async function openEarlyProbes(
  { internalAddress, socketMode }: Pick<Config, 'internalAddress' | 'socketMode'>,
  tls?: ServerTls,
  isReady: () => boolean = () => false,
) {
  const answer = answerWith(isReady)
  const server = tls ? createSecureServer(tls.options, answer) : createServer(answer)
  const address = await listenServer('INTERNAL_ADDRESS', server, internalAddress, socketMode)
  let isOurs = true
  return {
    address,
    /** Has `server` accept what comes from here on, at the same address and without a gap. */
    async handOver(next: Server): Promise<void> {
      isOurs = false
      await new Promise<void>((listening, failed) => {
        next.once('error', failed)
        next.listen(server, () => {
          next.off('error', failed)
          listening()
        })
      })
    },
    /** Safe to call after `handOver`. */
    close(): void {
      // The address is then another server's to close.
      if (isOurs) server.close()
      server.closeAllConnections()
    },
  }
}
