import { test } from 'tap'
import { readStruct, writeStruct } from '../../src/grpc/struct.ts'
import { WireReader, WireWriter } from '../../src/grpc/wire.ts'
import { accessLogMessage, checkResponse, structOf } from '../support/envoy-messages.ts'

const values = { text: 'ü', empty: '', number: 1.5, zero: 0, minus: -40, yes: true, no: false }

test('Envoy reads what is written', async (t) => {
  const writer = new WireWriter(0)
  writeStruct(writer, 4, values)
  const { dynamic_metadata } = checkResponse.decode(writer.finish())
  t.match(dynamic_metadata, structOf(values))
})

test('an empty struct is written', async (t) => {
  const writer = new WireWriter()
  writeStruct(writer, 4, {})
  t.strictSame(writer.finish(), Buffer.from('2200', 'hex'))
})

/** The fields of a Struct as the access log carries it. */
function readBack(struct: object) {
  const bytes = accessLogMessage.encode({
    http_logs: {
      log_entry: [{ common_properties: { metadata: { filter_metadata: { ns: struct } } } }],
    },
  })
  let reader = new WireReader(bytes)
  for (const field of [2, 1, 1, 17, 1, 2]) {
    while (reader.next()) if (reader.field === field) break
    reader = reader.message()
  }
  return Object.fromEntries(readStruct(reader))
}

test('what Envoy writes is read', async (t) => {
  t.strictSame(readBack(structOf(values)), values)
})

test('nested values and null are read as nothing', async (t) => {
  const struct = structOf({
    before: 1,
    nothing: null,
    list: [1, 'a'],
    nested: { number: 5, text: 'x' },
    after: 2,
  })
  t.strictSame(readBack(struct), {
    before: 1,
    nothing: undefined,
    list: undefined,
    nested: undefined,
    after: 2,
  })
})

test('numbers that JSON cannot hold are read', async (t) => {
  const read = readBack(structOf({ inf: Number.POSITIVE_INFINITY, nan: Number.NaN, big: 1e300 }))
  t.strictSame(read, { inf: Number.POSITIVE_INFINITY, nan: Number.NaN, big: 1e300 })
})

test('of a name given twice the last counts', async (t) => {
  const writer = new WireWriter()
  for (const text of ['first', 'last']) {
    writer.message(1, (entry) =>
      entry.string(1, 'name').message(2, (value) => value.string(3, text)),
    )
  }
  t.equal(readStruct(new WireReader(writer.finish())).get('name'), 'last')
})

test('names of the language are only names', async (t) => {
  const struct = readStruct(
    new WireReader(
      new WireWriter()
        .message(1, (entry) =>
          entry.string(1, '__proto__').message(2, (value) => value.string(3, 'x')),
        )
        .finish(),
    ),
  )
  t.equal(struct.get('__proto__'), 'x')
  t.equal(struct.get('constructor'), undefined)
})
