/** Opens listeners; an error names the setting. */

import { once } from 'node:events'
import { chmodSync, lstatSync, rmSync } from 'node:fs'
import type { Server } from 'node:http'
import { type AddressInfo, connect } from 'node:net'
import type { FastifyInstance } from 'fastify'
import { type Address, formatAddress } from '../formats/address.ts'

/**
 * Listens at an address. `setting`: the name that errors give; `socketMode`: the file mode of a Unix socket. Returns the
 * address with the actual port if it was 0, as do the other functions.
 */
export async function listenHttp<At extends Address>(
  setting: string,
  app: FastifyInstance,
  at: At,
  socketMode = 0o600,
): Promise<At> {
  await app.ready()
  // Fastify logs its address in a line without a code; the line `ready` has it already.
  const { log } = app
  app.log = Object.create(log, { info: { value: () => {} } })
  await named(setting, at, socketMode, () => app.listen({ ...at })).finally(() => {
    app.log = log
  })
  return 'path' in at ? at : { ...at, port: (app.server.address() as AddressInfo).port }
}

/** The same for a server of Node. */
export async function listenServer<At extends Address>(
  setting: string,
  server: Server,
  at: At,
  socketMode = 0o600,
): Promise<At> {
  await named(setting, at, socketMode, async () => {
    server.listen({ ...at })
    await once(server, 'listening')
  })
  return 'path' in at ? at : { ...at, port: (server.address() as AddressInfo).port }
}

/** The same for the gRPC server, at GRPC_ADDRESS. */
export async function listenGrpc(
  server: { listen(address: string): Promise<number> },
  at: Address,
  socketMode: number,
): Promise<Address> {
  const port = await named('GRPC_ADDRESS', at, socketMode, () => server.listen(formatAddress(at)))
  return 'path' in at ? at : { ...at, port }
}

async function named<Result>(
  setting: string,
  at: Address,
  socketMode: number,
  listen: () => Promise<Result>,
): Promise<Result> {
  try {
    if ('path' in at) await removeStaleSocket(at.path)
    const result = await listen()
    // Permission to write is permission to connect.
    if ('path' in at) chmodSync(at.path, socketMode)
    return result
  } catch (error) {
    const taken = /EADDRINUSE/.test(String(error))
    const why = taken ? 'is already taken' : 'cannot be listened on'
    throw new Error(`${setting}: ${formatAddress(at)} ${why}`, { cause: error })
  }
}

/**
 * Removes a socket on which no process listens, for example after a kill. Other files are not removed, nor are sockets
 * in use; listening there then fails.
 */
async function removeStaleSocket(path: string): Promise<void> {
  if (!lstatSync(path, { throwIfNoEntry: false })?.isSocket()) return
  const socket = connect(path)
  try {
    await once(socket, 'connect')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ECONNREFUSED') rmSync(path, { force: true })
  } finally {
    socket.destroy()
  }
}
