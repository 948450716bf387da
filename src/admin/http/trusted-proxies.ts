/** The address of a request: the peer's, or the one in `x-forwarded-for` of a trusted peer. */

import type { FastifyRequest } from 'fastify'
import { isInAnyNetwork, parseNetworks } from '../../formats/cidr.ts'
import { clientHeader, clientOfForwardedFor, parseClientAddress } from '../../formats/headers.ts'

/** In place of the address of a Unix socket's peer, which has none. */
const local = 'local'
/** The longest text that a trusted proxy may send as an address. */
const maxAddressLength = 64

/**
 * Whether a peer is trusted, for Fastify. `networks` are addresses, networks in CIDR notation, and
 * `loopback`, which includes Unix sockets.
 */
export function trustPeers(networks: readonly string[]): (address?: string) => boolean {
  const trusted = parseNetworks(
    networks.flatMap((one) => (one === 'loopback' ? ['127.0.0.0/8', '::1'] : one)),
  )
  const trustsLocal = networks.includes('loopback')
  return (address) => (address === undefined ? trustsLocal : isInAnyNetwork(trusted, address))
}

/** `trustPeers` for entries of `x-forwarded-for`, which may have a port. */
export function trustForwarded(networks: readonly string[]): (address?: string) => boolean {
  const trusts = trustPeers(networks)
  return (address) => trusts(address && (parseClientAddress(address) ?? address))
}

/** The address of a request, according to the trusted peers, in its normal form. */
export function addressOf(request: FastifyRequest): string {
  // Undefined on a Unix socket, despite its type.
  const ip: string | undefined = request.ip
  return ip === undefined ? local : (parseClientAddress(ip) ?? ip.slice(0, maxAddressLength))
}

/**
 * The address that Check would see for the request. If the peer is trusted, it is the gateway: it names its own peer in
 * `x-tollgate-client`, which counts without trusted hops, or the client in `x-forwarded-for`. Otherwise it is the
 * peer's address. Undefined if the gateway names none.
 */
export function gatewayAddressOf(
  { raw, headers }: FastifyRequest,
  trusts: (address?: string) => boolean,
  trustedHops: number,
): string | undefined {
  const { remoteAddress: peer } = raw.socket
  const direct = headers[clientHeader]?.toString()
  if (trusts(peer) && direct !== undefined && trustedHops === 0) return parseClientAddress(direct)
  const forwarded = headers['x-forwarded-for']?.toString()
  if (trusts(peer) && (forwarded !== undefined || trustedHops > 0)) {
    return forwarded && clientOfForwardedFor(forwarded, trustedHops)
  }
  return peer && parseClientAddress(peer)
}
