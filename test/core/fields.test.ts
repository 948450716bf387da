import { test } from 'tap'
import { type Field, type FieldProblem, readField, showPath } from '../../src/core/fields.ts'

/** What a reader answers and what it noted, as `path message`. */
function read<T>(value: unknown, reader: (field: Field) => T): [T, string[]] {
  const problems: FieldProblem[] = []
  const result = reader(readField({ it: value }, problems).at('it'))
  return [result, problems.map(({ path, message }) => `${showPath(path)} ${message}`)]
}

test('paths are shown as kubectl does', async (t) => {
  for (const [path, shown] of [
    [[], ''],
    [['spec'], 'spec'],
    [['spec', 'modelRefs', 2, 'name'], 'spec.modelRefs[2].name'],
    [['a', 0, 1], 'a[0][1]'],
  ] as const) {
    t.equal(showPath(path), shown)
  }
})

test('strings keep their rules', async (t) => {
  const rule = { min: 2, max: 3, pattern: /^[a-z]+$/, form: 'lower case' }
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
      read(value, (field) => field.string(rule)),
      [result, problem === undefined ? [] : [`it ${problem}`]],
      JSON.stringify(value),
    )
  }
  t.strictSame(
    read('c', (field) => field.string({ oneOf: ['a', 'b'] })),
    [undefined, ['it must be one of a, b']],
  )
})

test('what is required is asked for once', async (t) => {
  t.strictSame(
    read(undefined, (field) => field.requiredString({ min: 1 })),
    ['', ['it is required']],
  )
  t.strictSame(
    read(null, (field) => field.requiredInteger({ min: 1, max: 9 })),
    [1, ['it is required']],
  )
  t.strictSame(
    read(undefined, (field) => field.object()),
    [false, ['it is required']],
  )
})

test('integers are whole and in range', async (t) => {
  for (const value of [1, 5, 9, 5.0])
    t.strictSame(
      read(value, (field) => field.integer({ min: 1, max: 9 })),
      [value, []],
    )
  for (const value of [0, 10, 1.5, -1, '5', Number.NaN, Number.POSITIVE_INFINITY, true, [], {}]) {
    t.strictSame(
      read(value, (field) => field.integer({ min: 1, max: 9 })),
      [undefined, ['it must be a whole number from 1 to 9']],
      String(value),
    )
  }
})

test('lists hand out their items with places', async (t) => {
  const names = (field: Field) => field.list({ min: 1, what: 'model' }).map((item) => item.string())
  t.strictSame(read(['a', 'b'], names), [['a', 'b'], []])
  t.strictSame(read([], names), [[], ['it needs at least 1 model']])
  t.strictSame(read(undefined, names), [[], ['it needs at least 1 model']])
  t.strictSame(read({ a: 1 }, names), [[], ['it must be a list']])
  t.strictSame(read(['a', 5], names), [['a', undefined], ['it[1] must be a string, is a number']])
})

test('maps hold strings and nothing else', async (t) => {
  const strings = (field: Field) => field.strings()
  t.strictSame(read({ a: 'b' }, strings), [{ a: 'b' }, []])
  t.strictSame(read(undefined, strings), [{}, []])
  t.strictSame(read({ a: 'b', c: 5 }, strings), [{ a: 'b' }, ['it.c must be a string']])
  t.strictSame(read(['a'], strings), [{}, ['it must be an object']])
  const [map] = read(JSON.parse('{"__proto__":"x"}'), strings)
  t.equal(Object.getPrototypeOf(map), Object.prototype, 'no prototype from a document')
})

test('booleans are true or false', async (t) => {
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

test('children of nothing are not there', async (t) => {
  for (const value of [undefined, null, 'text', 5, [], {}]) {
    t.equal(read(value, (field) => field.at('a').at('b').present)[0], false)
  }
})
