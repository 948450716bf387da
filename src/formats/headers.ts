/** Values of headers: credentials refused, W3C Trace Context, and addresses of clients as gateways and proxies write them. */

import { mappedIpv4, parseIp, toIpv6Groups } from './cidr.ts'

/**
 * The last non-blank value of a header (contract, 1.2); repeated headers arrive joined by commas.
 * Reads from the end, because a header may consist of commas.
 */
export function lastHeaderValue(header: string | undefined): string | undefined {
  if (header === undefined) return undefined
  let end = header.length
  while (end > 0 && isBlank(header[end - 1] as string)) end -= 1
  if (end === 0) return undefined
  return header.slice(header.lastIndexOf(',', end - 1) + 1, end).trim()
}

function isBlank(character: string): boolean {
  return character === ',' || character.trim() === ''
}

/** `www-authenticate` for a refused credential (RFC 6750, 3). Its quoted text is plain ASCII. */
export function bearerChallenge(reason: string): string {
  const description = reason.replace(/[^\x20\x21\x23-\x5b\x5d-\x7e]/g, '?')
  return `Bearer error="invalid_token", error_description="${description}"`
}

const form = /^[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}(?:-.*)?$/
/** Position of the last digit of the flags. */
const flagsAt = 54

/** Whether the header asks for a span; cheap enough to call at every Check. */
export function isTraceSampled(traceparent: string | undefined): boolean {
  if (traceparent === undefined) return false
  const digit = traceparent.charCodeAt(flagsAt)
  // The digits of 0-9 and a-f with the last bit set: 1, 3, 5, 7, 9 and b, d, f.
  return digit < 0x60 ? (digit & 1) === 1 : digit > 0x60 && (digit & 1) === 0
}

/** undefined for an invalid header (version ff, ids of zeros). */
export function parseTraceParent(traceparent: string | undefined) {
  const [, traceId = '', parentId = ''] = form.exec(traceparent ?? '') ?? []
  if (traceId === '' || /^0+$/.test(traceId) || /^0+$/.test(parentId)) return undefined
  if (traceparent?.startsWith('ff')) return undefined
  return { traceId, parentId }
}

/** The trace id of a request; undefined if it has no header or several. */
export function traceIdOf(traceparent: string | readonly string[] | undefined): string | undefined {
  return typeof traceparent === 'string' ? parseTraceParent(traceparent)?.traceId : undefined
}

/** In which the gateway names the client of a request to the API; it removes a client's own. */
export const clientHeader = 'x-tollgate-client'

/** No address is longer, with a zone and a port. */
const maxLength = 80
const maxPort = 65_535

/**
 * The address alone, without port and zone, also from `192.0.2.1:443`, `[2001:db8::1]` and `[2001:db8::1]:443`; an IPv6
 * address in the form of RFC 5952, a mapped IPv4 address as IPv4. Returns undefined for other text.
 */
export function parseClientAddress(raw: string): string | undefined {
  if (raw.length > maxLength) return undefined
  const bare = withoutPort(raw.trim())
  const words = bare === undefined ? undefined : parseIp(bare)
  return words && (mappedIpv4(words) ?? toIpv6(words))
}

/**
 * The client in `x-forwarded-for`: Envoy appends the last address, and each of `hops` trusted proxies in front of it
 * the one before; entries that a client has written precede them. Undefined if the proxies have named none.
 */
export function clientOfForwardedFor(header: string, hops: number): string | undefined {
  let end = header.length
  // From the end, and no further: the beginning may be long.
  for (let hop = 0; hop < hops; hop += 1) {
    end = header.lastIndexOf(',', end - 1)
    if (end <= 0) return undefined
  }
  return parseClientAddress(header.slice(header.lastIndexOf(',', end - 1) + 1, end))
}

/** Several colons and no brackets: an IPv6 address, which then has no port. */
function withoutPort(raw: string): string | undefined {
  const [, bracketed, v4, port] =
    /^(?:\[([^[\]]*:[^[\]]*)\]|([^:[\]]*))(?::(\d{1,5}))?$/.exec(raw) ?? []
  if (port !== undefined && Number(port) > maxPort) return undefined
  return bracketed ?? v4 ?? (raw.includes('[') ? undefined : raw)
}

function toIpv6(words: readonly number[]): string {
  const text = toIpv6Groups(words).join(':')
  // The longest run of zeros, and the first of equal ones; a single zero is not shortened.
  const runs = text.match(/\b0(:0)+\b/g) ?? []
  const zeros = runs.reduce((one, other) => (other.length > one.length ? other : one), '')
  if (zeros === '') return text
  const at = text.search(new RegExp(`\\b${zeros}\\b`))
  return `${text.slice(0, at).replace(/:$/, '')}::${text.slice(at + zeros.length).replace(/^:/, '')}`
}
