import { test } from 'tap'
import { readStruct, writeStruct } from '../../src/grpc/struct.ts'
import { WireReader, WireWriter } from '../../src/grpc/wire.ts'
import { accessLogMessage, checkResponse, structOf } from '../support/envoy-messages.ts'

const values = { text: 'ü', empty: '', number: 1.5, zero: 0, minus: -40, yes: true, no: false }

test('Envoy can read the written Struct', async (t) => {
  const writer = new WireWriter(0)
  writeStruct(writer, 4, values)
  const { dynamic_metadata } = checkResponse.decode(writer.finish())
  t.match(dynamic_metadata, structOf(values))
})

test('writes an empty Struct', async (t) => {
  const writer = new WireWriter()
  writeStruct(writer, 4, {})
  t.strictSame(writer.finish(), Buffer.from('2200', 'hex'))
})

/** Reads the Struct from the metadata of an access-log entry. */
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

test('reads a Struct that Envoy writes', async (t) => {
  t.strictSame(readBack(structOf(values)), values)
})

test('nested values and null are undefined', async (t) => {
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

test('reads numbers that JSON cannot represent', async (t) => {
  const read = readBack(structOf({ inf: Number.POSITIVE_INFINITY, nan: Number.NaN, big: 1e300 }))
  t.strictSame(read, { inf: Number.POSITIVE_INFINITY, nan: Number.NaN, big: 1e300 })
})

test('the last of two equal names applies', async (t) => {
  const writer = new WireWriter()
  for (const text of ['first', 'last']) {
    writer.message(1, (entry) =>
      entry.string(1, 'name').message(2, (value) => value.string(3, text)),
    )
  }
  t.equal(readStruct(new WireReader(writer.finish())).get('name'), 'last')
})

test('names of object properties are plain names', async (t) => {
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
