/** The probes during the start: alive, and not ready yet. */

import { once } from 'node:events'
import type { RequestListener, Server } from 'node:http'
import { createServer as createSecureServer } from 'node:https'
import type { Address } from '../../formats/address.ts'
import { errorBody, errorEntry } from '../../formats/errors.ts'
import { hopHeader, isOwnHop } from '../../formats/hop-mark.ts'
import { listenServer } from '../../runtime/listen.ts'
import { createServer } from '../../runtime/node-http.ts'
import type { ServerTls } from '../../tls/listener-tls.ts'

/** A process may wait half a minute for its database as it starts; probes must not kill it. */
const listenerOf =
  (isReady: () => boolean, hopMark: string): RequestListener =>
  ({ url, headers }, response) => {
    if (isOwnHop(headers[hopHeader], hopMark)) {
      response
        .writeHead(errorEntry('loop_detected').status, { 'content-type': 'application/json' })
        .end(JSON.stringify(errorBody('loop_detected')))
      return
    }
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

interface EarlyProbeSettings {
  readonly internalAddress: Address
  readonly socketMode: number
  readonly hopMark: string
}

/**
 * Listens at once; rejects with the setting's name if that fails. `isReady` is for a process
 * without another listener to take over.
 */
export async function openEarlyProbes(
  { internalAddress, socketMode, hopMark }: EarlyProbeSettings,
  tls?: ServerTls,
  isReady: () => boolean = () => false,
) {
  const listener = listenerOf(isReady, hopMark)
  const server = tls ? createSecureServer(tls.options, listener) : createServer(listener)
  const address = await listenServer('INTERNAL_ADDRESS', server, internalAddress, socketMode)
  let isOurs = true
  return {
    address,
    /**
     * Passes the socket to `server`, which accepts from now on at the same address; without a gap at a
     * TCP address, where probes of a kubelet arrive.
     */
    async handOver(next: Server): Promise<void> {
      isOurs = false
      if ('path' in address) {
        // The system does not let two servers listen on one Unix socket.
        server.close()
        await listenServer('INTERNAL_ADDRESS', next, address, socketMode)
        return
      }
      next.listen(server)
      await once(next, 'listening')
    },
    /** May be called after `handOver`. */
    close(): void {
      // Otherwise the other server closes the address.
      if (isOurs) server.close()
      server.closeAllConnections()
    },
  }
}
