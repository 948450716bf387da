import { test } from 'tap'
import { listenable, loopbackIfWildcard } from '../../src/formats/address.ts'

test('every interface is reached on loopback by IPv4', async (t) => {
  t.strictSame(['0.0.0.0', '::', '::1', '192.0.2.1'].map(loopbackIfWildcard), [
    '127.0.0.1',
    // A machine may have IPv6 switched off on its loopback interface.
    '127.0.0.1',
    '::1',
    '192.0.2.1',
  ])
})

test('a kernel without IPv6 listens on IPv4 alone', async (t) => {
  const every = { host: '::', port: 8_000 }
  t.strictSame(listenable(every, true), every)
  t.strictSame(listenable(every, false), { host: '0.0.0.0', port: 8_000 })
  t.strictSame(listenable({ path: '/a' }, false), { path: '/a' })
})
