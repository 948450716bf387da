import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'
import { test } from 'tap'
import { Connection } from '../../../src/grpc/http2/connection.ts'
import { frameFlag, frameType, settingId } from '../../../src/grpc/http2/frames.ts'
import { defaultLimits } from '../../../src/grpc/http2/limits.ts'
import { ignoreStream } from '../../../src/grpc/http2/stream.ts'
import { connectRaw, frame, hello, post, settings, uint32 } from '../../support/http2-frames.ts'
import { answer, startHttp2 } from '../../support/http2-server.ts'
import { poll } from '../../support/poll.ts'

const cancel = 8
const whole = frameFlag.endStream | frameFlag.endHeaders
const reset = (stream: number): Buffer => frame('rstStream', stream, 0, uint32(cancel))

test('a client that resets a stream has not read its answer', async (t) => {
  const { port, seen } = await startHttp2(t)
  const connection = await connectRaw(t, port)
  const ended = (id: number) =>
    connection.frame('headers', ({ stream, flags }) => stream === id && (flags & 1) === 1)

  await connection.send(hello, frame('headers', 1, frameFlag.endHeaders, post()), reset(1))
  await poll(() => seen.undone.length === 1, 'one before its answer')
  await connection.send(frame('headers', 3, whole, post()), frame('headers', 5, whole, post()))
  await Promise.all([ended(3), ended(5)])
  t.equal(seen.closed, 3)
  t.strictSame(seen.undone, [1], 'answers that are read are left alone')
  await connection.send(reset(3), reset(3), reset(1))
  await poll(() => seen.undone.length === 2, 'one just after its answer')
  await connection.send(frame('headers', 7, whole, post()))
  await ended(7)
  t.strictSame(seen.undone, [1, 3], 'once each')
  t.equal(seen.undoneToo, 2, 'with all that was to be undone')
  t.notOk(connection.frames().some(({ type }) => type === frameType.goaway))
})

test('a response that is not whole when its connection ends cannot be read', async (t) => {
  const { port, seen } = await startHttp2(t)
  const connection = await connectRaw(t, port)
  const noWindow = frame('settings', 0, 0, settings({ [settingId.initialWindowSize]: 0 }))
  await connection.send(hello, frame('headers', 1, whole, post()))
  await connection.frame('headers', ({ stream, flags }) => stream === 1 && (flags & 1) === 1)
  await connection.send(noWindow, frame('headers', 3, whole, post()))
  await connection.frame('headers', ({ stream }) => stream === 3)
  connection.socket.destroy()
  await poll(() => seen.closed === 2, 'the connection has ended')
  t.strictSame(seen.undone, [3], 'the other response may have been read')
})

for (const event of ['end', 'error']) {
  test(`after the ${event} of a connection no response is sent`, async (t) => {
    const undone: number[] = []
    const server = createServer((socket) => {
      const connection = new Connection(socket, {
        limits: defaultLimits,
        onFault: (error) => t.fail(String(error)),
        open(stream) {
          stream.whenReset(() => undone.push(stream.id))
          // Before the 'close' event.
          const respond = () => process.nextTick(answer, stream, Buffer.from('hi'))
          socket.prependOnceListener(event, respond)
          return ignoreStream
        },
      })
      t.teardown(() => connection.destroy())
    })
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
    t.teardown(() => server.close())
    const client = await connectRaw(t, (server.address() as AddressInfo).port)
    await client.send(hello, frame('headers', 1, whole, post()))
    await client.frame('settings', ({ flags }) => (flags & 1) === 1)
    if (event === 'end') client.socket.end()
    else client.socket.resetAndDestroy()
    await poll(() => undone.length > 0, 'it is undone')
    t.strictSame(undone, [1])
  })
}
