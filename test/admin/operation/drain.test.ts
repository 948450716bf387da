import { once } from 'node:events'
import { Agent, get, type IncomingMessage } from 'node:http'
import { type AddressInfo, connect } from 'node:net'
import Fastify from 'fastify'
import t from 'tap'
import { drain } from '../../../src/admin/operation/drain.ts'

const request = 'GET / HTTP/1.1\r\nhost: x\r\n\r\n'

async function startListener() {
  const app = Fastify({ return503OnClosing: false, forceCloseConnections: 'idle' })
  app.get('/', () => 'here')
  app.get('/never', () => new Promise(() => {}))
  await app.listen({ port: 0, host: '127.0.0.1' })
  return { app, port: (app.server.address() as AddressInfo).port }
}

t.test('a kept connection is answered during the drain', async (t) => {
  const { app, port } = await startListener()
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  t.teardown(() => agent.destroy())
  const ask = async () => {
    const [answer] = (await once(get({ port, host: '127.0.0.1', agent }), 'response')) as [
      IncomingMessage,
    ]
    answer.resume()
    await once(answer, 'end')
    return answer
  }
  const before = await ask()
  t.equal(before.headers.connection, 'keep-alive')
  t.notOk('x-envoy-immediate-health-check-fail' in before.headers)
  const over = drain(app, 5_000)
  const answer = await ask()
  t.equal(answer.statusCode, 200)
  t.equal(answer.headers.connection, 'close')
  t.equal(
    answer.headers['x-envoy-immediate-health-check-fail'],
    'true',
    'makes Envoy use another host',
  )
  await t.rejects(once(connect(port, '127.0.0.1'), 'connect'), { code: 'ECONNREFUSED' })
  await over
})

t.test('requests that wait in sockets unread are answered', async (t) => {
  const { app, port } = await startListener()
  const kept = connect(port, '127.0.0.1')
  kept.write(request)
  await once(kept, 'data')
  const unaccepted = connect(port, '127.0.0.1')
  unaccepted.write(request)
  const answers = [once(unaccepted, 'data'), once(kept, 'data')]
  const over = drain(app, 5_000)
  setImmediate(() => {
    kept.write(request)
    // Until after the time at which idle connections are closed.
    const busyUntil = performance.now() + 600
    while (performance.now() < busyUntil);
  })
  for (const [answer] of await Promise.all(answers)) t.match(String(answer), /^HTTP\/1\.1 200 /)
  await over
})

t.test('an idle connection is closed at the end', async (t) => {
  const { app, port } = await startListener()
  const idle = connect(port, '127.0.0.1')
  idle.write(request)
  await once(idle, 'data')
  const closed = once(idle, 'close')
  await drain(app, 5_000)
  await closed
  t.pass('did not wait for the idle connection')
})

t.test('a request that never ends is cut off', async (t) => {
  const { app, port } = await startListener()
  const hanging = connect(port, '127.0.0.1')
  hanging.on('error', () => {})
  const asked = once(app.server, 'request')
  hanging.write('GET /never HTTP/1.1\r\nhost: x\r\n\r\n')
  await asked
  const closed = once(hanging, 'close')
  await drain(app, 100)
  await closed
  t.pass('the drain has ended')
})
