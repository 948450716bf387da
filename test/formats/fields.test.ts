import { test } from 'tap'
import { type FieldProblem, formatPath, readFields } from '../../src/formats/fields.ts'
import {
  boolean,
  integer,
  labels,
  list,
  object,
  optional,
  type Schema,
  text,
  withDefault,
} from '../../src/formats/schema.ts'

/** What is read, and the problems, as `path message`. */
function read(value: unknown, schema: Schema, isRequired = false): [unknown, string[]] {
  const problems: FieldProblem[] = []
  const { it } = readFields(
    { it: value },
    object({ it: isRequired ? schema : optional(schema) }),
    problems,
  )
  return [it, problems.map(({ path, message }) => `${formatPath(path)} ${message}`)]
}

test('paths are shown as kubectl shows them', async (t) => {
  for (const [path, shown] of [
    [[], ''],
    [['spec'], 'spec'],
    [['spec', 'modelRefs', 2, 'name'], 'spec.modelRefs[2].name'],
    [['a', 0, 1], 'a[0][1]'],
  ] as const) {
    t.equal(formatPath(path), shown)
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
    [5, undefined, 'must be a string, is a number: write it in quotes'],
    [true, undefined, 'must be a string, is a boolean: write it in quotes'],
    [[], undefined, 'must be a string, is a list'],
    [{}, undefined, 'must be a string, is an object'],
  ] as const) {
    t.strictSame(
      read(value, rule),
      [result, problem === undefined ? [] : [`it ${problem}`]],
      JSON.stringify(value),
    )
  }
  t.strictSame(read('c', text({ enum: ['a', 'b'] })), [undefined, ['it must be one of a, b']])
})

test('a missing required field is reported once', async (t) => {
  const inner = object({ a: text() })
  for (const schema of [text({ minLength: 1 }), integer(1, 9), inner, boolean()]) {
    for (const value of [undefined, null]) {
      t.strictSame(read(value, schema, true), [undefined, ['it is required']])
      t.strictSame(read(value, schema), [undefined, []])
    }
  }
  t.strictSame(read({}, inner)[1], ['it.a is required'])
})

test('a missing field is read as its default', async (t) => {
  t.strictSame(read(undefined, withDefault(text(), 'a')), ['a', []])
  t.strictSame(read(null, withDefault(integer(1, 9), 5)), [5, []])
  t.strictSame(read(undefined, withDefault(object({ a: withDefault(text(), 'b') }), {})), [
    { a: 'b' },
    [],
  ])
})

test('a field may be read only with some others', async (t) => {
  const value = text({ enum: ['a'], unless: ({ type }) => type === 'b' })
  const schema = object({ type: text(), value: optional(value) })
  t.strictSame(read({ type: 'b', value: 'c' }, schema)[1], [])
  t.strictSame(read({ type: 'a', value: 'c' }, schema)[1], ['it.value must be one of a'])
})

test('rules apply to valid texts and to whole objects', async (t) => {
  const even = text({
    pattern: '^a*$',
    form: 'of a',
    rules: [{ message: 'is odd', holds: (read: string) => read.length % 2 === 0 }],
  })
  t.strictSame(read('aa', even), ['aa', []])
  t.strictSame(read('a', even), [undefined, ['it is odd']])
  t.strictSame(read('b', even), [undefined, ['it must be of a']])
  const either = object(
    { a: optional(text()), b: optional(text()) },
    {
      rules: [{ message: 'needs a', holds: (it: object) => 'a' in it }],
    },
  )
  t.strictSame(read({ b: 1 }, either)[1], [
    'it.b must be a string, is a number: write it in quotes',
    'it needs a',
  ])
})

test('integers must be whole and in range', async (t) => {
  for (const value of [1, 5, 9, 5.0]) t.strictSame(read(value, integer(1, 9)), [value, []])
  for (const value of [0, 10, 1.5, -1, '5', Number.NaN, Number.POSITIVE_INFINITY, true, [], {}]) {
    t.strictSame(
      read(value, integer(1, 9)),
      [undefined, ['it must be a whole number from 1 to 9']],
      String(value),
    )
  }
})

test('a number with separators is a text', async (t) => {
  for (const value of ['1_000', "1'000", '1 000', '1,000'])
    t.strictSame(
      read(value, integer(1, 9999)),
      [undefined, ['it must be a whole number from 1 to 9999 (did you mean 1000?)']],
      value,
    )
})

test('problems of list items name their index', async (t) => {
  const models = list(text(), { minItems: 1, maxItems: 2, item: 'model' })
  t.strictSame(read(['a', 'b'], models), [['a', 'b'], []])
  t.strictSame(read([], models)[1], ['it needs at least 1 model'])
  t.strictSame(read(undefined, models)[1], ['it needs at least 1 model'])
  t.strictSame(read(['a', 'b', 'c'], models), [undefined, ['it must have at most 2 models']])
  t.strictSame(read({ a: 1 }, models), [undefined, ['it must be a list']])
  t.strictSame(read(['a', 5], models), [
    ['a', undefined],
    ['it[1] must be a string, is a number: write it in quotes'],
  ])
  t.strictSame(read(undefined, list(text())), [[], []])
})

test('maps may contain only strings', async (t) => {
  t.strictSame(read({ a: 'b', c: null }, labels()), [{ a: 'b' }, []])
  t.strictSame(read(undefined, labels()), [{}, []])
  t.strictSame(read({ a: 'b', c: 5 }, labels())[1], ['it.c must be a string'])
  t.strictSame(read(['a'], labels()), [undefined, ['it must be an object']])
  const [map] = read(JSON.parse('{"__proto__":"x"}'), labels())
  t.equal(Object.getPrototypeOf(map), Object.prototype, 'documents cannot set a prototype')
})

test('booleans must be true or false', async (t) => {
  for (const value of [true, false]) t.strictSame(read(value, boolean()), [value, []])
  t.strictSame(read('yes', boolean()), [undefined, ['it must be true or false']])
})

test('only fields of the schema are read', async (t) => {
  const value = JSON.parse('{"a":"b","c":"d","__proto__":{"e":"f"}}')
  t.strictSame(read(value, object({ a: text() })), [{ a: 'b' }, []])
})

test('lengths are counted in code points', async (t) => {
  const two = text({ minLength: 2, maxLength: 2 })
  t.strictSame(read('\u{1f600}\u{1f600}', two), ['\u{1f600}\u{1f600}', []])
  t.strictSame(read('\u{1f600}', two)[1], ['it needs 2 characters'])
})

test('a well-formed value may still be refused', async (t) => {
  const header = text({ refuses: [{ pattern: '^host$', ignoreCase: true, message: 'is taken' }] })
  t.strictSame(read('hosts', header), ['hosts', []])
  t.strictSame(read('Host', header), [undefined, ['it is taken']])
})
