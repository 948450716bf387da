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
import { startHttp2 } from '../../support/http2-server.ts'
import { poll } from '../../support/poll.ts'

const { endStream, endHeaders, padded, priority, ack } = frameFlag
const whole = endStream | endHeaders
const call = (stream: number): Buffer => frame('headers', stream, whole, post())
const begin = (stream: number, ...more: Buffer[]): Buffer =>
  frame('headers', stream, endHeaders, post(...more))
const update = (stream: number, bytes: number): Buffer =>
  frame('windowUpdate', stream, 0, uint32(bytes))

/** The frames that a client sends after its preface and SETTINGS, and the reaction. */
type Row = readonly [name: string, frames: readonly Buffer[], comes: Comes]
type Comes =
  | { readonly goaway: number }
  | { readonly reset: number; readonly stream?: number }
  | { readonly answered: readonly number[] }

const { protocolError, frameSizeError, streamClosed, flowControlError, compressionError } =
  errorCode
const { enhanceYourCalm } = errorCode

const rows: readonly Row[] = [
  ['a request', [call(1)], { answered: [1] }],
  ['two requests in one read', [call(1), call(3)], { answered: [1, 3] }],
  ['a request that skips stream ids', [call(5), call(9)], { answered: [5, 9] }],
  ['a request with a lower id', [call(5), call(3)], { goaway: streamClosed }],
  ['a request with an even id', [call(2)], { goaway: protocolError }],
  ['a request on stream 0', [call(0)], { goaway: protocolError }],
  ['a second request on a stream', [call(1), call(1)], { goaway: streamClosed }],
  ['a body', [begin(1), frame('data', 1, endStream, 'x')], { answered: [1] }],
  [
    'an empty DATA frame at the end',
    [begin(1), frame('data', 1), frame('data', 1, endStream)],
    { answered: [1] },
  ],
  [
    'padded frames',
    [
      frame(
        'headers',
        1,
        endHeaders | padded,
        Buffer.concat([Buffer.of(2), post(), Buffer.alloc(2)]),
      ),
      frame('data', 1, endStream | padded, Buffer.from([3, 0x61, 0, 0, 0])),
    ],
    { answered: [1] },
  ],
  [
    'HEADERS with too much padding',
    [frame('headers', 1, whole | padded, Buffer.concat([Buffer.of(9), post()]))],
    { goaway: protocolError },
  ],
  [
    'DATA with too much padding',
    [begin(1), frame('data', 1, padded, 'aa')],
    { goaway: protocolError },
  ],
  ['DATA without its pad length', [begin(1), frame('data', 1, padded)], { goaway: protocolError }],
  [
    'a priority',
    [frame('headers', 1, whole | priority, Buffer.concat([uint32(0), Buffer.of(9), post()]))],
    { answered: [1] },
  ],
  [
    'HEADERS shorter than its priority',
    [frame('headers', 1, whole | priority, 'abc')],
    { goaway: protocolError },
  ],
  [
    'a request that depends on itself',
    [frame('headers', 1, whole | priority, Buffer.concat([uint32(1), Buffer.of(9), post()]))],
    { reset: protocolError },
  ],
  [
    'PRIORITY of an idle stream',
    [frame('priority', 7, 0, Buffer.alloc(5)), call(9)],
    { answered: [9] },
  ],
  ['PRIORITY of the wrong length', [frame('priority', 1, 0, 'abc')], { reset: frameSizeError }],
  ['PRIORITY on stream 0', [frame('priority', 0, 0, Buffer.alloc(5))], { goaway: protocolError }],
  [
    'a block in three frames',
    [
      frame('headers', 1, endStream, post().subarray(0, 1)),
      frame('continuation', 1, 0, post().subarray(1, 2)),
      frame('continuation', 1, endHeaders, post().subarray(2)),
    ],
    { answered: [1] },
  ],
  [
    'another frame within a block',
    [frame('headers', 1, endStream, post()), frame('ping', 0, 0, Buffer.alloc(8))],
    { goaway: protocolError },
  ],
  [
    'CONTINUATION on another stream',
    [frame('headers', 1, endStream, post()), frame('continuation', 3, endHeaders)],
    { goaway: protocolError },
  ],
  [
    'CONTINUATION without HEADERS',
    [frame('continuation', 1, endHeaders)],
    { goaway: protocolError },
  ],
  ['DATA on stream 0', [frame('data', 0, 0, 'x')], { goaway: protocolError }],
  ['DATA before a request', [frame('data', 1, 0, 'x')], { goaway: protocolError }],
  [
    'DATA after the end',
    [begin(1), call(3), frame('data', 3, 0, 'x')],
    { reset: streamClosed, stream: 3 },
  ],
  ['RST_STREAM before a request', [frame('rstStream', 1, 0, uint32(8))], { goaway: protocolError }],
  [
    'RST_STREAM of the wrong length',
    [begin(1), frame('rstStream', 1, 0, 'abc')],
    { goaway: frameSizeError },
  ],
  ['WINDOW_UPDATE before a request', [update(1, 1)], { goaway: protocolError }],
  ['WINDOW_UPDATE after the end', [call(1), update(1, 1), call(3)], { answered: [1, 3] }],
  ['a WINDOW_UPDATE of zero for the connection', [update(0, 0)], { goaway: protocolError }],
  ['a WINDOW_UPDATE of zero for a stream', [begin(1), update(1, 0)], { reset: protocolError }],
  ['a window overflow of the connection', [update(0, 2 ** 31 - 1)], { goaway: flowControlError }],
  [
    'a window overflow of a stream',
    [begin(1), update(1, 2 ** 31 - 1)],
    { reset: flowControlError },
  ],
  [
    'a window overflow by SETTINGS',
    [
      begin(1),
      update(1, 2 ** 30),
      frame('settings', 0, 0, settings({ [settingId.initialWindowSize]: 2 ** 31 - 1 })),
    ],
    { goaway: flowControlError },
  ],
  ['SETTINGS on a stream', [frame('settings', 1)], { goaway: protocolError }],
  ['SETTINGS of a wrong length', [frame('settings', 0, 0, 'abc')], { goaway: frameSizeError }],
  [
    'a SETTINGS acknowledgement with a payload',
    [frame('settings', 0, ack, 'abcdef')],
    { goaway: frameSizeError },
  ],
  [
    'an unknown setting',
    [frame('settings', 0, 0, settings({ 99: 1 })), call(1)],
    { answered: [1] },
  ],
  [
    'an initial window that is too large',
    [frame('settings', 0, 0, settings({ [settingId.initialWindowSize]: 2 ** 31 }))],
    { goaway: flowControlError },
  ],
  [
    'a frame size below the minimum',
    [frame('settings', 0, 0, settings({ [settingId.maxFrameSize]: 16_383 }))],
    { goaway: protocolError },
  ],
  [
    'an invalid ENABLE_PUSH',
    [frame('settings', 0, 0, settings({ [settingId.enablePush]: 2 }))],
    { goaway: protocolError },
  ],
  ['PUSH_PROMISE', [frame('pushPromise', 1, endHeaders, uint32(2))], { goaway: protocolError }],
  ['PING on a stream', [frame('ping', 1, 0, Buffer.alloc(8))], { goaway: protocolError }],
  ['PING of the wrong length', [frame('ping', 0, 0, 'abc')], { goaway: frameSizeError }],
  ['GOAWAY and a request', [frame('goaway', 0, 0, Buffer.alloc(8)), call(1)], { answered: [1] }],
  ['GOAWAY of the wrong length', [frame('goaway', 0, 0, 'abc')], { goaway: frameSizeError }],
  ['a frame of unknown type', [frame(0x42, 7, 0xff, 'what'), call(1)], { answered: [1] }],
  [
    'a frame that is too long',
    [begin(1), frame('data', 1, 0, Buffer.alloc(16_385))],
    { goaway: frameSizeError },
  ],
  [
    'the longest frame',
    [begin(1), frame('data', 1, endStream, Buffer.alloc(16_384))],
    { answered: [1] },
  ],
  [
    'an index beyond the tables',
    [frame('headers', 1, whole, Buffer.of(0x80))],
    { goaway: compressionError },
  ],
  ['trailers', [begin(1), frame('headers', 1, whole, literal('x-end', 'yes'))], { answered: [1] }],
  [
    'trailers without END_STREAM',
    [begin(1), frame('headers', 1, endHeaders, literal('x', 'y'))],
    { reset: protocolError },
  ],
  [
    'trailers with a path',
    [begin(1), frame('headers', 1, whole, Buffer.of(0x84))],
    { reset: protocolError },
  ],
  ['no method', [frame('headers', 1, whole, Buffer.of(0x86, 0x84))], { reset: protocolError }],
  ['no scheme', [frame('headers', 1, whole, Buffer.of(0x83, 0x84))], { reset: protocolError }],
  ['no path', [frame('headers', 1, whole, Buffer.of(0x83, 0x86))], { reset: protocolError }],
  ['two paths', [frame('headers', 1, whole, post(Buffer.of(0x84)))], { reset: protocolError }],
  [
    'an empty path',
    [frame('headers', 1, whole, Buffer.concat([Buffer.of(0x83, 0x86), literal(':path', '')]))],
    { reset: protocolError },
  ],
  ['a status', [frame('headers', 1, whole, post(Buffer.of(0x88)))], { reset: protocolError }],
  [
    'a path after other fields',
    [
      frame(
        'headers',
        1,
        whole,
        Buffer.concat([Buffer.of(0x83, 0x86), literal('a', 'b'), Buffer.of(0x84)]),
      ),
    ],
    { reset: protocolError },
  ],
  ...['Content-Type', 'con tent', 'a\0', 'a\r\nb', ':new', '', 'é'].map(
    (name): Row => [
      `a field called ${JSON.stringify(name)}`,
      [frame('headers', 1, whole, post(literal(name, 'x')))],
      { reset: protocolError },
    ],
  ),
  ...['a\0b', 'a\nb', 'a\rb', ' a', 'a\t'].map(
    (value): Row => [
      `a value of ${JSON.stringify(value)}`,
      [frame('headers', 1, whole, post(literal('a', value)))],
      { reset: protocolError },
    ],
  ),
  ...['connection', 'keep-alive', 'proxy-connection', 'transfer-encoding', 'upgrade', 'te'].map(
    (name): Row => [
      name,
      [frame('headers', 1, whole, post(literal(name, 'x')))],
      { reset: protocolError },
    ],
  ),
  [
    'te: trailers',
    [frame('headers', 1, whole, post(literal('te', 'trailers')))],
    { answered: [1] },
  ],
  [
    'CONNECT with a path',
    [
      frame(
        'headers',
        1,
        whole,
        Buffer.concat([literal(':method', 'CONNECT'), Buffer.of(0x84), literal(':authority', 'a')]),
      ),
    ],
    { reset: protocolError },
  ],
  [
    'a body of the announced length',
    [
      begin(1, literal('content-length', '2')),
      frame('data', 1, 0, 'a'),
      frame('data', 1, endStream, 'b'),
    ],
    { answered: [1] },
  ],
  [
    'a longer body',
    [begin(1, literal('content-length', '1')), frame('data', 1, 0, 'ab')],
    { reset: protocolError },
  ],
  [
    'a shorter body',
    [begin(1, literal('content-length', '3')), frame('data', 1, endStream, 'ab')],
    { reset: protocolError },
  ],
  [
    'a shorter body and trailers',
    [begin(1, literal('content-length', '3')), frame('headers', 1, whole, literal('a', 'b'))],
    { reset: protocolError },
  ],
  [
    'a length without a body',
    [frame('headers', 1, whole, post(literal('content-length', '3')))],
    { reset: protocolError },
  ],
  [
    'two content lengths',
    [begin(1, literal('content-length', '3'), literal('content-length', '4'))],
    { reset: protocolError },
  ],
  [
    'an invalid content length',
    [begin(1, literal('content-length', '-1'))],
    { reset: protocolError },
  ],
  [
    'a header list that is too long',
    [frame('headers', 1, whole, post(...Array.from({ length: 126 }, () => literal('a', 'b'))))],
    { reset: enhanceYourCalm },
  ],
  [
    'the longest header list',
    [frame('headers', 1, whole, post(...Array.from({ length: 125 }, () => literal('a', 'b'))))],
    { answered: [1] },
  ],
]

