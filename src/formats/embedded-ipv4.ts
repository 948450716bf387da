/** IPv4 addresses within IPv6 addresses, to which a host, router or tunnel may connect instead. */

import { parseNetwork, toIpv4 } from './cidr.ts'

/**
 * The IPv4 addresses that `address` may lead to: mapped, compatible and translated ones (RFC 4291, 2765), of NAT64 (RFC
 * 6052, 8215) and of 6to4 (RFC 3056). None for other text.
 */
export function embeddedIpv4(address: string): readonly string[] {
  const words = address.includes(':') ? parseNetwork(address)?.words : undefined
  return words === undefined ? [] : wordsIn(...words).map(toIpv4)
}

function wordsIn(a: number, b: number, c: number, d: number): readonly number[] {
  const isMapped = c === 0xffff || c >>> 16 === 0xffff
  if (a === 0 && b === 0) return isMapped || (c === 0 && d >>> 16 !== 0) ? [d] : []
  if (a >>> 16 === 0x2002) return [(a << 16) | (b >>> 16)]
  if (a !== 0x64ff9b) return []
  if (b === 0) return [d]
  // Only its translator knows the length of this prefix: 96, or 48, 56 or 64 without bits 64 to 71. A result in
  // 0.0.0.0/8 is not valid.
  const others = [
    (b << 16) | ((c >>> 8) & 0xffff),
    (b << 24) | (c & 0xffffff),
    (c << 8) | (d >>> 24),
  ]
  return b >>> 16 === 1 ? [d, ...others].filter((word) => word >>> 24 !== 0) : []
}
