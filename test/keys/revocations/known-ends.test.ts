import { test } from 'tap'
import type { EndedKey } from '../../../src/keys/revocations/ended-keys.ts'
import { createKnownEnds, expiredKeptMs } from '../../../src/keys/revocations/known-ends.ts'

function endedKey(hash: string, more: Partial<EndedKey> = {}): EndedKey {
  return { id: hash, hash, at: 0, expiresAt: null, ...more }
}

test('the earliest end of a key is known, and only what changes is queued for the file', async (t) => {
  const known = createKnownEnds(() => 1_000)
  known.note([endedKey('a', { endsAt: 5_000 }), endedKey('b')])
  t.strictSame([known.endOf('a'), known.endOf('b'), known.endOf('c')], [5_000, 0, undefined])
  known.note([endedKey('a', { endsAt: 9_000 }), endedKey('b', { endsAt: 9_000 })])
  t.strictSame([known.endOf('a'), known.endOf('b')], [5_000, 0], 'a later end is no news')
  t.strictSame(known.endedHashes(), ['b'], 'a replaced secret works until its end')
  known.noteWritten(1)
  t.match(known.unwritten, [{ hash: 'b' }])
  t.equal(known.unwritten.length, 1)
})

test('a key that has expired a day ago is forgotten', async (t) => {
  let now = 0
  const known = createKnownEnds(() => now)
  known.note([endedKey('a', { expiresAt: 10 }), endedKey('b')])
  now = 10 + expiredKeptMs - 1
  known.forgetExpired()
  t.equal(known.size, 2)
  now += 1
  known.forgetExpired()
  t.match(known.all(), [{ hash: 'b' }])
  t.equal(known.add(endedKey('a', { expiresAt: 10 })), false)
})
