import { test } from 'tap'
import { isInAnyNetwork, parseNetwork } from '../../src/formats/cidr.ts'
import {
  clientOfForwardedFor,
  lastHeaderValue,
  parseClientAddress,
} from '../../src/formats/headers.ts'

test('the last value that is not blank counts', async (t) => {
  for (const [header, value] of [
    [undefined, undefined],
    ['', undefined],
    [' , ,\t', undefined],
    ['a', 'a'],
    ['a,b', 'b'],
    [' a b , ', 'a b'],
    ['a,b c\u00a0,,\u00a0,', 'b c'],
  ] as const) {
    t.equal(lastHeaderValue(header), value, JSON.stringify(header))
  }
})

test('an address is read in any form that proxies write', async (t) => {
  for (const [written, address] of [
    ['192.0.2.1', '192.0.2.1'],
    [' 192.0.2.1 ', '192.0.2.1'],
    ['192.0.2.1:443', '192.0.2.1'],
    ['192.0.2.1:0', '192.0.2.1'],
    ['192.0.2.1:65535', '192.0.2.1'],
    ['::ffff:192.0.2.1', '192.0.2.1'],
    ['[::ffff:c000:201]:80', '192.0.2.1'],
    ['0:0:0:0:0:FFFF:192.0.2.1', '192.0.2.1'],
    ['2001:DB8:0:0::1', '2001:db8::1'],
    ['[2001:db8::1]', '2001:db8::1'],
    ['[2001:db8::1]:8080', '2001:db8::1'],
    ['[2001:db8::192.0.2.1]:1', '2001:db8::c000:201'],
    ['[fe80::1%eth0]:8080', 'fe80::1'],
    ['fe80::1%eth1', 'fe80::1'],
    ['::', '::'],
    ['::1', '::1'],
    ['1::', '1::'],
    ['1:0:0:2:0:0:3:4', '1::2:0:0:3:4'],
    ['1:0:0:2:0:0:0:4', '1:0:0:2::4'],
    ['1:0:2:3:4:5:6:7', '1:0:2:3:4:5:6:7'],
    ['10:0:0:0f:0:0:0:10', '10:0:0:f::10'],
  ] as const) {
    t.equal(parseClientAddress(written), address, written)
  }
})

test('what is no address stays none', async (t) => {
  for (const written of [
    '',
    'unknown',
    '_hidden',
    'localhost',
    'localhost:80',
    '192.0.2.1:65536',
    '192.0.2.1:99999',
    '192.0.2.1:123456',
    '192.0.2.1:',
    '192.0.2.1:-1',
    '192.0.2.1:80:80',
    '192.0.2.1:0x50',
    '192.0.2.01',
    '192.0.2',
    '3221225985',
    '0xc0.0.2.1',
    '192.0.2.1%eth0',
    '192.0.2.1/32',
    '[192.0.2.1]',
    '[192.0.2.1]:80',
    '[2001:db8::1',
    '2001:db8::1]',
    '[2001:db8::1]:65536',
    '[2001:db8::1]x',
    '[2001:db8::1]:',
    '[[2001:db8::1]]',
    '[]',
    '[]:80',
    '::ffff:192.0.2.1:80',
    '2001:db8:::1',
    '1:2:3:4:5:6:7',
    '1:2:3:4:5:6:7:8:9',
    '192.0.2.1 198.51.100.1',
    '"192.0.2.1"',
    'for=192.0.2.1',
    '１９２.0.2.1',
    `fe80::1%${'x'.repeat(100)}`,
    'x'.repeat(40_000),
  ]) {
    t.equal(parseClientAddress(written), undefined, written.slice(0, 60))
  }
})

test('the trusted proxies determine the client, whatever precedes them', async (t) => {
  const at = (header: string, hops: number) => clientOfForwardedFor(header, hops)
  t.equal(at('192.0.2.9', 0), '192.0.2.9')
  t.equal(at('198.51.100.1, 192.0.2.9:1234', 0), '192.0.2.9')
  t.equal(at('198.51.100.1, 192.0.2.9:1234, 10.0.0.1', 1), '192.0.2.9')
  t.equal(at('192.0.2.9:1,[2001:db8::1]:2,10.0.0.1', 1), '2001:db8::1')
  t.equal(at('192.0.2.9,[2001:db8::1]:2,10.0.0.1', 2), '192.0.2.9')
  for (const [header, hops] of [
    ['', 0],
    ['', 1],
    [',', 1],
    [',,', 2],
    ['10.0.0.1', 1],
    ['192.0.2.9, 10.0.0.1', 2],
    ['192.0.2.9,, 10.0.0.1', 1],
    ['192.0.2.9, 10.0.0.1,', 0],
    ['192.0.2.9, unknown, 10.0.0.1', 1],
    [`192.0.2.9,${' '.repeat(200)}192.0.2.9`, 0],
  ] as const) {
    t.equal(at(header, hops), undefined, JSON.stringify([header.slice(0, 40), hops]))
  }
})

test('a long header costs no more than its end', async (t) => {
  const hostile = `${'192.0.2.1,'.repeat(3_300)}198.51.100.1, 10.0.0.1`
  const begin = performance.now()
  for (let i = 0; i < 10_000; i += 1) clientOfForwardedFor(hostile, 1)
  const longMs = performance.now() - begin
  t.equal(clientOfForwardedFor(hostile, 1), '198.51.100.1')
  t.ok(longMs < 1_000, `10,000 in ${longMs} ms`)
})

test('a read address is in the networks of what was written', async (t) => {
  const networks = ['192.0.2.0/24', '2001:db8::/32'].flatMap((each) => parseNetwork(each) ?? [])
  const texts = [
    '192.0.2.1',
    '198.51.100.1',
    '2001:db8::1',
    '2001:db9::1',
    '::ffff:192.0.2.1',
    'fe80::1%lo',
  ]
  for (const text of texts) {
    t.equal(
      isInAnyNetwork(networks, parseClientAddress(text) ?? ''),
      isInAnyNetwork(networks, text),
      text,
    )
  }
})
