import { test } from 'tap'
import { networkOf } from '../../src/formats/cidr.ts'

test('an IPv6 address is counted by its /64, an IPv4 address alone', async (t) => {
  for (const [address, network] of [
    ['203.0.113.7', '203.0.113.7'],
    ['::ffff:203.0.113.7', '203.0.113.7'],
    ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2::/64'],
    ['2001:DB8:1:2::6', '2001:db8:1:2::/64'],
    ['2001:0db8:0001:0002:ffff:0:0:1', '2001:db8:1:2::/64'],
    ['2001:db8::1', '2001:db8:0:0::/64'],
    ['2001:db8:0:0:1::', '2001:db8:0:0::/64'],
    ['::1', '0:0:0:0::/64'],
    ['1:2:3::', '1:2:3:0::/64'],
    ['', ''],
    ['@internal', '@internal'],
  ] as const) {
    t.equal(networkOf(address), network, address)
  }
})
