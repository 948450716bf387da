import { once } from 'node:events'
import { Agent, get, type IncomingMessage } from 'node:http'
import { type AddressInfo, connect, type Socket } from 'node:net'
import { setTimeout as delay, setImmediate as turn } from 'node:timers/promises'
import Fastify from 'fastify'
import t from 'tap'
import { drainServer, followGateways } from '../../../src/admin/operation/drain.ts'
import { healthRoute } from '../../../src/admin/operation/probes.ts'

const request = 'GET / HTTP/1.1\r\nhost: x\r\n\r\n'

async function startListener() {
  const app = Fastify({ return503OnClosing: false, forceCloseConnections: 'idle' })
  app.get('/', () => 'here')
  healthRoute(app as never)
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
  const over = drainServer(app, 5_000)
  const answer = await ask()
  t.equal(answer.statusCode, 200)
  t.equal(answer.headers.connection, 'close')
  t.equal(
    answer.headers['x-envoy-immediate-health-check-fail'],
    'true',
    'makes Envoy use another host',
  )
  t.equal((await ask()).statusCode, 200, 'on a new connection, too')
  await over
  await t.rejects(once(connect(port, '127.0.0.1'), 'connect'), { code: 'ECONNREFUSED' })
})

t.test('requests that wait in sockets unread are answered', async (t) => {
  const { app, port } = await startListener()
  const kept = connect(port, '127.0.0.1')
  kept.write(request)
  await once(kept, 'data')
  const over = drainServer(app, 5_000)
  const others: Socket[] = []
  setImmediate(() => {
    others.push(...Array.from({ length: 5 }, () => connect(port, '127.0.0.1')))
    for (const each of [kept, ...others]) each.write(request)
    // Until after the time at which the listener is closed.
    const busyUntil = performance.now() + 600
    while (performance.now() < busyUntil);
  })
  await turn()
  const answers = await Promise.all([kept, ...others].map((each) => once(each, 'data')))
  for (const [answer] of answers) t.match(String(answer), /^HTTP\/1\.1 200 /)
  t.equal(answers.length, 6)
  await over
})

t.test('an idle connection is closed at the end', async (t) => {
  const { app, port } = await startListener()
  const idle = connect(port, '127.0.0.1')
  idle.write(request)
  await once(idle, 'data')
  const closed = once(idle, 'close')
  await drainServer(app, 5_000)
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
  await drainServer(app, 100)
  await closed
  t.pass('the drain has ended')
})

t.test('a gateway that was stopped for a second can still send a request', async (t) => {
  const { app, port } = await startListener()
  const gateways = followGateways(app.server)
  const ofGateway = request.replace('\r\n\r\n', '\r\nx-tollgate-client: 192.0.2.1\r\n\r\n')
  const [kept, idle, other] = [ofGateway, ofGateway, request].map((text) => {
    const socket = connect(port, '127.0.0.1')
    socket.write(text)
    return socket
  }) as [Socket, Socket, Socket]
  await Promise.all([kept, idle, other].map((each) => once(each, 'data')))
  const answers: string[] = []
  kept.on('data', (data) => answers.push(String(data)))
  const closed = [kept, idle, other].map((each) => once(each, 'close'))
  const over = drainServer(app, 5_000, gateways)
  await delay(1_000)
  kept.write(ofGateway)
  await Promise.all([...closed, over])
  t.match(answers.join(''), /^HTTP\/1\.1 200 OK\r\nconnection: close\r\n/)
  t.pass('one that stays away is not waited for')
})

t.test('the drain ends once gateways have closed their connections', async (t) => {
  const { app, port } = await startListener()
  const gateways = followGateways(app.server)
  const kept = connect(port, '127.0.0.1')
  kept.write(request.replace('\r\n\r\n', '\r\nx-tollgate-client: 192.0.2.1\r\n\r\n'))
  await once(kept, 'data')
  const begunAt = performance.now()
  const over = drainServer(app, 5_000, gateways)
  setTimeout(() => kept.end(), 700)
  await over
  t.ok(performance.now() - begunAt < 2_500, 'at once')
})

t.test(
  'a health check fails during the drain, and a client of the gateway does not see it',
  async (t) => {
    const { app, port } = await startListener()
    const ask = async (headers: Record<string, string>) => {
      const answer = await fetch(`http://127.0.0.1:${port}/health`, { headers })
      return [answer.status, await answer.json()]
    }
    t.strictSame(await ask({}), [200, { status: 'healthy' }])
    const over = drainServer(app, 5_000)
    t.strictSame(await ask({}), [503, { status: 'stopping' }])
    t.strictSame(await ask({ 'x-tollgate-client': '192.0.2.1' }), [200, { status: 'healthy' }])
    await over
  },
)
