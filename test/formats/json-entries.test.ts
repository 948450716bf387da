import { test } from 'tap'
import { type EntriesOptions, readEntries as readInSteps } from '../../src/formats/json-entries.ts'
import { createRandom } from '../support/random.ts'
import { toEnd } from '../support/to-end.ts'

const form = { lists: ['data'], names: ['id', 'created'], maxEntries: 10_000, maxValue: 4_000 }

const readEntries = (text: string, options: EntriesOptions) => toEnd(readInSteps(text, options))

/** As JSON.parse finds them. */
function simple(text: string): unknown {
  const { data } = JSON.parse(text)
  if (!Array.isArray(data)) return []
  return data
    .filter((entry) => typeof entry === 'object' && entry !== null && !Array.isArray(entry))
    .map(({ id, created }) => ({
      ...(id !== undefined && { id }),
      ...(created !== undefined && { created }),
    }))
}

test('entries are those that JSON.parse finds', async (t) => {
  const random = createRandom()
  t.comment(`SEED=${random.seed}`)
  const pick = <Value>(...values: readonly Value[]): Value =>
    values[random.below(values.length)] as Value
  const strings = ['', 'id', 'a"b', '\\', '\\"', '}', ']},{', 'ü\n', '\ud800', 'data'] as const
  const value = (depth: number): unknown => {
    if (depth === 0) return pick<unknown>(null, true, 0, -1.5e-7, 1e300, pick(...strings))
    const many = Array.from({ length: random.below(4) }, () => value(depth - 1))
    if (random.below(2) === 0) return many
    return Object.fromEntries(
      many.map((each) => [pick('id', 'created', 'data', '__proto__x', pick(...strings)), each]),
    )
  }
  let found = 0
  for (let round = 0; round < 3_000; round += 1) {
    const written = { other: value(2), data: pick<unknown>(value(3), [value(2), value(1)]), z: 1 }
    const text = JSON.stringify(written, undefined, pick<string | number>(0, 1, '\t'))
    const read = readEntries(text, form)
    found += read.length
    t.strictSame(read, simple(text), text)
  }
  t.ok(found > 300, `${found} entries`)
})

test('of a repeated name the last counts', async (t) => {
  t.strictSame(readEntries('{"data":[{"id":1}],"data":[{"id":2,"id":3}]}', form), [{ id: 3 }])
  t.strictSame(readEntries('{"data":[{"id":1}],"data":1}', form), [])
})

test('what is too long or too much is left out', async (t) => {
  const short = { ...form, maxEntries: 2, maxValue: 5 }
  t.strictSame(readEntries('{"data":[{"id":"123"},{"id":"1234"},{"id":"1"}]}', short), [
    { id: '123' },
    { id: undefined },
  ])
})

const length = 1_000_000
const fill = (part: (n: number) => string, first = '{"data":[', last = '{}]}'): string => {
  let text = first
  for (let n = 0; text.length < length; n += 1) text += part(n)
  return text + last
}
const texts = {
  plain: fill((n) => `{"id":"model-${n}","object":"model","created":1700000000},`),
  names: fill((n) => `"name${n}":1,`, '{', '"data":[]}'),
  shapes: fill((n) => `{${Array.from({ length: 50 }, (_, i) => `"a${n}-${i}":0`).join()}},`),
  nested: fill(() => '[', '{"data":', ''),
  escapes: fill(() => '\\"', '{"data":["', '"]}'),
  backslashes: fill(() => '\\\\', '{"data":["', '"]}'),
  space: fill(() => ' '),
  members: fill((n) => `"id":${n},`, '{"data":[{', '"z":0}]}'),
  digits: fill(() => '1', '{"data":[', ']}'),
}

test('no text costs much more than a plain one of its length', async (t) => {
  const timeOf = (text: string): number => {
    let best = Number.POSITIVE_INFINITY
    for (let round = 0; round < 5; round += 1) {
      const { user } = process.cpuUsage()
      try {
        readEntries(text, form)
      } catch {}
      best = Math.min(best, process.cpuUsage().user - user)
    }
    return best
  }
  const plain = timeOf(texts.plain)
  for (const [name, text] of Object.entries(texts)) {
    const times = timeOf(text) / plain
    t.ok(times < 5, `${name}: ${times.toFixed(1)} times`)
  }
})

test('a long text is read in short steps', async (t) => {
  for (const [name, text] of Object.entries(texts)) {
    let steps = 1
    const countSteps = () => {
      steps += 1
    }
    try {
      toEnd(readInSteps(text, { ...form, maxEntries: 1e9 }), countSteps)
    } catch {}
    const each = length / steps
    // White space is skipped by one native call.
    if (name !== 'space') t.ok(each < 50_000, `${name}: ${Math.round(each)} characters each`)
  }
})
