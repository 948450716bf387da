import { test } from 'tap'
import { mergeKeys } from '../../src/formats/merge-keys.ts'

test('own fields come before merged ones, and earlier objects before later ones', async (t) => {
  for (const [written, merged] of [
    [
      { '<<': { a: 1, b: 2 }, a: 3 },
      { a: 3, b: 2 },
    ],
    [
      { a: 3, '<<': { a: 1, b: 2 } },
      { a: 3, b: 2 },
    ],
    [{ '<<': [{ a: 1 }, { a: 2, b: 2 }] }, { a: 1, b: 2 }],
    [{ '<<': { '<<': { a: 1, b: 1 }, b: 2 } }, { b: 2, a: 1 }],
    [[{ deep: { '<<': { a: 1 } } }], [{ deep: { a: 1 } }]],
    [{ '<<': {} }, {}],
    [{ '<<': [] }, {}],
    ['<<', '<<'],
    [null, null],
  ] as const) {
    t.strictSame(mergeKeys(written), merged, JSON.stringify(written))
  }
})

test('anything else than objects is refused', async (t) => {
  for (const named of ['x', 5, null, [1], [[{ a: 1 }]], true]) {
    t.throws(() => mergeKeys({ '<<': named }), /<< must name an object/, JSON.stringify(named))
  }
})

test('an object that contains itself is read', async (t) => {
  const own: Record<string, unknown> = { a: 1 }
  own.self = own
  own['<<'] = { b: 2 }
  const merged = mergeKeys(own) as Record<string, unknown>
  t.equal(merged.self, merged)
  t.match(merged, { a: 1, b: 2 })
})

test('a field named __proto__ is only a field', async (t) => {
  const merged = mergeKeys({ '<<': JSON.parse('{"__proto__":{"polluted":1}}') }) as object
  t.equal(Object.getPrototypeOf(merged), Object.prototype)
  t.notOk('polluted' in merged)
})

test('what merges too much is refused', async (t) => {
  let wide: Record<string, unknown> = Object.fromEntries(
    Array.from({ length: 1_000 }, (_, i) => [`field-${i}`, i]),
  )
  t.equal(Object.keys(mergeKeys({ '<<': wide }) as object).length, 1_000)
  for (let level = 0; level < 60; level += 1) wide = { '<<': [wide, wide], [`own-${level}`]: 1 }
  t.throws(() => mergeKeys(wide), /merges more than 100000 fields/)
})
