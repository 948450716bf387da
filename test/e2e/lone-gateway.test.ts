import { once } from 'node:events'
import { connect as connectHttp2 } from 'node:http2'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { createDatabase } from '../support/database.ts'
import { envoyPath } from '../support/envoy-binary.ts'
import { chatPath } from '../support/gateway.ts'
import { inPod } from '../support/in-pod.ts'
import { poll } from '../support/poll.ts'
import { type RevokingReplicas, startRevoking } from '../support/revoking.ts'
import { startLoad, tally } from '../support/steady-load.ts'

const skip = envoyPath() === undefined && 'no Envoy'
/** As in k8s/base/gateway.yaml. */
const probe = { everyMs: 2_000, failures: 2 }

const portOf = ({ url }: RevokingReplicas) => Number(new URL(url).port)

/**
 * Like a Service with two pods: new connections go to those that are ready, in turn, and existing
 * ones stay.
 */
async function startBalancer(t: Test, pods: readonly RevokingReplicas[]) {
  const failures = pods.map(() => 0)
  const sockets = new Set<Socket>()
  const isReady = (i: number) => (failures[i] ?? 0) < probe.failures
  let turn = 0
  const door = createServer((client) => {
    const ready = pods.filter((_, i) => isReady(i))
    turn += 1
    const pod = (ready.length > 0 ? ready : pods)[turn % (ready.length || pods.length)]
    const server = connect(portOf(pod as RevokingReplicas), '127.0.0.1')
    for (const [from, to] of [
      [client, server],
      [server, client],
    ] as const) {
      sockets.add(from)
      from.pipe(to)
      from.on('error', () => to.destroy())
      from.on('close', () => sockets.delete(from))
    }
  })
  door.listen(0, '127.0.0.1')
  await once(door, 'listening')
  const timer = setInterval(() => {
    for (const [i, pod] of pods.entries()) {
      void fetch(`${pod.url}/health`)
        .then(({ status }) => status === 200)
        .catch(() => false)
        .then((isUp) => {
          failures[i] = isUp ? 0 : (failures[i] ?? 0) + 1
        })
    }
  }, probe.everyMs)
  t.teardown(() => {
    clearInterval(timer)
    for (const socket of sockets) socket.destroy()
    door.close()
  })
  return { port: (door.address() as AddressInfo).port, isReady }
}

type Pods = readonly [RevokingReplicas, RevokingReplicas]
let starting: Promise<Pods> | undefined

/** Two pods with one database, for all tests. */
function startPods(): Promise<Pods> {
  starting ??= (async () => {
    const database = await createDatabase(t)
    return [
      await startRevoking(t, { count: 1, database, env: inPod('one') }),
      await startRevoking(t, { count: 1, database, env: inPod('two') }),
    ]
  })()
  return starting
}

t.test('a gateway whose service was killed loses its clients', { skip }, async (t) => {
  const pods = await startPods()
  const [first] = pods
  const service = first.all[0]
  const balancer = await startBalancer(t, pods)
  const { key } = await first.mint()
  for (const pod of pods) await pod.use(key)

  const request = { ...first.chat(key), url: `http://127.0.0.1:${balancer.port}${chatPath}` }
  const load = startLoad(50, () => request, 32)
  await poll(() => load.shots.length > 100, 'connections are kept')
  const killedAt = performance.now()
  await service?.end('SIGKILL')
  await poll(() => !balancer.isReady(0), 'the gateway is not ready', 20_000)
  // Kept connections that are idle notice with their next request.
  await delay(1_000)
  const goneAt = performance.now()
  await delay(5_000)
  await service?.start()
  const shots = await load.stop()

  const failed = shots.filter(({ status }) => status !== 200)
  const later = failed.filter(({ sentAt }) => sentAt > goneAt)
  t.strictSame(tally(later), {}, 'no request fails once the gateway is not ready')
  t.ok(failed.every(({ sentAt }) => sentAt > killedAt - 1_000))
  t.comment(`${failed.length} of ${shots.length} failed: ${JSON.stringify(tally(failed))}`)
})

t.test('its connections end with the refusal', { skip }, async (t) => {
  const [, gateway] = await startPods()
  const { key } = await gateway.mint()
  await gateway.use(key)
  await gateway.all[0]?.end('SIGKILL')

  const session = connectHttp2(gateway.url)
  t.teardown(() => session.destroy())
  let isAway = false
  session.once('goaway', () => {
    isAway = true
  })
  const stream = session.request({
    ':method': 'POST',
    ':path': chatPath,
    authorization: `Bearer ${key}`,
  })
  stream.end('{"model":"sim","messages":[]}')
  const [headers] = await once(stream, 'response')
  t.equal(headers[':status'], 503)
  t.equal(headers['retry-after'], '1')
  await poll(() => isAway, 'the client is sent away')

  for (const path of [chatPath, '/v1/chat/completions', '/v1/messages']) {
    const answer = await fetch(gateway.url + path, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}` },
      body: '{"model":"sim","messages":[]}',
    })
    t.equal(answer.status, 503, path)
    t.equal(answer.headers.get('connection'), 'close', path)
  }
})