async function said(connection: RawConnection, comes: Comes): Promise<Comes> {
  await connection.settle()
  const frames = connection.frames()
  const goaway = frames.find(({ type }) => type === frameType.goaway)
  if (goaway !== undefined) return { goaway: goaway.payload.readUInt32BE(4) }
  const reset = frames.find(({ type }) => type === frameType.rstStream)
  if (reset !== undefined) {
    const { stream } = reset
    return { reset: reset.payload.readUInt32BE(0), ...('stream' in comes && { stream }) }
  }
  const ends = frames.filter(({ type, flags }) => type === frameType.headers && flags & endStream)
  return { answered: ends.map(({ stream }) => stream) }
}

test('reacts correctly to each frame', async (t) => {
  const { port, faults } = await startHttp2(t)
  for (const [name, frames, comes] of rows) {
    const connection = await connectRaw(t, port)
    await connection.send(hello, ...frames)
    t.strictSame(await said(connection, comes), comes, name)
    if ('goaway' in comes) await poll(() => connection.closed, `${name}: the connection ends`)
    else {
      await connection.send(call(1_001))
      await connection.frame('headers', ({ stream }) => stream === 1_001)
    }
    connection.socket.destroy()
  }
  t.strictSame(faults, [])
})

test('reassembles frames from pieces of any size', async (t) => {
  const { port } = await startHttp2(t)
  const frames = [
    ...[begin(1), frame('data', 1, endStream, 'hello'), frame('ping', 0, 0, Buffer.alloc(8, 1))],
    ...[call(3), frame('headers', 5, endStream, post().subarray(0, 1))],
    ...[
      frame('continuation', 5, endHeaders, post().subarray(1)),
      begin(7),
      frame('data', 7, endStream),
    ],
  ]
  const all = Buffer.concat([hello, ...frames])
  let expected: Buffer | undefined
  const tearings: (readonly number[])[] = [[...all.keys()].slice(1)]
  for (let at = 1; at < all.length; at += 1) tearings.push([at])
  for (const tears of tearings) {
    const connection = await connectRaw(t, port)
    let from = 0
    for (const at of [...tears, all.length]) {
      await connection.send(all.subarray(from, at))
      // So that the server reads the pieces separately.
      await new Promise(setImmediate)
      from = at
    }
    await connection.frame(
      'headers',
      ({ stream, flags }) => stream === 7 && (flags & endStream) > 0,
    )
    const frames = JSON.stringify(connection.frames())
    expected ??= Buffer.from(frames)
    if (frames !== String(expected)) t.equal(frames, String(expected), `torn at ${tears}`)
    connection.socket.destroy()
  }
  t.pass(`${tearings.length} ways`)
})

