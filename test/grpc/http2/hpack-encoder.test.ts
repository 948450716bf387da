import { queryObjects } from 'node:v8'
import { test } from 'tap'
import { HpackDecoder } from '../../../src/grpc/http2/hpack-decoder.ts'
import { HpackEncoder } from '../../../src/grpc/http2/hpack-encoder.ts'
import type { Field } from '../../../src/grpc/http2/request-head.ts'

const status = { name: ':status', value: '200' }
const type = { name: 'content-type', value: 'application/grpc', agreed: true }
const ok = { name: 'grpc-status', value: '0', agreed: true }
const bad = { name: 'grpc-status', value: '12' }
const other = { name: ':status', value: '415' }
const long = { name: 'grpc-message', value: 'a'.repeat(300) }

const head = [status, type]
const end = [ok]
const error = [status, type, bad, long]
const refusal = [other]

function pair() {
  const encoder = new HpackEncoder()
  const decoder = new HpackDecoder()
  return {
    encoder,
    pass(fields: readonly { readonly name: string; readonly value: string }[]) {
      const block = encoder.encode(fields)
      const said: { name: string; value: string }[] = []
      decoder.decode(block, 0, block.length, {
        add: ({ name, value }: Field) => void said.push({ name, value }),
      })
      return { said, bytes: block.length }
    },
  }
}

const plain = (fields: readonly { name: string; value: string }[]) =>
  fields.map(({ name, value }) => ({ name, value }))

test('blocks can be decoded in any order', async (t) => {
  for (const orders of [
    [head, end, head, end, error, head, end],
    [error, refusal, end, head, end, head],
    [refusal, error, error, end, head],
  ]) {
    const { pass } = pair()
    for (const fields of orders) t.strictSame(pass(fields).said, plain(fields))
  }
})

test('agreed fields take one byte from their second use on', async (t) => {
  const { pass } = pair()
  t.ok(pass(head).bytes > 10)
  t.ok(pass(end).bytes > 10)
  t.equal(pass(head).bytes, 2)
  t.equal(pass(end).bytes, 1)
})

test("adds nothing to the table if the peer's is smaller", async (t) => {
  const { encoder, pass } = pair()
  pass(head)
  pass(end)
  encoder.limitTable(4_096)
  t.equal(pass(head).bytes, 2, 'the default size changes nothing')
  encoder.limitTable(100)
  for (const fields of [head, end, error, head, end]) t.strictSame(pass(fields).said, plain(fields))
  encoder.limitTable(4_096)
  t.ok(pass(head).bytes > 10)
})

test('an encoder retains no buffers of others', (t) => {
  const retained = () => {
    // It collects garbage first.
    queryObjects(Map, { format: 'count' })
    return process.memoryUsage().arrayBuffers
  }
  const before = retained()
  const encoders = Array.from({ length: 100 }, () => {
    const encoder = new HpackEncoder()
    for (let i = 0; i < 3; i += 1) for (const fields of [head, end]) encoder.encode(fields)
    // What others do meanwhile uses up the pool from which small buffers are.
    for (let other = 0; other < 3; other += 1) Buffer.allocUnsafe(30_000)
    return encoder
  })
  const bytes = retained() - before
  t.equal(encoders.length, 100)
  t.ok(bytes < 2 ** 20, `${bytes} bytes`)
  t.end()
})
