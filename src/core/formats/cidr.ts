/** IP addresses and networks in CIDR notation. An IPv4 address is the same as its mapped IPv6 form. */

/** An IPv6 address as four numbers of 32 bits. */
type Words = readonly [number, number, number, number]

/** The addresses whose first `bits` bits are those of `words`. */
export interface Network {
  readonly words: Words
  readonly bits: number
}

const wordBits = 32
const mapped = [0, 0, 0xffff] as const
const ipv4 = /^(0|[1-9]\d{0,2})\.(0|[1-9]\d{0,2})\.(0|[1-9]\d{0,2})\.(0|[1-9]\d{0,2})$/

/**
 * `192.0.2.0/24`, `2001:db8::/32`, or a single address; undefined if the text is neither, or the
 * address has bits beyond the network's.
 */
export function parseNetwork(written: string): Network | undefined {
  const [, address = '', length] = /^([^/]{1,45})(?:\/(0|[1-9]\d{0,2}))?$/.exec(written) ?? []
  const words = parseIp(address)
  if (words === undefined) return undefined
  const before = address.includes(':') ? 0 : 96
  const bits = length === undefined ? 128 : before + Number(length)
  const network = { words, bits }
  return bits <= 128 && words.every((word, i) => (word & ~maskOf(bits, i)) === 0)
    ? network
    : undefined
}

/** Whether the address is in one of the networks; false for a text that is no address. */
export function isWithinAny(networks: readonly Network[], address: string): boolean {
  const words = parseIp(address)
  return words !== undefined && networks.some((network) => includes(network, words))
}

/** Whether all addresses of `inner` are in one of the networks. */
export function isInside(networks: readonly Network[], inner: Network): boolean {
  return networks.some((outer) => outer.bits <= inner.bits && includes(outer, inner.words))
}

function includes({ words, bits }: Network, address: Words): boolean {
  for (let i = 0; i < words.length; i += 1) {
    if ((((words[i] as number) ^ (address[i] as number)) & maskOf(bits, i)) !== 0) return false
  }
  return true
}

/** The bits of word `i` that a network of this length fixes. */
function maskOf(bits: number, i: number): number {
  const own = bits - i * wordBits
  return own <= 0 ? 0 : own >= wordBits ? -1 : -1 << (wordBits - own)
}

function parseIp(written: string): Words | undefined {
  if (!written.includes(':')) {
    const word = parseIpv4(written)
    return word === undefined ? undefined : [...mapped, word]
  }
  // A zone, which only this machine knows.
  const [address = ''] = written.split('%')
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
function groupsOf(written: string, isEnd: boolean): number[] | undefined {
  if (written === '') return []
  const groups: number[] = []
  const parts = written.split(':')
  for (const [i, part] of parts.entries()) {
    const ending = isEnd && i === parts.length - 1 ? parseIpv4(part) : undefined
    if (ending !== undefined) groups.push(ending >>> 16, ending & 0xffff)
    else if (/^[0-9a-f]{1,4}$/i.test(part)) groups.push(Number.parseInt(part, 16))
    else return undefined
  }
  return groups
}

function parseIpv4(written: string): number | undefined {
  const parts = ipv4.exec(written)
  if (parts === null) return undefined
  let word = 0
  for (let i = 1; i <= 4; i += 1) {
    const byte = Number(parts[i])
    if (byte > 255) return undefined
    word = (word << 8) | byte
  }
  return word
}