test('closes connections that do not speak HTTP/2', async (t) => {
  const { port } = await startHttp2(t)
  const openings = [
    Buffer.from('GET / HTTP/1.1\r\nhost: a\r\n\r\n'),
    Buffer.concat([hello.subarray(0, 24), call(1)]),
    Buffer.concat([hello.subarray(0, 24), frame('settings', 0, ack)]),
    Buffer.concat([hello.subarray(0, 23), Buffer.of(0)]),
  ]
  for (const opening of openings) {
    const connection = await connectRaw(t, port)
    await connection.send(opening)
    const goaway = await connection.frame('goaway')
    t.equal(goaway.payload.readUInt32BE(4), protocolError)
    await poll(() => connection.closed, 'the connection ends')
  }
})

test('closes connections that send nothing', async (t) => {
  const { port } = await startHttp2(t, { stallMs: 200 })
  const greet = async (): Promise<RawConnection> => {
    const connection = await connectRaw(t, port)
    await connection.send(hello)
    await connection.settle()
    // On a busy machine the preface itself may arrive too late.
    return connection.closed ? greet() : connection
  }
  const greeted = await greet()
  const silent = await connectRaw(t, port)
  await poll(() => silent.closed, 'the connection ends')
  await greeted.settle()
  t.equal(greeted.closed, false, 'a client that has started stays connected')
})

