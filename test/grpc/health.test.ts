import { test } from 'tap'
import { createHealth } from '../../src/grpc/health.ts'
import { WireReader } from '../../src/grpc/wire.ts'
import { connect, startGrpc } from '../support/grpc-client.ts'

const checkPath = '/grpc.health.v1.Health/Check'
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

test('a process that cannot serve for a while says so', async (t) => {
  const { server, ask } = await startGrpc(t, {})
  server.noteServing(false)
  t.equal(statusOf(await ask(checkPath, nothing)), 'NOT_SERVING')
  server.noteServing(true)
  t.equal(statusOf(await ask(checkPath, nothing)), 'SERVING')
})

test('a drain is for good', (t) => {
  const health = createHealth()
  health.drain()
  health.note(true)
  t.equal(statusOf(health.unary[checkPath]()), 'NOT_SERVING')
  t.end()
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
