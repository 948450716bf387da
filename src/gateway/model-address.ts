/**
 * Which addresses models may have. This is defence in depth: requests that reach our own listeners under
 * another name are refused by their mark (src/formats/hop-mark.ts).
 */

import { isIP } from 'node:net'
import { addressOfUrl } from '../formats/address.ts'
import { isInAnyNetwork, parseNetwork, parseNetworks, toIpv4 } from '../formats/cidr.ts'
import type { CheckAddress } from '../models/rules/refuse-addresses.ts'

export interface AddressRules {
  /** Our own listeners, by setting. */
  readonly listeners: readonly {
    readonly setting: string
    readonly host: string
    readonly port: number
  }[]
  /** Host names, addresses, networks in CIDR notation and `loopback` that are open otherwise. */
  readonly allowed: readonly string[]
  /** Whether models may be on this machine: their authors are its operators. */
  readonly opensLoopback: boolean
}

const loopback = ['127.0.0.0/8', '::1']
const firstLocal = ['127.0.0.1', '::1']
/** Connections to these addresses reach this machine. */
const unspecified = ['0.0.0.0/8', '::']
/** Link-local networks, and the metadata services outside of them: AWS, Google, Azure, Oracle, Alibaba. */
const linkLocal = [
  ...['169.254.0.0/16', 'fe80::/10'],
  ...['fd00:ec2::254', 'fd20:ce::254', '168.63.129.16', '192.0.0.192', '100.100.100.200'],
]
const metadataNames = [
  ...['metadata', 'metadata.google.internal', 'metadata.goog', 'instance-data'],
  ...['instance-data.ec2.internal', 'metadata.azure.internal', 'metadata.tencentyun.com'],
]
const localNames = /^(?:.+\.)?localhost(?:\.localdomain)?$|^ip6-(?:localhost|loopback)$/

/** Checks addresses by these rules. Names are compared, not resolved. */
export function createAddressRules({
  listeners,
  allowed,
  opensLoopback,
}: AddressRules): CheckAddress {
  const isLocalAddress = toList([...loopback, ...unspecified])
  const isAny = toList(unspecified)
  const isLinkLocal = toList(linkLocal)
  const networks = allowed.flatMap((item) => (item === 'loopback' ? loopback : item))
  const isAllowedAddress = toList(networks)
  const isLocal = (host: string): boolean => localNames.test(host) || isLocalAddress(host)
  const isAllowed = (host: string): boolean =>
    allowed.includes(host) ||
    isAllowedAddress(host) ||
    (allowed.includes('loopback') && isLocal(host))

  /** Whether connections to `host` may arrive at a listener on `own`, with the same port. */
  function reaches(host: string, own: string): boolean {
    if (host === own) return true
    if (!isLocal(host)) return false
    // Every other spelling of this machine, but not another address of the loopback network.
    return (
      isAny(own) || (isLocal(own) && (isIP(host) === 0 || isAny(host) || firstLocal.includes(host)))
    )
  }

  return (backendUrl) => {
    const url = URL.parse(backendUrl)
    if (url === null) return undefined
    const { host, port } = addressOfUrl(url)
    const hosts = spellingsOf(host)
    const own = listeners.find(
      (each) =>
        each.port === port &&
        spellingsOf(each.host).some((own) => hosts.some((host) => reaches(host, own))),
    )
    if (own !== undefined) {
      return `leads to ${own.setting} of the gateway itself; use the address of the model's server`
    }
    // An address that is allowed as it is written may contain any other.
    if (isAllowed(hosts[0] as string)) return undefined
    const closed = hosts.filter((host) => !isAllowed(host))
    const metadata = closed.find((host) => isLinkLocal(host) || metadataNames.includes(host))
    if (metadata !== undefined) {
      return `leads to a link-local address or a metadata service (${metadata}), which MODEL_ADDRESSES_ALLOWED does not name`
    }
    const local = opensLoopback ? undefined : closed.find(isLocal)
    if (local !== undefined) {
      return `leads to the gateway's own machine (${local}), which MODEL_ADDRESSES_ALLOWED does not name`
    }
    return undefined
  }
}

/** A host as URL normalizes it, and the IPv4 addresses that may be meant by it. */
function spellingsOf(written: string): readonly string[] {
  const host = written
    .toLowerCase()
    .replace(/^\[|\]$/g, '')
    .replace(/\.$/, '')
  return [host, ...embeddedIpv4(host)]
}

function toList(networks: readonly string[]): (host: string) => boolean {
  const list = parseNetworks(networks)
  return (host) => isInAnyNetwork(list, host)
}

/**
 * The IPv4 addresses that an IPv6 address may lead to, if a host, router or tunnel connects to them instead: mapped,
 * compatible and translated ones (RFC 4291, 2765), of NAT64 (RFC 6052, 8215) and of 6to4 (RFC 3056). None for other
 * text.
 */
function embeddedIpv4(address: string): readonly string[] {
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