test('a response waits for both windows', async (t) => {
  const { port } = await startHttp2(t)
  const connection = await connectRaw(t, port)
  const small = frame('settings', 0, 0, settings({ [settingId.initialWindowSize]: 3 }))
  await connection.send(hello, small, call(1))
  const data = (stream: number): string =>
    connection
      .frames()
      .filter((one) => one.type === frameType.data && one.stream === stream)
      .map(({ payload }) => payload.toString())
      .join('|')
  const ended = (stream: number): boolean =>
    connection
      .frames()
      .some(
        (one) => one.type === frameType.headers && one.stream === stream && one.flags & endStream,
      )
  await connection.settle()
  t.strictSame([data(1), ended(1)], ['hel', false])
  await connection.send(update(1, 1))
  await connection.settle()
  t.equal(data(1), 'hel|l')
  await connection.send(frame('settings', 0, 0, settings({ [settingId.initialWindowSize]: 100 })))
  await connection.settle()
  t.strictSame([data(1), ended(1)], ['hel|l|o', true])
  // 65,530 bytes of the connection's window are left.
  const long = Buffer.alloc(65_529, 'a')
  const body = [0, 16_384, 32_768, 49_152].map((at) => long.subarray(at, at + 16_384))
  const wide = frame('settings', 0, 0, settings({ [settingId.initialWindowSize]: 1_000_000 }))
  await connection.send(
    wide,
    begin(3),
    ...body.slice(0, 3).map((part) => frame('data', 3, 0, part)),
  )
  await connection.send(frame('data', 3, endStream, body[3] as Buffer), call(5), call(7))
  await connection.settle()
  t.strictSame([ended(3), ended(5), data(5), data(7)], [true, false, 'h', ''])
  await connection.send(update(0, 2))
  await connection.settle()
  t.strictSame([data(5), data(7)], ['h|el', ''])
  await connection.send(update(0, 3))
  await connection.settle()
  t.strictSame([data(5), data(7)], ['h|el', 'hel'], 'the waiting stream is served next')
  await connection.send(update(0, 100))
  await connection.settle()
  t.strictSame([ended(5), ended(7)], [true, true])
})

