/** Where a request comes from: the peer, or what a trusted one says in `x-forwarded-for`. */

import { BlockList, isIP } from 'node:net'
import type { FastifyRequest } from 'fastify'

/** What stands for the peer on a Unix socket, which has no address. */
const local = 'local'
/** Of what a trusted proxy sends in the place of an address. */
const longestAddress = 64

/**
 * Whether a peer is trusted, for Fastify. `networks` are addresses, networks in CIDR form, and
 * `loopback`, which stands for Unix sockets too.
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

/** The address a request comes from, as far as the trusted peers tell. */
export function addressOf(request: FastifyRequest): string {
  // Undefined on a Unix socket, whatever the types say.
  const ip: string | undefined = request.ip
  return (ip ?? local).slice(0, longestAddress)
}

function familyOf(address: string): 'ipv4' | 'ipv6' {
  return isIP(address) === 6 ? 'ipv6' : 'ipv4'
}
