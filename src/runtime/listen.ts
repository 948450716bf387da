/** Opens listeners; an error names the setting. */

import { once } from 'node:events'
import type { Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { FastifyInstance } from 'fastify'
import { type Address, showAddress } from '../formats/address.ts'
import { openSocket, removeStaleSocket } from './unix-socket.ts'

/** Returns the address with the actual port if it was 0, as do the other functions. */
export async function listenHttp<At extends Address>(
  setting: string,
  app: FastifyInstance,
  at: At,
  socketMode = 0o600,
): Promise<At> {
  await app.ready()
  await named(setting, at, socketMode, () => app.listen({ ...at }))
  return 'path' in at ? at : { ...at, port: (app.server.address() as AddressInfo).port }
}

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

export async function listenGrpc(
  server: { listen(address: string): Promise<number> },
  at: Address,
  socketMode: number,
): Promise<Address> {
  const port = await named('GRPC_ADDRESS', at, socketMode, () => server.listen(showAddress(at)))
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
    if ('path' in at) openSocket(at.path, socketMode)
    return result
  } catch (error) {
    const taken = /EADDRINUSE/.test(String(error))
    const why = taken ? 'is already taken' : 'cannot be listened on'
    throw new Error(`${setting}: ${showAddress(at)} ${why}`, { cause: error })
  }
}