test('sends nothing if the window is smaller than what was sent', async (t) => {
  const { port } = await startHttp2(t)
  const connection = await connectRaw(t, port)
  await connection.send(hello, begin(1))
  await connection.send(frame('settings', 0, 0, settings({ [settingId.initialWindowSize]: 0 })))
  await connection.send(frame('data', 1, endStream, 'body'))
  await connection.settle()
  const isData = ({ type }: { type: number }): boolean => type === frameType.data
  t.equal(connection.frames().some(isData), false)
  await connection.send(update(1, 4))
  t.equal(String((await connection.frame('data')).payload), 'body')
})

test('closes streams that exceed their window', async (t) => {
  const { port } = await startHttp2(t, { streamWindow: 100, connectionWindow: 65_535 })
  const connection = await connectRaw(t, port)
  await connection.send(hello, begin(1), frame('data', 1, 0, Buffer.alloc(60)))
  await connection.frame('windowUpdate', ({ stream }) => stream === 1)
  await connection.send(frame('data', 1, 0, Buffer.alloc(101)))
  const reset = await connection.frame('rstStream')
  t.equal(reset.payload.readUInt32BE(0), flowControlError)
  const greedy = await connectRaw(t, port)
  const frames = Array.from({ length: 700 }, (_, i) => [
    begin(2 * i + 1),
    frame('data', 2 * i + 1, 0, Buffer.alloc(99)),
  ])
  await greedy.send(hello, ...frames.flat())
  await greedy.settle()
  t.equal(greedy.closed, false, 'consumed bytes are returned to the window')
})

