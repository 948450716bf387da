import { test } from 'tap'
import { formatPath } from '../../src/formats/fields.ts'
import { integer, labels, list, object, type Schema, text } from '../../src/formats/schema.ts'
import { findUnknownFields } from '../../src/formats/unknown-fields.ts'

const limit = object({ limit: integer(1, 9), window: text() })
const entry = object({ name: text(), limits: list(limit) }, { closed: true })
const schema: Schema = object(
  {
    name: text(),
    entries: list(entry),
    labels: labels(),
    priority: integer(0, 9),
    any: object({}),
  },
  { others: ['known'] },
)

/** Each as `path message`, with the path of its closed object before it. */
function unknownIn(document: unknown): string[] {
  return findUnknownFields(document, schema).map(
    ({ path, message, closed }) =>
      `${closed === undefined ? '' : `[${formatPath(closed)}] `}${formatPath(path)} ${message}`,
  )
}

test('fields of the schema, other known ones and maps are passed over', async (t) => {
  const entries = [{ name: 'a', limits: [{ limit: 1, window: '1m' }] }]
  const document = { name: 'a', entries, labels: { any: 'x' }, known: { more: 1 } }
  t.strictSame(unknownIn(document), [])
  for (const other of [null, undefined, 'text', 5, [], [[{ a: 1 }]]]) {
    t.strictSame(unknownIn(other), [], JSON.stringify(other))
  }
})

test('a field is named with what was probably meant', async (t) => {
  t.strictSame(unknownIn({ nmae: 'a' }), ['nmae is not known here (did you mean name?)'])
  t.strictSame(unknownIn({ entries: [{ priority: 5 }], limits: [] }), [
    '[entries[0]] entries[0].priority is not known here (known are name, limits)',
    'limits is not known here (it belongs to entries[])',
  ])
  t.strictSame(unknownIn({ zzzzzz: { name: 1, nmae: 2 } }), [
    'zzzzzz is not known here (known are name, entries, labels, priority, any)',
  ])
  t.strictSame(unknownIn(JSON.parse('{"__proto__":{"a":1}}')).length, 1)
})

test('a closed object is named however deep the field is', async (t) => {
  const entries = [
    { name: 'a' },
    { limits: [{ limt: 5 }, { window: '1m', brust: 1 }] },
    { name: 'c', limit: 5 },
  ]
  t.strictSame(
    findUnknownFields({ entries }, schema).map(({ closed, path }) => [closed, formatPath(path)]),
    [
      [['entries', 1], 'entries[1].limits[0].limt'],
      [['entries', 1], 'entries[1].limits[1].brust'],
      [['entries', 2], 'entries[2].limit'],
    ],
  )
})

test('of many fields some are named, and all closed objects', async (t) => {
  const many = Object.fromEntries(Array.from({ length: 1_000 }, (_, i) => [`field-${i}`, i]))
  const entries = Array.from({ length: 1_000 }, () => many)
  const found = findUnknownFields({ ...many, entries }, schema)
  t.equal(new Set(found.map(({ closed }) => closed?.[1])).size, 1_001)
  t.equal(found.filter(({ closed }) => closed === undefined).length, 20)
  t.equal(found.length, 20 + 3 * 1_000)
})
