import { once } from 'node:events'
import { gzipSync } from 'node:zlib'
import { test } from 'tap'
import { WireError } from '../../src/grpc/wire.ts'
import { startGrpc } from '../support/grpc-client.ts'
import {
  callWire,
  connectWire,
  prefixed,
  type WireAnswer,
  type WireCall,
} from '../support/grpc-wire.ts'

const mebibyte = 2 ** 20
const hello = prefixed('hello')
const long = Buffer.alloc(300_000, 'long')

const methods = {
  unary: {
    '/test/echo': (message: Buffer) => message,
    '/test/late': async (message: Buffer) => message,
    '/test/empty': () => Buffer.alloc(0),
    '/test/malformed': () => {
      throw new WireError('50 % of it – cut\r\nshort')
    },
    '/test/fault': () => {
      throw new Error('secret')
    },
  },
}

/** A call and its response. The next call on the connection must succeed in each case. */
type Row = readonly [name: string, call: WireCall, answer: Partial<WireAnswer>]

const ok = { http: 200, status: '0', alone: false }
const failed = (status: string, message?: string): Partial<WireAnswer> => ({
  http: 200,
  status,
  alone: true,
  body: Buffer.alloc(0),
  ...(message !== undefined && { message }),
})

const rows: readonly Row[] = [
  ['one frame', { frames: [hello] }, { ...ok, body: hello }],
  [
    'a frame for each byte',
    { frames: [...hello].map((byte) => Buffer.of(byte)) },
    { ...ok, body: hello },
  ],
  ['an empty message', { frames: [prefixed('')] }, { ...ok, body: prefixed('') }],
  [
    'empty frames in between',
    { frames: [Buffer.alloc(0), hello, Buffer.alloc(0)] },
    { ...ok, body: hello },
  ],
  ['many frames', { frames: [prefixed(long)] }, { ...ok, body: prefixed(long) }],
  ['an asynchronous response', { path: '/test/late', frames: [hello] }, { ...ok, body: hello }],
  [
    'the longest message',
    { path: '/test/empty', frames: [prefixed(Buffer.alloc(4 * mebibyte))] },
    ok,
  ],
  ['one byte too long', { frames: [prefixed('', 0, 4 * mebibyte + 1)] }, failed('8')],
  ['too long and not ended', { frames: [prefixed('', 0, 2 ** 32 - 1)], open: true }, failed('8')],
  ['no message', {}, failed('12', 'no message')],
  [
    'two messages in a frame',
    { frames: [Buffer.concat([hello, hello])] },
    failed('12', 'more than one message'),
  ],
  [
    'two messages, not ended',
    { frames: [hello, hello], open: true },
    failed('12', 'more than one message'),
  ],
  [
    'an incomplete prefix',
    { frames: [hello.subarray(0, 3)] },
    failed('13', 'message is cut short'),
  ],
  [
    'an incomplete message',
    { frames: [hello.subarray(0, 7)] },
    failed('13', 'message is cut short'),
  ],
  [
    'a message and an incomplete one',
    { frames: [Buffer.concat([hello, hello.subarray(0, 7)])] },
    failed('13', 'message is cut short'),
  ],
  ['an unknown method', { path: '/test/none', frames: [hello] }, failed('12', 'unknown method')],
  ['a property of Object.prototype', { path: '/__proto__' }, failed('12', 'unknown method')],
  [
    'an unknown method, not ended',
    { path: '/test/none', frames: [hello], open: true },
    failed('12'),
  ],
  [
    'a malformed message',
    { path: '/test/malformed', frames: [hello] },
    failed('3', 'malformed message: 50 %25 of it %E2%80%93 cut%0D%0Ashort'),
  ],
  ['an internal error', { path: '/test/fault', frames: [hello] }, failed('13', 'internal error')],
  [
    'gzip',
    { headers: { 'grpc-encoding': 'gzip' }, frames: [prefixed(gzipSync(long), 1)] },
    { ...ok, body: prefixed(long) },
  ],
  [
    'gzip announced but not used',
    { headers: { 'grpc-encoding': 'gzip' }, frames: [hello] },
    { ...ok, body: hello },
  ],
  [
    'invalid gzip',
    { headers: { 'grpc-encoding': 'gzip' }, frames: [prefixed('hello', 1)] },
    failed('13', 'message cannot be decompressed'),
  ],
  [
    'gzip of a message that is too long',
    {
      headers: { 'grpc-encoding': 'gzip' },
      frames: [prefixed(gzipSync(Buffer.alloc(4 * mebibyte + 1)), 1)],
    },
    failed('8'),
  ],
  [
    'another compression',
    { headers: { 'grpc-encoding': 'snappy' }, frames: [prefixed('hello', 1)] },
    failed('12', 'grpc-encoding snappy is not supported'),
  ],
  ['compressed without grpc-encoding', { frames: [prefixed('hello', 1)] }, failed('13')],
  ['an unknown flag', { frames: [prefixed('hello', 2)] }, failed('13')],
  [
    'a content type with a format',
    { headers: { 'content-type': 'application/grpc+proto' }, frames: [hello] },
    ok,
  ],
  [
    'another content type',
    { headers: { 'content-type': 'application/json' }, frames: [hello] },
    { http: 415, status: undefined },
  ],
  [
    'a content type with the same prefix',
    { headers: { 'content-type': 'application/grpc-web' }, frames: [hello] },
    { http: 415 },
  ],
  [
    'another format',
    { headers: { 'content-type': 'application/grpc+json' }, frames: [hello] },
    { http: 415 },
  ],
  [
    'another HTTP method',
    { headers: { ':method': 'PUT' }, frames: [hello] },
    { http: 405, status: undefined },
  ],
  ['no body', { headers: { ':method': 'GET' } }, { http: 405 }],
  ['HEAD', { headers: { ':method': 'HEAD' } }, { http: 405 }],
  [
    'headers without an end',
    { headers: { 'x-much': 'x'.repeat(40_000) }, frames: [hello] },
    { http: 0, rstCode: 11 },
  ],
]

