import { test } from 'tap'
import { trustForwarded, trustPeers } from '../../../src/admin/http/trusted-proxies.ts'

test('networks, addresses and loopback are trusted', async (t) => {
  const trusts = trustPeers(['loopback', '10.0.0.0/8', '192.0.2.7', 'fd00::/8'])
  for (const peer of ['127.0.0.1', '127.9.9.9', '::1', '::ffff:127.0.0.1', '10.1.2.3'])
    t.equal(trusts(peer), true, String(peer))
  for (const peer of ['192.0.2.7', '::ffff:10.1.2.3', 'fd12::1', 'fd12::1%eth0', undefined])
    t.equal(trusts(peer), true, String(peer))
  for (const peer of ['192.0.2.8', '11.0.0.1', 'fe80::1', '', 'unknown', '10.0.0.1:80', 'fd00::/8'])
    t.equal(trusts(peer), false, peer)
})

test('a Unix socket is trusted as loopback is', async (t) => {
  t.equal(trustPeers(['10.0.0.0/8'])(undefined), false)
  t.equal(trustPeers([])(undefined), false)
})

test('a proxy that another one names with its port is trusted', async (t) => {
  const trusts = trustForwarded(['10.0.0.0/8', '2001:db8::/32'])
  for (const proxy of ['10.0.0.1', '10.0.0.1:80', '[2001:db8::1]:80'])
    t.equal(trusts(proxy), true, proxy)
  for (const other of ['11.0.0.1:80', '10.0.0.1:65536', '[10.0.0.1]', '', undefined])
    t.equal(trusts(other), false, String(other))
})
