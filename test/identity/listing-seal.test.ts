import { test } from 'tap'
import { createListingSeal } from '../../src/identity/listing-seal.ts'

const now = Date.UTC(2026, 2, 1)
const bearer = 'Bearer sk-tg-a_b'

test('a sealed address is read by whoever has the secret', async (t) => {
  const secret = Buffer.alloc(32, 7)
  const [one, other] = [createListingSeal(secret), createListingSeal(Buffer.from(secret))]
  for (const address of ['192.0.2.1', '2001:db8::1', '::']) {
    const sealed = one.close(address, bearer, now)
    t.equal(other.open(sealed, bearer, now), address)
    t.equal(other.open(sealed, bearer, now + 59_000), address)
    t.equal(other.open(sealed, bearer, now - 59_000), address, 'a clock that is behind')
  }
})

test('nothing else is read as an address', async (t) => {
  const { close, open } = createListingSeal(Buffer.alloc(32, 7))
  const sealed = close('192.0.2.1', bearer, now)
  const [at = '', address = '', seal = ''] = sealed.split(';')
  t.equal(open(sealed, 'Bearer sk-tg-c_d', now), undefined, 'for another credential')
  t.equal(open(sealed, bearer, now + 61_000), undefined, 'too old')
  t.equal(open(sealed, bearer, now - 61_000), undefined, 'too new')
  t.equal(createListingSeal(Buffer.alloc(32, 8)).open(sealed, bearer, now), undefined)
  for (const forged of [
    '',
    address,
    `${at};${address};`,
    `${at};192.0.2.2;${seal}`,
    `${Number(at) + 1};${address};${seal}`,
    `${at};${address};${'A'.repeat(43)}`,
    `${at};${address};${seal}=`,
    `${at};${address};${seal.slice(1)}`,
    `${at}; ${address};${seal}`,
    `${sealed},${sealed}`,
    `${at};${'1'.repeat(30_000)};${seal}`,
  ]) {
    t.equal(open(forged, bearer, now), undefined, forged.slice(0, 80))
  }
})
