import { test } from 'tap'
import { BoundedMap, createInternPools } from '../../src/runtime/bounded-map.ts'

test('what was used last stays, and no more than fits', async (t) => {
  const map = new BoundedMap<number, string>(100)
  const kept = (): number[] => Array.from({ length: 1_000 }, (_, i) => i).filter((i) => map.has(i))
  for (let i = 0; i < 1_000; i += 1) {
    map.set(i, `${i}`)
    t.equal(map.get(0), '0', 'it is read again and again')
    if (kept().length > 100) t.fail(`${kept().length} entries`)
  }
  t.ok(kept().length >= 50)
  t.equal(map.get(998), '998')
  t.notOk(map.has(500))
  map.delete(998)
  map.delete(0)
  t.notOk(map.has(998) || map.has(0))
})

test('what was not used between two turns is dropped', async (t) => {
  const map = new BoundedMap<string, string>(10)
  for (const key of ['read', 'seen', 'unused']) map.set(key, key)
  map.turnOver()
  map.get('read')
  t.ok(map.has('seen'))
  map.turnOver()
  t.strictSame(
    ['read', 'seen', 'unused'].map((key) => map.has(key)),
    [true, false, false],
  )
})

test('equal texts and lists are one', async (t) => {
  const { list } = createInternPools()
  const [one, other] = [list(['a', 'b']), list(['a', 'b'])]
  t.strictSame(one, ['a', 'b'])
  t.equal(other, one)
  t.strictSame([list(['a,b']), list(['b', 'a']), list([])], [['a,b'], ['b', 'a'], []])
})

test('a pool keeps no more lists than it may', async (t) => {
  const { list } = createInternPools(4)
  const [first, second] = [list(['1']), list(['2'])]
  for (const each of ['3', '4', '5', '6']) {
    t.equal(list(['1']), first, 'it is read again and again')
    list([each])
  }
  t.not(list(['2']), second)
})
