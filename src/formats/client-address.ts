/** Addresses of clients as gateways and proxies write them, in one normal form. */

import { parseIp } from './cidr.ts'

/** No address has more characters, with a zone and a port. */
const maxLength = 80
const maxPort = 65_535
const mapped = 0xffff

/**
 * The address alone: of `192.0.2.1:443`, `[2001:db8::1]` and `[2001:db8::1]:443` too, without port and
 * zone; an IPv6 address as RFC 5952 writes it, a mapped IPv4 address as that. undefined: no address.
 */
export function readClientAddress(raw: string): string | undefined {
  if (raw.length > maxLength) return undefined
  const bare = withoutPort(raw.trim())
  const words = bare === undefined ? undefined : parseIp(bare)
  if (words === undefined) return undefined
  const [a, b, c, d] = words
  return a === 0 && b === 0 && c === mapped ? toIpv4(d) : toIpv6(words)
}

/**
 * The client in `x-forwarded-for`, to which Envoy has appended the last address and each of `hops`
 * trusted proxies in front of it the one before; what a client has written precedes them. undefined:
 * they have named none.
 */
export function readForwarded(header: string, hops: number): string | undefined {
  let end = header.length
  // From the end, and no further: the beginning may be long.
  for (let hop = 0; hop < hops; hop += 1) {
    end = header.lastIndexOf(',', end - 1)
    if (end <= 0) return undefined
  }
  return readClientAddress(header.slice(header.lastIndexOf(',', end - 1) + 1, end))
}

/** Two colons and no brackets: an IPv6 address, which has no port then. */
function withoutPort(raw: string): string | undefined {
  const [, bracketed, v4, port] =
    /^(?:\[([^[\]]*:[^[\]]*)\]|([^:[\]]*))(?::(\d{1,5}))?$/.exec(raw) ?? []
  if (port !== undefined && Number(port) > maxPort) return undefined
  return bracketed ?? v4 ?? (raw.includes('[') ? undefined : raw)
}

function toIpv4(word: number): string {
  return [24, 16, 8, 0].map((shift) => (word >>> shift) & 255).join('.')
}

function toIpv6(words: readonly number[]): string {
  const groups = words.flatMap((word) => [word >>> 16, word & 0xffff])
  const text = groups.map((group) => group.toString(16)).join(':')
  // The longest run of zeros, of equals the first; a single one is not shortened.
  const runs = text.match(/\b0(:0)+\b/g) ?? []
  const zeros = runs.reduce((one, other) => (other.length > one.length ? other : one), '')
  if (zeros === '') return text
  const at = text.search(new RegExp(`\\b${zeros}\\b`))
  return `${text.slice(0, at).replace(/:$/, '')}::${text.slice(at + zeros.length).replace(/^:/, '')}`
}
