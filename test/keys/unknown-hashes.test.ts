import { test } from 'tap'
import { createUnknownHashes } from '../../src/keys/unknown-hashes.ts'

function create(entries: number) {
  const clock = { now: 0 }
  const unknown = createUnknownHashes({ entries, keptMs: 100, monotonic: () => clock.now })
  return { clock, unknown }
}

test('a hash stays unknown for a while', async (t) => {
  const { clock, unknown } = create(10)
  unknown.add('a')
  t.ok(unknown.has('a'))
  t.notOk(unknown.has('b'))
  clock.now = 99
  t.ok(unknown.has('a'))
  unknown.add('b')
  clock.now = 100
  t.notOk(unknown.has('a'))
  t.ok(unknown.has('b'))
  unknown.delete('b')
  t.notOk(unknown.has('b'))
})

test('no hash is kept longer, however late it is looked up', async (t) => {
  const { clock, unknown } = create(10)
  unknown.add('a')
  clock.now = 90
  unknown.add('b')
  t.ok(unknown.has('a'))
  clock.now = 100
  t.notOk(unknown.has('a'))
  t.ok(unknown.has('b'))
  clock.now = 1_000
  t.notOk(unknown.has('b'))
})

test('the oldest hashes are removed first', async (t) => {
  const { clock, unknown } = create(4)
  for (const hash of ['a', 'b', 'a', 'c', 'd']) {
    clock.now += 1
    unknown.add(hash)
  }
  t.strictSame(
    ['a', 'b', 'c', 'd'].map((hash) => unknown.has(hash)),
    [true, false, true, true],
  )
})