test('each form of a call gets its response', async (t) => {
  const { port, faults } = await startGrpc(t, methods)
  const session = connectWire(t, port)
  for (const [name, call, answer] of rows) {
    t.match(await callWire(session, call), answer, name)
    t.match(await callWire(session, { frames: [hello] }), { ...ok, body: hello }, `after ${name}`)
  }
  t.match(faults, [{ message: 'secret' }])
})

test('a method gets the traceparent of its call', async (t) => {
  const learnt: (string | undefined)[] = []
  const { port } = await startGrpc(t, {
    unary: {
      '/test/traced': (message, traceparent) => {
        learnt.push(traceparent)
        return message
      },
    },
  })
  const session = connectWire(t, port)
  const traceparent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'
  const call = { path: '/test/traced', frames: [hello] }
  await callWire(session, { ...call, headers: { traceparent } })
  await callWire(session, call)
  t.strictSame(learnt, [traceparent, undefined])
})

test('lists the supported compressions if one is refused', async (t) => {
  const { port } = await startGrpc(t, methods)
  const { headers } = await callWire(connectWire(t, port), {
    headers: { 'grpc-encoding': 'br' },
    frames: [prefixed('hello', 1)],
  })
  t.match(headers, { 'grpc-accept-encoding': 'identity,gzip' })
})

test('limits the size of unfinished messages per connection', async (t) => {
  const { port } = await startGrpc(t, methods)
  const [greedy, modest] = [connectWire(t, port), connectWire(t, port)]
  const unfinished = { frames: [prefixed(Buffer.alloc(4 * mebibyte - 10), 0, 4 * mebibyte)] }
  const held = Array.from({ length: 15 }, () => callWire(greedy, { ...unfinished, open: true }))
  const more = [1, 2, 3].map(() => callWire(greedy, { ...unfinished, open: true }))
  t.match(await Promise.race([...held, ...more]), { status: '8' })
  t.match(
    await callWire(modest, unfinished),
    { status: '13' },
    'the other connection has its own limit',
  )
  greedy.destroy()
  await Promise.all([...held, ...more])
  const again = connectWire(t, port)
  for (let i = 0; i < 20; i += 1) t.match(await callWire(again, unfinished), { status: '13' })
  t.match(await callWire(again, { frames: [hello] }), ok, 'failed calls hold no memory')
})

test('a drain closes idle connections', async (t) => {
  const { port, server } = await startGrpc(t, methods)
  const session = connectWire(t, port)
  await callWire(session, { frames: [hello] })
  const told = once(session, 'goaway')
  await server.stop(20_000)
  t.strictSame((await told)[0], 0, 'NO_ERROR')
})

test('a drain loses no call', async (t) => {
  const { port, server } = await startGrpc(t, { unary: methods.unary })
  const session = connectWire(t, port)
  await callWire(session, { frames: [hello] })
  const calls = Array.from({ length: 200 }, (_, i) =>
    callWire(session, { path: i % 2 ? '/test/late' : '/test/echo', frames: [hello] }),
  )
  await Promise.race(calls)
  await server.stop(20_000)
  // 7 is REFUSED_STREAM: the client knows that the call was not processed.
  for (const answer of await Promise.all(calls)) t.ok(answer.status === '0' || answer.rstCode === 7)
})

test('listens on the addresses of a host name', async (t) => {
  const { server } = await startGrpc(t, methods)
  const port = await server.listen('localhost:0')
  t.match(await callWire(connectWire(t, port), { frames: [hello] }), ok)
  await t.rejects(server.listen('192.0.2.1:0'), { code: 'EADDRNOTAVAIL' })
})
