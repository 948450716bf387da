import { test } from 'tap'
import { MessageReader } from '../../src/grpc/message-reader.ts'
import { startGrpc } from '../support/grpc-client.ts'
import { callWire, connectWire, prefixed } from '../support/grpc-wire.ts'

/** Where Node's pool of small buffers continues. */
function poolOffset(): number {
  return Buffer.allocUnsafe(1).byteOffset
}

test('what is stored of a message retains no memory of others', async (t) => {
  const reader = new MessageReader({
    maxBytes: 1_000,
    encoding: undefined,
    allowance: { left: 100_000 },
  })
  const frame = Buffer.alloc(16_384)
  frame.writeUInt32BE(1_000, 1)
  reader.push(frame.subarray(0, 5), () => {})
  while (poolOffset() > Buffer.poolSize / 2);
  const before = poolOffset()
  for (let i = 0; i < 100; i += 1) reader.push(frame.subarray(i, i + 1), () => {})
  t.equal(poolOffset() - before, 8, 'nothing is taken from the pool')

  const asked: Buffer[] = []
  const { port } = await startGrpc(t, {
    unary: {
      '/test/keep'(message: Buffer) {
        asked.push(message)
        return message
      },
    },
  })
  const frames = [prefixed('hello'), Buffer.alloc(0)]
  await callWire(connectWire(t, port), { path: '/test/keep', frames })
  t.strictSame([asked[0]?.toString(), asked[0]?.buffer.byteLength], ['hello', 5])
})
