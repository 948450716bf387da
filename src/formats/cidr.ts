/** IP addresses and networks. An IPv4 address is the same as its mapped IPv6 form. */

/** An IPv6 address as four numbers of 32 bits. */
type Words = readonly [number, number, number, number]

/** The addresses that share their first `bits` bits with `words`. */
export interface Network {
  readonly words: Words
  readonly bits: number
}

const wordBits = 32
/** The third word of mapped IPv4 addresses. */
const mappedPrefix = 0xffff
const zero = 0x30
const dot = 0x2e

/**
 * `192.0.2.0/24`, `2001:db8::/32`, or a single address; undefined if the text is neither, the
 * address has bits beyond the network's, or it has a zone.
 */
export function parseNetwork(raw: string): Network | undefined {
  const [, address = '', length] = /^([^/%]{1,45})(?:\/(0|[1-9]\d{0,2}))?$/.exec(raw) ?? []
  const network = toNetwork(address, length)
  if (network === undefined) return undefined
  const { words, bits } = network
  return bits <= 128 && words.every((word, i) => (word & ~maskOf(bits, i)) === 0)
    ? network
    : undefined
}

/** The networks among these texts; bits of an address beyond its network are ignored. */
export function parseNetworks(raw: readonly string[]): readonly Network[] {
  return raw.flatMap((each) => {
    const [address = '', length] = each.split('/')
    return toNetwork(address, length) ?? []
  })
}

function toNetwork(address: string, length: string | undefined): Network | undefined {
  const words = parseIp(address)
  const before = address.includes(':') ? 0 : 96
  return words && { words, bits: length === undefined ? 128 : before + Number(length) }
}

/** Whether the address is in one of the networks; false for a text that is no address. */
export function isInAnyNetwork(networks: readonly Network[], address: string): boolean {
  const word = parseIpv4(address)
  // On the request path, so without a list of words.
  if (word !== undefined)
    return networks.some((network) => includes(network, 0, 0, mappedPrefix, word))
  const words = parseIp(address)
  return words !== undefined && networks.some((network) => includes(network, ...words))
}

/** Whether all addresses of `inner` are in one of the networks. */
export function containsNetwork(networks: readonly Network[], inner: Network): boolean {
  return networks.some((outer) => outer.bits <= inner.bits && includes(outer, ...inner.words))
}

function includes({ words, bits }: Network, a: number, b: number, c: number, d: number): boolean {
  return (
    ((words[3] ^ d) & maskOf(bits, 3)) === 0 &&
    ((words[2] ^ c) & maskOf(bits, 2)) === 0 &&
    ((words[1] ^ b) & maskOf(bits, 1)) === 0 &&
    ((words[0] ^ a) & maskOf(bits, 0)) === 0
  )
}

/** The bits of word `i` that a network of this length fixes. */
function maskOf(bits: number, i: number): number {
  const own = bits - i * wordBits
  return own <= 0 ? 0 : own >= wordBits ? -1 : -1 << (wordBits - own)
}

/** Parses an address; a zone is ignored. Returns undefined for other text. */
export function parseIp(raw: string): Words | undefined {
  if (!raw.includes(':')) {
    const word = parseIpv4(raw)
    return word === undefined ? undefined : [0, 0, mappedPrefix, word]
  }
  // A zone, which only this machine knows.
  const [address = ''] = raw.split('%')
  const [head = '', tail, more] = address.split('::')
  if (more !== undefined) return undefined
  const first = groupsOf(head, tail === undefined)
  const last = tail === undefined ? [] : groupsOf(tail, true)
  if (first === undefined || last === undefined) return undefined
  const missing = 8 - first.length - last.length
  if (tail === undefined ? missing !== 0 : missing < 1) return undefined
  const groups = [...first, ...Array<number>(missing).fill(0), ...last]
  const word = (i: number) => ((groups[i] as number) << 16) | (groups[i + 1] as number)
  return [word(0), word(2), word(4), word(6)]
}

/** The groups of 16 bits; the last two may be written as an IPv4 address. */
function groupsOf(raw: string, isEnd: boolean): number[] | undefined {
  if (raw === '') return []
  const groups: number[] = []
  const parts = raw.split(':')
  for (const [i, part] of parts.entries()) {
    const ending = isEnd && i === parts.length - 1 ? parseIpv4(part) : undefined
    if (ending !== undefined) groups.push(ending >>> 16, ending & 0xffff)
    else if (/^[0-9a-f]{1,4}$/i.test(part)) groups.push(Number.parseInt(part, 16))
    else return undefined
  }
  return groups
}

/** The IPv4 address whose mapped form this is, if any. */
export function mappedIpv4([a, b, c, d]: Words): string | undefined {
  return a === 0 && b === 0 && c === mappedPrefix ? toIpv4(d) : undefined
}

/** The address of these 32 bits, such as `192.0.2.1`. */
export function toIpv4(word: number): string {
  return [24, 16, 8, 0].map((shift) => (word >>> shift) & 255).join('.')
}

/** The groups of 16 bits, in hexadecimal digits. */
export function toIpv6Groups(words: readonly number[]): readonly string[] {
  return words.flatMap((word) => [word >>> 16, word & 0xffff].map((group) => group.toString(16)))
}

/**
 * The network of an IP address: an IPv4 address itself, or the first 64 bits of an IPv6 address, since its owner has
 * all addresses below them (RFC 6177). Other text is returned unchanged.
 */
export function networkOf(address: string): string {
  const words = address.includes(':') ? parseIp(address) : undefined
  if (words === undefined) return address
  return mappedIpv4(words) ?? `${toIpv6Groups(words.slice(0, 2)).join(':')}::/64`
}

/** Four numbers up to 255 without leading zeros; undefined for other text. */
function parseIpv4(raw: string): number | undefined {
  let word = 0
  let byte = 0
  let digits = 0
  let dots = 0
  for (let i = 0; i < raw.length; i += 1) {
    const code = raw.charCodeAt(i)
    if (code === dot && digits > 0) {
      word = (word << 8) | byte
      byte = 0
      digits = 0
      dots += 1
    } else {
      const digit = code - zero
      if (digit < 0 || digit > 9 || (digits > 0 && byte === 0)) return undefined
      byte = byte * 10 + digit
      digits += 1
      if (byte > 255) return undefined
    }
  }
  return dots === 3 && digits > 0 ? (word << 8) | byte : undefined
}
