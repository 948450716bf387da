const ipv4Mapped = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i

/**
 * The network of an IP address: an IPv4 address itself, or the first 64 bits of an IPv6 address, since its owner has
 * all addresses below them (RFC 6177). Other text is returned unchanged.
 */
export function networkOf(address: string): string {
  if (!address.includes(':')) return address
  const mapped = ipv4Mapped.exec(address)?.[1]
  if (mapped !== undefined) return mapped
  const [head = '', tail] = address.toLowerCase().split('::')
  const groups = head === '' ? [] : head.split(':')
  if (tail !== undefined) {
    const last = tail === '' ? [] : tail.split(':')
    while (groups.length + last.length < 8) groups.push('0')
    groups.push(...last)
  }
  return `${groups
    .slice(0, 4)
    .map((group) => group.replace(/^0+(?=.)/, ''))
    .join(':')}::/64`
}
