import { test } from 'tap'
import { errorCode, frameFlag, frameType, settingId } from '../../../src/grpc/http2/frames.ts'
import {
  connectRaw,
  frame,
  hello,
  literal,
  post,
  type RawConnection,
  settings,
  uint32,
} from '../../support/http2-frames.ts'
import { answer, startHttp2 } from '../../support/http2-server.ts'
import { poll } from '../../support/poll.ts'

const { endStream, endHeaders } = frameFlag
const { enhanceYourCalm } = errorCode
const whole = endStream | endHeaders
const call = (stream: number): Buffer => frame('headers', stream, whole, post())
const begin = (stream: number): Buffer => frame('headers', stream, endHeaders, post())
const ping = frame('ping', 0, 0, Buffer.alloc(8))
const pings = (count: number): Buffer => Buffer.concat(Array.from({ length: count }, () => ping))

/** Low limits, so that the tests are short. */
const strict = {
  resets: { atOnce: 100, perSecond: 0 },
  idleFrames: { atOnce: 200, perSecond: 0 },
}

/** Sends frames until the connection ends, at most `times`; returns the error code of GOAWAY. */
async function flood(connection: RawConnection, next: (i: number) => Buffer, times: number) {
  await connection.send(hello)
  for (let i = 0; i < times && !connection.closed; i += 1) await connection.send(next(i))
  await connection.settle()
  const goaway = connection.frames().find(({ type }) => type === frameType.goaway)
  return goaway?.payload.readUInt32BE(4)
}

const id = (i: number): number => 2 * i + 1
const floods: Readonly<Record<string, (i: number) => Buffer>> = {
  PING: () => ping,
  'unsolicited PING acknowledgements': () => frame('ping', 0, frameFlag.ack, Buffer.alloc(8)),
  SETTINGS: () => frame('settings', 0),
  'SETTINGS acknowledgements': () => frame('settings', 0, frameFlag.ack),
  PRIORITY: () => frame('priority', 1, 0, Buffer.alloc(5)),
  'unknown frames': () => frame(77, 1, 0, 'x'),
  GOAWAY: () => frame('goaway', 0, 0, Buffer.alloc(8)),
  'WINDOW_UPDATE of one byte': () => frame('windowUpdate', 0, 0, uint32(1)),
  'empty DATA': (i) => (i === 0 ? begin(1) : frame('data', 1)),
  'empty DATA with padding': (i) =>
    i === 0 ? begin(1) : frame('data', 1, frameFlag.padded, Buffer.alloc(200, 199)),
  'RST_STREAM of one stream': (i) => (i === 0 ? begin(1) : frame('rstStream', 1, 0, uint32(8))),
  'rapid reset': (i) => Buffer.concat([begin(id(i)), frame('rstStream', id(i), 0, uint32(8))]),
  'streams reset by the server for a WINDOW_UPDATE of zero': (i) =>
    Buffer.concat([begin(id(i)), frame('windowUpdate', id(i), 0, uint32(0))]),
  'streams reset by the server for malformed headers': (i) =>
    frame('headers', id(i), whole, Buffer.of(0x83)),
  'streams reset by the server for DATA after their end': (i) =>
    Buffer.concat([call(id(i)), frame('data', id(i), 0, 'x')]),
  'by PRIORITY': (i) => frame('priority', id(i), 0, uint32(0)),
}

test('a flood closes only its connection', async (t) => {
  const { port, faults } = await startHttp2(t, strict)
  const bystander = await connectRaw(t, port)
  await bystander.send(hello)
  for (const [name, next] of Object.entries(floods)) {
    t.equal(await flood(await connectRaw(t, port), next, 2_000), enhanceYourCalm, name)
  }
  await bystander.settle()
  t.equal(bystander.closed, false)
  t.strictSame(faults, [])
})

test('requests earn an allowance for the frames that belong to them', async (t) => {
  const { port } = await startHttp2(t, strict)
  const usual = (i: number): Buffer =>
    Buffer.concat([
      call(id(i)),
      ping,
      frame('windowUpdate', 0, 0, uint32(5)),
      frame('windowUpdate', 0, 0, uint32(5)),
    ])
  t.equal(await flood(await connectRaw(t, port), usual, 1_000), undefined)
})

test('a header block without an end closes the connection', async (t) => {
  const { port } = await startHttp2(t)
  const start = frame('headers', 1, endStream, post())
  const long = (): Buffer => frame('continuation', 1, 0, Buffer.alloc(16_000))
  const short = (): Buffer => frame('continuation', 1)
  for (const [name, next] of Object.entries({ long, short })) {
    const code = await flood(await connectRaw(t, port), (i) => (i === 0 ? start : next()), 1_000)
    t.equal(code, enhanceYourCalm, name)
  }
})

test('rejects a header list that repeats a long field', async (t) => {
  const { port, seen } = await startHttp2(t)
  const connection = await connectRaw(t, port)
  const long = literal('x-long', 'x'.repeat(3_900))
  long[0] = 0x40
  const often = Buffer.alloc(16_000, 0xbe)
  await connection.send(hello, frame('headers', 1, whole, post(long)))
  await connection.send(frame('headers', 3, whole, post(often)), call(5))
  const reset = await connection.frame('rstStream')
  t.strictSame([reset.stream, reset.payload.readUInt32BE(0)], [3, enhanceYourCalm])
  await connection.frame('headers', ({ stream }) => stream === 5)
  t.equal(seen.paths.length, 2)
})

