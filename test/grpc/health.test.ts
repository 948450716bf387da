import { once } from 'node:events'
import { test } from 'tap'
import { createHealth } from '../../src/grpc/health.ts'
import { WireReader } from '../../src/grpc/wire.ts'
import { connect, startGrpc } from '../support/grpc-client.ts'

const checkPath = '/grpc.health.v1.Health/Check'
const watchPath = '/grpc.health.v1.Health/Watch'
const nothing = Buffer.alloc(0)

/** The field `status` (1) of a HealthCheckResponse. */
function statusOf(bytes: Buffer): string {
  const reader = new WireReader(bytes)
  let status = 0
  while (reader.next()) if (reader.field === 1) status = reader.unsigned()
  return ['UNKNOWN', 'SERVING', 'NOT_SERVING', 'SERVICE_UNKNOWN'][status] ?? String(status)
}

test('a server is healthy from the start', async (t) => {
  const { ask } = await startGrpc(t, {})
  t.equal(statusOf(await ask(checkPath, nothing)), 'SERVING')
  t.equal(
    statusOf(await ask(checkPath, Buffer.from('0a0161', 'hex'))),
    'SERVING',
    'for any service',
  )
})

test('a watch reports the drain', async (t) => {
  const { server, watch } = await startGrpc(t, {})
  const received: string[] = []
  const calls = [watch(watchPath, nothing), watch(watchPath, nothing)]
  for (const call of calls) {
    call.on('data', (bytes: Buffer) => received.push(statusOf(bytes)))
    call.on('error', (error) => t.fail(String(error)))
  }
  await Promise.all(calls.map((call) => once(call, 'data')))
  t.strictSame(received, ['SERVING', 'SERVING'])
  const ends = calls.map((call) => once(call, 'end'))
  await server.stop(20_000)
  await Promise.all(ends)
  t.strictSame(received.slice(2), ['NOT_SERVING', 'NOT_SERVING'])
})

test('a watch reports a process that cannot serve for a while', async (t) => {
  const { server, watch, ask } = await startGrpc(t, {})
  const received: string[] = []
  const call = watch(watchPath, nothing)
  call.on('data', (bytes: Buffer) => received.push(statusOf(bytes)))
  call.on('error', () => {})
  await once(call, 'data')
  server.noteServing(false)
  server.noteServing(false)
  await once(call, 'data')
  t.equal(statusOf(await ask(checkPath, nothing)), 'NOT_SERVING')
  server.noteServing(true)
  await once(call, 'data')
  t.strictSame(received, ['SERVING', 'NOT_SERVING', 'SERVING'])
})

test('a drain is for good', async (t) => {
  const health = createHealth()
  health.drain()
  health.note(true)
  t.equal(statusOf(health.unary[checkPath]()), 'NOT_SERVING')
})

test('health checks learn of a stop while calls are still served', async (t) => {
  const echo = (message: Buffer) => message
  const { server, port, ask } = await startGrpc(t, { unary: { '/test/echo': echo } })
  t.equal(statusOf(await ask(checkPath, nothing)), 'SERVING')
  const stopped = server.stop(20_000, 300)
  t.equal(statusOf(await ask(checkPath, nothing)), 'NOT_SERVING')
  const late = connect(t, `127.0.0.1:${port}`)
  t.same(
    await late.ask('/test/echo', Buffer.from('a')),
    Buffer.from('a'),
    'on a new connection, too',
  )
  await stopped
  await t.rejects(late.ask('/test/echo', nothing))
})

test('a cancelled watch gets no message', async (t) => {
  const { server, watch, faults } = await startGrpc(t, {})
  const call = watch(watchPath, nothing)
  call.on('error', () => {})
  await once(call, 'data')
  call.cancel()
  await server.stop(20_000)
  t.strictSame(faults, [])
})
