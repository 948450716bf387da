import { test } from 'tap'
import {
  type Field,
  type FieldProblem,
  readField,
  showPath,
} from '../../../src/core/formats/fields.ts'
import {
  integer,
  labels,
  list,
  object,
  type Schema,
  text,
} from '../../../src/core/formats/schema.ts'

/** What a reader returns, and the problems that it noted, as `path message`. */
function read<T>(
  value: unknown,
  reader: (field: Field) => T,
  schema: Schema = text(),
): [T, string[]] {
  const problems: FieldProblem[] = []
  const result = reader(readField({ it: value }, problems, object({ it: schema })).at('it'))
  return [result, problems.map(({ path, message }) => `${showPath(path)} ${message}`)]
}

test('paths are shown as kubectl shows them', async (t) => {
  for (const [path, shown] of [
    [[], ''],
    [['spec'], 'spec'],
    [['spec', 'modelRefs', 2, 'name'], 'spec.modelRefs[2].name'],
    [['a', 0, 1], 'a[0][1]'],
  ] as const) {
    t.equal(showPath(path), shown)
  }
})

test('the rules for strings are checked', async (t) => {
  const rule = text({ minLength: 2, maxLength: 3, pattern: '^[a-z]+$', form: 'lower case' })
  for (const [value, result, problem] of [
    ['ab', 'ab', undefined],
    [undefined, undefined, undefined],
    [null, undefined, undefined],
    ['', undefined, 'must not be empty'],
    ['a', undefined, 'needs 2 characters'],
    ['abcd', undefined, 'must have at most 3 characters'],
    ['AB', undefined, 'must be lower case'],
    [5, undefined, 'must be a string, is a number'],
    [true, undefined, 'must be a string, is a boolean'],
    [[], undefined, 'must be a string, is a list'],
    [{}, undefined, 'must be a string, is a object'],
  ] as const) {
    t.strictSame(
      read(value, (field) => field.string(), rule),
      [result, problem === undefined ? [] : [`it ${problem}`]],
      JSON.stringify(value),
    )
  }
  t.strictSame(
    read('c', (field) => field.string(), text({ enum: ['a', 'b'] })),
    [undefined, ['it must be one of a, b']],
  )
})

test('a missing required field is reported once', async (t) => {
  t.strictSame(
    read(undefined, (field) => field.requiredString(), text({ minLength: 1 })),
    ['', ['it is required']],
  )
  t.strictSame(
    read(null, (field) => field.requiredInteger(), integer(1, 9)),
    [1, ['it is required']],
  )
  t.strictSame(
    read(undefined, (field) => field.object()),
    [false, ['it is required']],
  )
})

test('integers must be whole and in range', async (t) => {
  for (const value of [1, 5, 9, 5.0])
    t.strictSame(
      read(value, (field) => field.integer(), integer(1, 9)),
      [value, []],
    )
  for (const value of [0, 10, 1.5, -1, '5', Number.NaN, Number.POSITIVE_INFINITY, true, [], {}]) {
    t.strictSame(
      read(value, (field) => field.integer(), integer(1, 9)),
      [undefined, ['it must be a whole number from 1 to 9']],
      String(value),
    )
  }
})

test('problems of list items name their index', async (t) => {
  const models = list(text(), { minItems: 1, maxItems: 2, item: 'model' })
  const names = (field: Field) => field.list().map((item) => item.string())
  t.strictSame(read(['a', 'b'], names, models), [['a', 'b'], []])
  t.strictSame(read([], names, models), [[], ['it needs at least 1 model']])
  t.strictSame(read(undefined, names, models), [[], ['it needs at least 1 model']])
  t.strictSame(read(['a', 'b', 'c'], names, models), [[], ['it must have at most 2 models']])
  t.strictSame(read({ a: 1 }, names, models), [[], ['it must be a list']])
  t.strictSame(read(['a', 5], names, models), [
    ['a', undefined],
    ['it[1] must be a string, is a number'],
  ])
})

test('maps may contain only strings', async (t) => {
  const strings = (field: Field) => field.strings()
  t.strictSame(read({ a: 'b' }, strings, labels()), [{ a: 'b' }, []])
  t.strictSame(read(undefined, strings, labels()), [{}, []])
  t.strictSame(read({ a: 'b', c: 5 }, strings, labels()), [{ a: 'b' }, ['it.c must be a string']])
  t.strictSame(read(['a'], strings, labels()), [{}, ['it must be an object']])
  const [map] = read(JSON.parse('{"__proto__":"x"}'), strings, labels())
  t.equal(Object.getPrototypeOf(map), Object.prototype, 'documents cannot set a prototype')
})

test('booleans must be true or false', async (t) => {
  for (const value of [true, false])
    t.strictSame(
      read(value, (field) => field.boolean()),
      [value, []],
    )
  t.strictSame(
    read(undefined, (field) => field.boolean()),
    [undefined, []],
  )
  t.strictSame(
    read('yes', (field) => field.boolean()),
    [undefined, ['it must be true or false']],
  )
})

test('children of a missing field are missing', async (t) => {
  const nested = object({ a: object({ b: text() }) })
  for (const value of [undefined, null, 'text', 5, [], {}]) {
    t.equal(read(value, (field) => field.at('a').at('b').present, nested)[0], false)
  }
})

test('lengths are counted in code points', async (t) => {
  const two = text({ minLength: 2, maxLength: 2 })
  t.strictSame(
    read('\u{1f600}\u{1f600}', (field) => field.string(), two),
    ['\u{1f600}\u{1f600}', []],
  )
  t.strictSame(read('\u{1f600}', (field) => field.string(), two)[1], ['it needs 2 characters'])
})

test('a well-formed value may still be refused', async (t) => {
  const header = text({ refuses: [{ pattern: '^host$', ignoreCase: true, message: 'is taken' }] })
  t.strictSame(
    read('hosts', (field) => field.string(), header),
    ['hosts', []],
  )
  t.strictSame(
    read('Host', (field) => field.string(), header),
    [undefined, ['it is taken']],
  )
})

test('reading a field that the schema lacks throws', async (t) => {
  t.throws(
    () => read({ a: 1 }, (field) => field.at('a'), object({ b: text() })),
    /no schema has it.a/,
  )
})
