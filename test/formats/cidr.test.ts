import { BlockList, isIP } from 'node:net'
import { test } from 'tap'
import {
  containsNetwork,
  isInAnyNetwork,
  type Network,
  parseNetwork,
} from '../../src/formats/cidr.ts'
import { createRandom, type Random } from '../support/random.ts'

function networks(...written: string[]): readonly Network[] {
  return written.map((each) => {
    const network = parseNetwork(each)
    if (network === undefined) throw new Error(each)
    return network
  })
}

test('networks and single addresses are read', async (t) => {
  for (const good of [
    '0.0.0.0/0',
    '192.0.2.0/24',
    '192.0.2.1',
    '192.0.2.1/32',
    '::/0',
    '2001:db8::/32',
  ]) {
    t.ok(parseNetwork(good), good)
  }
  t.ok(parseNetwork('2001:DB8::1'))
  t.strictSame(parseNetwork('::ffff:192.0.2.0/120'), parseNetwork('192.0.2.0/24'))
})

test('other text, and bits beyond the length, are refused', async (t) => {
  for (const bad of [
    ...['', 'localhost', '192.0.2', '192.0.2.256', '192.0.02.1', '192.0.2.1.1', '0x7f.1.1.1'],
    ...['192.0.2.0/33', '192.0.2.0/-1', '192.0.2.0/024', '192.0.2.0/', '192.0.2.0/24/1', '/24'],
    ...['fe80::1%eth0', 'fe80::%1/64'],
    ...['192.0.2.1/24', '11.0.0.0/7', '2001:db8::1/64', '::1/0', '2001:db8::/129'],
    ...[
      '2001:db8',
      '1::2::3',
      ':::',
      '12345::',
      '1:2:3:4:5:6:7:8:9',
      '1:2:3:4:5:6:7::8:9',
      '::1.2.3',
    ],
    ...[
      '::1.2.3.4:1',
      '1.2.3.4::',
      ' ::1',
      '::1 ',
      '192.0.2.0/24\n',
      '٣.0.0.1',
      `${'1:'.repeat(40)}:`,
    ],
  ]) {
    t.equal(parseNetwork(bad), undefined, JSON.stringify(bad))
  }
})

test('an address is in a network in whatever form it is written', async (t) => {
  const some = networks('192.0.2.0/24', '2001:db8:1::/48', '203.0.113.7')
  for (const inside of [
    ...['192.0.2.0', '192.0.2.255', '::ffff:192.0.2.9', '::FFFF:C000:0209', '203.0.113.7'],
    ...['2001:db8:1::', '2001:DB8:0001:ffff:ffff:ffff:ffff:ffff', '2001:db8:1::1%eth0'],
  ]) {
    t.ok(isInAnyNetwork(some, inside), inside)
  }
  for (const outside of [
    '192.0.3.0',
    '203.0.113.8',
    '2001:db8:2::',
    '::192.0.2.1',
    '',
    'unknown',
    'local',
  ]) {
    t.notOk(isInAnyNetwork(some, outside), outside)
  }
  t.notOk(isInAnyNetwork([], '192.0.2.1'))
  t.ok(isInAnyNetwork(networks('0.0.0.0/0'), '255.255.255.255'))
  t.notOk(isInAnyNetwork(networks('0.0.0.0/0'), '2001:db8::1'))
  t.ok(isInAnyNetwork(networks('::/0'), '10.0.0.1'))
})

test('a network is inside another if all its addresses are', async (t) => {
  const inside = (outer: string, inner: string) =>
    containsNetwork(networks(outer), networks(inner)[0] as Network)
  t.ok(inside('10.0.0.0/8', '10.1.0.0/16'))
  t.ok(inside('10.0.0.0/8', '10.0.0.0/8'))
  t.ok(inside('10.0.0.0/8', '10.255.255.255'))
  t.notOk(inside('10.1.0.0/16', '10.0.0.0/8'))
  t.notOk(inside('10.0.0.0/8', '11.0.0.0/8'))
  t.ok(inside('2001:db8::/32', '2001:db8:5::/48'))
  t.notOk(inside('0.0.0.0/0', '::/0'))
  t.notOk(
    containsNetwork(networks('10.0.0.0/9', '10.128.0.0/9'), networks('10.0.0.0/8')[0] as Network),
  )
})

test('it agrees with a list of Node', async (t) => {
  const random = createRandom(Number(process.env.SEED ?? 7))
  for (let round = 0; round < 3_000; round += 1) {
    const family = random.below(2) === 0 ? 'ipv4' : 'ipv6'
    const base = randomAddress(random, family)
    const bits = random.below(family === 'ipv4' ? 33 : 129)
    const list = new BlockList()
    list.addSubnet(base, bits, family)
    // The first address of the network.
    const network = clear(base, bits)
    const address = random.below(2) === 0 ? near(random, base) : randomAddress(random, family)
    const expected = list.check(address, family)
    t.equal(isInAnyNetwork([network], address), expected, `${base}/${bits} ${address}`)
  }
})

function randomAddress(random: Random, family: 'ipv4' | 'ipv6'): string {
  const byte = () => random.below(256)
  if (family === 'ipv4') return [byte(), byte(), byte(), byte()].join('.')
  const written = Array.from({ length: 8 }, () => random.below(65_536).toString(16)).join(':')
  return random.below(2) === 0 ? written : written.replace(/^([^:]+:[^:]+):.*:([^:]+)$/, '$1::$2')
}

/** The same address with its last group changed. */
function near(random: Random, address: string): string {
  return isIP(address) === 4
    ? address.replace(/\d+$/, `${random.below(256)}`)
    : address.replace(/[^:]*$/, random.below(65_536).toString(16))
}

function clear(address: string, bits: number): Network {
  const whole = parseNetwork(address) as Network
  const length = isIP(address) === 4 ? bits + 96 : bits
  const words = whole.words.map((word, i) => {
    const own = Math.min(32, Math.max(0, length - i * 32))
    return own === 0
      ? 0
      : Number(BigInt.asIntN(32, (BigInt(word) >> BigInt(32 - own)) << BigInt(32 - own)))
  })
  return { words: words as never, bits: length }
}
