/** Resolves an address to listen on. */

import { lookup } from 'node:dns/promises'
import type { ListenOptions } from 'node:net'

/** All addresses of `host:port` or `unix:/path`: a host name may have several. */
export async function findListenAddresses(address: string): Promise<readonly ListenOptions[]> {
  if (address.startsWith('unix:')) return [{ path: address.slice('unix:'.length) }]
  const colon = address.lastIndexOf(':')
  const name = address.slice(0, colon).replace(/^\[(.*)\]$/, '$1')
  const port = Number(address.slice(colon + 1))
  const found = await lookup(name, { all: true })
  return [...new Set(found.map((one) => one.address))].map((host) => ({ host, port }))
}