test('stops reading from a client that does not read', async (t) => {
  const { port, connections } = await startHttp2(t, {
    unwrittenBytes: 1_000,
    idleFrames: { atOnce: 1e9, perSecond: 0 },
    stallMs: 300,
  })
  const connection = await connectRaw(t, port)
  await connection.send(hello)
  await connection.settle()
  connection.socket.pause()
  let written = 0
  const flood = pings(3_000)
  // The sockets of both sides buffer some; after that the server has to stop reading.
  for (; written < 100e6; written += flood.length) if (!connection.socket.write(flood)) break
  const drained = new Promise((resolve) => connection.socket.once('drain', () => resolve(true)))
  for (let i = 0; i < 2_000; i += 1) connection.socket.write(flood)
  const ended = poll(() => connections.size === 0, 'the server closes the connection')
  t.equal(await Promise.race([drained, ended.then(() => false)]), false)
})

test('a client that ends without reading is disconnected', async (t) => {
  const { port, connections } = await startHttp2(t, {
    unwrittenBytes: 1e9,
    idleFrames: { atOnce: 1e9, perSecond: 0 },
    partingMs: 100,
  })
  const connection = await connectRaw(t, port)
  await connection.send(hello)
  await connection.settle()
  connection.socket.pause()
  // More answers than the sockets of both sides buffer.
  const flood = pings(10_000)
  for (let i = 0; i < 200; i += 1) await connection.send(flood)
  connection.socket.end()
  await poll(() => connections.size === 0, 'the server closes the connection')
})

test('a slow reader gets all its responses', async (t) => {
  const { port } = await startHttp2(t, { unwrittenBytes: 1_000 })
  const connection = await connectRaw(t, port)
  const wide = settings({ [settingId.initialWindowSize]: 2 ** 30 })
  await connection.send(hello, frame('settings', 0, 0, wide))
  await connection.send(frame('windowUpdate', 0, 0, uint32(2 ** 30)))
  connection.socket.pause()
  const body = Buffer.alloc(16_384, 'a')
  for (let i = 0; i < 600; i += 1) {
    connection.socket.write(begin(id(i)))
    connection.socket.write(frame('data', id(i), endStream, body))
  }
  await new Promise((resolve) => setTimeout(resolve, 100))
  connection.socket.resume()
  await poll(
    () =>
      connection
        .frames()
        .filter(({ type, flags }) => type === frameType.headers && flags & endStream).length ===
      600,
    'all responses have ended',
    30_000,
  )
  const bytes = connection
    .frames()
    .reduce((sum, { type, payload }) => sum + (type === frameType.data ? payload.length : 0), 0)
  t.equal(bytes, 600 * 16_384)
})

test('limits the size of responses that wait for a window', async (t) => {
  const { port } = await startHttp2(t, { heldBytes: 100_000 })
  const closed = frame('settings', 0, 0, settings({ [settingId.initialWindowSize]: 0 }))
  const body = Buffer.alloc(16_384, 'a')
  const greedy = await connectRaw(t, port)
  await greedy.send(hello, closed)
  for (let i = 0; i < 20; i += 1) {
    await greedy.send(begin(id(i)), frame('data', id(i), endStream, body))
  }
  const goaway = await greedy.frame('goaway')
  t.equal(goaway.payload.readUInt32BE(4), enhanceYourCalm)
})

test('waiting streams cost no CPU', async (t) => {
  const { port } = await startHttp2(t)
  const connection = await connectRaw(t, port)
  await connection.send(
    hello,
    frame('settings', 0, 0, settings({ [settingId.initialWindowSize]: 0 })),
  )
  const calls = Array.from({ length: 20_000 }, (_, i) => call(id(i)))
  await connection.send(...calls)
  await connection.settle()
  // One window per stream, from the last: each is found without a search.
  const updates = Array.from({ length: 5_000 }, (_, i) =>
    frame('windowUpdate', id(19_999 - i), 0, uint32(5)),
  )
  const begun = process.cpuUsage()
  await connection.send(...updates)
  await connection.settle()
  const { user } = process.cpuUsage(begun)
  t.ok(user < 5_000_000, `${user / 1_000} ms of CPU`)
  const ends = connection
    .frames()
    .filter(({ type, flags }) => type === frameType.headers && flags & endStream)
  t.equal(ends.length, 5_000)
})

test('a lost connection closes its streams', async (t) => {
  const { port, seen, faults, connections } = await startHttp2(t)
  for (const last of [
    begin(1),
    frame('headers', 1, 0, post()),
    Buffer.concat([begin(1), Buffer.of(0)]),
  ]) {
    const connection = await connectRaw(t, port)
    await connection.send(hello, last)
    await new Promise(setImmediate)
    connection.socket.resetAndDestroy()
  }
  await poll(() => connections.size === 0, 'all connections are closed')
  t.equal(seen.closed, seen.paths.length)
  t.strictSame(faults, [])
})

test('drops a response to a closed stream', async (t) => {
  const { port, faults } = await startHttp2(t)
  const connection = await connectRaw(t, port)
  await connection.send(hello, begin(1), frame('rstStream', 1, 0, uint32(8)))
  await connection.send(frame('data', 1, endStream, 'late'))
  await connection.settle()
  t.notOk(connection.frames().some(({ type }) => type === frameType.headers))
  t.strictSame(faults, [])
  t.type(answer, 'function')
})
