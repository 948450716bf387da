/** The address of a request: the peer's, or the one in `x-forwarded-for` of a trusted peer. */

import { BlockList, isIP } from 'node:net'
import type { FastifyRequest } from 'fastify'

/** Stands for the peer of a Unix socket, which has no address. */
const local = 'local'
/** The longest text that a trusted proxy may send as an address. */
const maxAddressLength = 64

/**
 * Whether a peer is trusted, for Fastify. `networks` are addresses, networks in CIDR notation, and
 * `loopback`, which includes Unix sockets.
 */
export function trustPeers(networks: readonly string[]): (address?: string) => boolean {
  const list = new BlockList()
  for (const network of networks.flatMap((one) =>
    one === 'loopback' ? ['127.0.0.0/8', '::1'] : one,
  )) {
    const [address = '', bits] = network.split('/')
    const family = familyOf(address)
    if (bits === undefined) list.addAddress(address, family)
    else list.addSubnet(address, Number(bits), family)
  }
  const trustsLocal = networks.includes('loopback')
  return (address) => {
    if (address === undefined) return trustsLocal
    const [plain = ''] = address.split('%')
    return isIP(plain) !== 0 && list.check(plain, familyOf(plain))
  }
}

/** The address of a request, according to the trusted peers. */
export function addressOf(request: FastifyRequest): string {
  // Undefined on a Unix socket, despite its type.
  const ip: string | undefined = request.ip
  return (ip ?? local).slice(0, maxAddressLength)
}

function familyOf(address: string): 'ipv4' | 'ipv6' {
  return isIP(address) === 6 ? 'ipv6' : 'ipv4'
}
