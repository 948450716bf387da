import { test } from 'tap'
import { readTimeout } from '../../src/grpc/call.ts'
import { defaultLimits } from '../../src/grpc/http2/limits.ts'
import { startGrpc } from '../support/grpc-client.ts'
import { callWire, connectWire, prefixed } from '../support/grpc-wire.ts'

test('reads a timeout in each unit', async (t) => {
  const read = ['1H', '2M', '3S', '4m', '5u', '6n', '0n', '99999999H'].map(readTimeout)
  t.strictSame(read, [3_600_000, 120_000, 3_000, 4, 1, 1, 0, 2 ** 31 - 1])
  for (const none of [undefined, '', '1', 'm', '-1m', '1.5S', '123456789m', '1s', ' 1m']) {
    t.equal(readTimeout(none), undefined, String(none))
  }
})

test('a late call ends with DEADLINE_EXCEEDED', async (t) => {
  const answers: ((answer: Buffer) => void)[] = []
  const { port, faults } = await startGrpc(t, {
    unary: {
      '/test/never': () => new Promise<Buffer>((resolve) => answers.push(resolve)),
      '/test/echo': (message) => message,
    },
  })
  const session = connectWire(t, port)
  const headers = { 'grpc-timeout': '30m' }
  const late = await callWire(session, { path: '/test/never', headers, frames: [prefixed('a')] })
  t.match(late, { status: '4', message: 'deadline exceeded', alone: true })
  const watch = { path: '/grpc.health.v1.Health/Watch', headers, frames: [prefixed('')] }
  t.match(await callWire(session, watch), { status: '4', alone: false })
  // A response after the deadline is dropped.
  for (const answer of answers) answer(Buffer.from('too late'))
  t.match(await callWire(session, { headers, frames: [prefixed('a')] }), { status: '0' })
  t.strictSame(faults, [])
})

test('a request that is not completed ends without a grpc-timeout', async (t) => {
  const { port, faults } = await startGrpc(t, {
    unary: { '/test/echo': (message) => message },
    limits: { ...defaultLimits, requestMs: 100 },
  })
  const session = connectWire(t, port)
  const cut = prefixed('cut', 0, 4)
  for (const [title, call] of Object.entries({
    'no message': {},
    'part of a message': { frames: [cut] },
    'a message without an end': { frames: [prefixed('a')] },
    'a watch without a message': { path: '/grpc.health.v1.Health/Watch' },
  })) {
    const ended = await callWire(session, { ...call, open: true })
    t.match(ended, { status: '4', message: 'the request was not completed in time' }, title)
  }

  t.strictSame(faults, [])
})
