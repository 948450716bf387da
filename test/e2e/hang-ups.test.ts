import { once } from 'node:events'
import http2 from 'node:http2'
import { readStat } from '../support/envoy.ts'
import { chatPath, type Gateway, gatewayTests } from '../support/gateway.ts'
import { poll } from '../support/poll.ts'

/**
 * Checks have more time than Envoy gives them, and PINGs of their connection, too: on a busy machine those of all these
 * requests take seconds, and a PING is overdue that was under way when Envoy was stopped.
 */
const test = gatewayTests({
  adjustEnvoy: (bootstrap) => bootstrap.replaceAll(/("timeout":\s*)"2(\.5)?s"/g, '$1"20s"'),
})

/** Reads one of Envoy's statistics for the service's cluster. */
const counted = ({ envoy }: Gateway, name: string): Promise<number> =>
  readStat(envoy, `cluster.tollgate.${name}`)

/**
 * Sends so many requests on each of these many connections and cancels them all while Envoy is stopped: it then finds all
 * of that in its sockets at once, as after a moment without a processor.
 */
async function hangUp(
  { url, envoy }: Gateway,
  between: Between,
  connections: number,
  each: number,
): Promise<void> {
  const total = () => readStat(envoy, 'http.gateway.downstream_rq_rx_reset')
  const before = await total()
  const sessions = Array.from({ length: connections }, () => http2.connect(url))
  await Promise.all(sessions.map((session) => once(session, 'remoteSettings')))
  const written = () =>
    poll(() => sessions.every(({ state }) => state.outboundQueueSize === 0), 'all is written')
  // Of one whose Check is under way the time would run out meanwhile.
  await between(() => process.kill(envoy.pid, 'SIGSTOP'))
  try {
    const streams = sessions.flatMap((session) =>
      Array.from({ length: each }, () => {
        const stream = session.request({
          ':method': 'POST',
          ':path': chatPath,
          'content-type': 'application/json',
          authorization: 'Bearer tg_nobody',
        })
        stream.on('error', () => {})
        return stream.end('{"model":"sim"}')
      }),
    )
    await written()
    const closed = streams.map((stream) => once(stream, 'close'))
    for (const stream of streams) stream.close(http2.constants.NGHTTP2_CANCEL)
    await Promise.all(closed)
    await written()
  } finally {
    process.kill(envoy.pid, 'SIGCONT')
  }
  const sent = connections * each
  await poll(async () => (await total()) - before >= sent, 'Envoy has read them', 30_000)
  for (const session of sessions) session.destroy()
}

/** Acts while none of the requests is under way. */
type Between = (act: () => void) => Promise<void>

/** The statuses of requests that are sent one after the other meanwhile, of errors with their response. */
async function statusesDuring(
  gateway: Gateway,
  work: (between: Between) => Promise<void>,
): Promise<(number | object)[]> {
  const { key } = await gateway.mint()
  const chat = async () => {
    const { status, text } = await gateway.chat(key)
    return status === 200 ? status : { status, text }
  }
  const statuses = new Set([await chat()])
  let isOver = false
  let due: (() => void) | undefined
  const between: Between = (act) =>
    new Promise((settle) => {
      due = () => settle(act())
    })
  const over = work(between).finally(() => {
    isOver = true
  })
  while (!isOver) {
    due?.()
    due = undefined
    statuses.add(await chat())
  }
  await over
  return [...statuses]
}

test('cancelled requests do not affect others', async (t, gateway) => {
  const statuses = await statusesDuring(gateway, (between) => hangUp(gateway, between, 320, 16))
  t.ok((await counted(gateway, 'upstream_rq_tx_reset')) >= 5_000, 'enough Checks were reset')
  t.equal(await counted(gateway, 'upstream_cx_destroy_remote'), 0, 'their connection stays open')
  t.equal(await counted(gateway, 'http2.outbound_control_flood'), 0, 'on Envoy’s side, too')
  t.strictSame(statuses, [200])
})

test('connections take turns, whatever each has sent at once', async (t, gateway) => {
  const before = await counted(gateway, 'upstream_rq_total')
  const statuses = await statusesDuring(gateway, (between) => hangUp(gateway, between, 50, 100))
  const checks = (await counted(gateway, 'upstream_rq_total')) - before
  t.ok(checks < 2_000, `${checks} Checks for 5,000 requests that were cancelled before their turn`)
  t.strictSame(statuses, [200])
})

/** How a request ends: its status, or that it was reset. */
async function outcome(stream: http2.ClientHttp2Stream): Promise<unknown> {
  const closed = once(stream, 'close').then(() => 'reset')
  const headers = once(stream, 'response').then(([head]) => head[':status'])
  return Promise.race([headers, closed]).catch(() => 'reset')
}

test('a malformed HTTP/2 request does not end others of its connection', async (t, gateway) => {
  const { key } = await gateway.mint()
  const session = http2.connect(gateway.url)
  t.teardown(() => session.destroy())
  const head = { ':method': 'POST', authorization: `Bearer ${key}` }
  const request = session.request({ ...head, ':path': chatPath })
  const response = outcome(request)
  const malformed = session.request({ ...head, ':path': `http://other${chatPath}` })
  t.equal(await outcome(malformed.end('{}')), 'reset')
  request.end('{"model":"sim","messages":[]}')
  t.equal(await response, 200)
})
