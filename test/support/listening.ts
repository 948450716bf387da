import { once } from 'node:events'
import type { Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Test } from 'tap'

/**
 * Makes a server listen on this machine until `t` ends, even if clients are connected then; returns
 * the port.
 */
export async function listenLocally(t: Test, server: Server): Promise<number> {
  // Node's default of 511 drops connections of a client that opens thousands at once.
  server.listen({ port: 0, host: '127.0.0.1', backlog: 4_096 })
  await once(server, 'listening')
  t.teardown(() => {
    server.close()
    server.closeAllConnections()
  })
  return (server.address() as AddressInfo).port
}
