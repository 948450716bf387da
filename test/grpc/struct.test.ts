import { test } from 'tap'
import { writeStruct } from '../../src/grpc/struct.ts'
import { WireWriter } from '../../src/grpc/wire.ts'
import { checkResponse, structOf } from '../support/envoy-messages.ts'

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