test('refuses streams beyond the limit', async (t) => {
  const { port, seen } = await startHttp2(t, { streams: 2 })
  const connection = await connectRaw(t, port)
  await connection.send(hello, begin(1), begin(3), begin(5), frame('data', 5, endStream, 'x'))
  const reset = await connection.frame('rstStream')
  t.strictSame([reset.stream, reset.payload.readUInt32BE(0)], [5, errorCode.refusedStream])
  await connection.send(frame('data', 1, endStream, 'x'), call(7))
  await connection.frame('headers', ({ stream }) => stream === 7)
  t.equal(seen.paths.length, 3)
})

test('repeated responses have short headers', async (t) => {
  const { port } = await startHttp2(t)
  const connection = await connectRaw(t, port)
  await connection.send(hello, call(1), call(3))
  const blocks = (stream: number): string[] =>
    connection
      .frames()
      .filter((one) => one.type === frameType.headers && one.stream === stream)
      .map(({ payload }) => payload.toString('hex'))
  await poll(() => blocks(3).length === 2, 'both responses have ended')
  t.strictSame(blocks(3), ['88bf', 'be'])
  const none = await connectRaw(t, port)
  const table = frame('settings', 0, 0, settings({ [settingId.headerTableSize]: 0 }))
  await none.send(hello, table, call(1), call(3))
  await none.frame('headers', ({ stream, flags }) => stream === 3 && (flags & endStream) > 0)
  const first = none.frames().find(({ type }) => type === frameType.headers)
  t.equal(first?.payload[0], 0x20, 'a peer without a table gets a size update to zero')
  t.notOk(
    none.frames().some(({ type, payload }) => type === frameType.headers && payload[0] === 0xbe),
  )
})

test('a drain accepts calls that are on their way, and then ends', async (t) => {
  const { port, connections, seen } = await startHttp2(t, { partingMs: 20_000 })
  const connection = await connectRaw(t, port)
  await connection.send(hello, begin(1))
  await connection.settle()
  for (const one of connections) one.drain()
  const last = ({ payload }: { payload: Buffer }): number => payload.readUInt32BE(0)
  t.equal(last(await connection.frame('goaway')), 2 ** 31 - 1)
  // The client does not know about the drain yet.
  await connection.send(call(3))
  await connection.frame('headers', ({ stream }) => stream === 3)
  const ping = await connection.frame('ping', ({ flags }) => (flags & ack) === 0)
  await connection.send(frame('ping', 0, ack, ping.payload), call(5))
  t.equal(last(await connection.frame('goaway', (one) => last(one) < 2 ** 31 - 1)), 3)
  const refused = await connection.frame('rstStream')
  t.strictSame([refused.stream, refused.payload.readUInt32BE(0)], [5, errorCode.refusedStream])
  t.equal(connection.closed, false, 'one call has not ended')
  await connection.send(frame('data', 1, endStream, 'x'))
  await connection.frame('headers', ({ stream, flags }) => stream === 1 && (flags & endStream) > 0)
  await poll(() => connection.closed, 'the connection ends')
  t.strictSame(seen.bodies, ['', 'x'])
})

test('a drain does not wait for silent clients', async (t) => {
  const { port, connections } = await startHttp2(t, { partingMs: 30 })
  const silent = await connectRaw(t, port)
  const reserved = await connectRaw(t, port)
  await reserved.send(hello)
  await reserved.settle()
  for (const one of connections) one.drain()
  await poll(() => silent.closed && reserved.closed, 'both connections end')
  t.equal(connections.size, 0)
})
