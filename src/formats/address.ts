/** Addresses to listen on or connect to, as in settings and logs. */

export interface SocketAddress {
  readonly host: string
  readonly port: number
}

/** A TCP address or a Unix socket's path. */
export type Address = SocketAddress | { readonly path: string }

/** Parses `host:port` or `[v6]:port`; an empty host means every IPv4 interface. Returns undefined for other text. */
export function parseSocketAddress(raw: string): SocketAddress | undefined {
  const parts = /^(?:\[([0-9a-fA-F:.]+)\]|([^:[\]/\s]*)):(\d{1,5})$/.exec(raw)
  if (parts === null || Number(parts[3]) > 65_535) return undefined
  return { host: parts[1] ?? (parts[2] || '0.0.0.0'), port: Number(parts[3]) }
}

/** Parses `host:port`, `[v6]:port`, `unix:/path` or `unix:///path`. */
export function parseAddress(raw: string): Address | undefined {
  const path = /^unix:(?:\/\/)?(\/.+)$/.exec(raw)?.[1]
  return path === undefined ? parseSocketAddress(raw) : { path }
}

/** Where a URL leads; `plainPort` if it names no port and no TLS. */
export function addressOfUrl({ hostname, port, protocol }: URL, plainPort = 80): SocketAddress {
  return {
    // URL keeps the brackets of an IPv6 address.
    host: hostname.replace(/^\[|\]$/g, ''),
    port: port === '' ? (protocol === 'https:' ? 443 : plainPort) : Number(port),
  }
}

/** The address at which this machine reaches a listener on every interface: one on `::` is for IPv4, too. */
export function loopbackIfWildcard(host: string): string {
  return host === '0.0.0.0' || host === '::' ? '127.0.0.1' : host
}

/** A kernel without IPv6 opens no socket on `::`, and then every interface is every IPv4 interface. */
export function listenable<T extends Address>(address: T, hasIpv6: boolean): T {
  return !hasIpv6 && 'host' in address && address.host === '::'
    ? { ...address, host: '0.0.0.0' }
    : address
}

/** The address as in settings and logs. */
export function formatAddress(address: Address): string {
  if ('path' in address) return `unix:${address.path}`
  return address.host.includes(':')
    ? `[${address.host}]:${address.port}`
    : `${address.host}:${address.port}`
}
