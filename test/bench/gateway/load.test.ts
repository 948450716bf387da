import { createServer, type RequestListener } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { type Test, test } from 'tap'
import { cases } from '../../../bench/gateway/cases.ts'
import { startLoad } from '../../../bench/gateway/load/start-load.ts'
import { listenLocally } from '../../support/listening.ts'

const [one] = cases
const asking = { host: 'x', modelPath: '/llm/m', model: 'm', keys: ['sk-1'] }

async function loadOf(t: Test, answer: RequestListener) {
  const port = await listenLocally(t, createServer(answer))
  const load = startLoad()
  t.teardown(load.stop)
  const plan = { url: `http://127.0.0.1:${port}`, case: one as never, asking, connections: 2 }
  return { load, plan }
}

test('each connection sends its next request after a response', async (t) => {
  const { load, plan } = await loadOf(t, async (_, response) => {
    await sleep(20)
    response.end('{}')
  })
  const result = await load.run({ ...plan, ms: 400 })
  t.ok(result.answered > 4 && result.answered <= 42, `${result.answered}`)
  t.strictSame([result.refused, result.failed], [{}, {}])
  t.ok((result.latencyMs[0] ?? 0) >= 19)
  t.equal(result.waitedMs.at(-1), 0, 'no request waits')
  t.ok(result.cpuMicros > 0)
})

test('latency includes the time before a request is sent', async (t) => {
  // Two connections and 50 ms per response: at most 40 a second, while 100 are due.
  const { load, plan } = await loadOf(t, async (_, response) => {
    await sleep(50)
    response.end('{}')
  })
  const result = await load.run({ ...plan, ms: 500, perSecond: 100 })
  t.equal(result.answered, 50, 'all due requests are sent')
  t.ok(result.tookMs > 1_000)
  const [medianWait = 0] = result.waitedMs
  t.ok(medianWait > 100, `${medianWait}`)
  t.ok((result.latencyMs[0] ?? 0) >= medianWait + 30)
})

test('distinguishes refusals from failures', async (t) => {
  let count = 0
  const { load, plan } = await loadOf(t, (_, response) => {
    count += 1
    if (count % 3 === 0) response.destroy()
    else response.writeHead(count % 3 === 1 ? 429 : 200).end('{}')
  })
  const { answered, refused, failed } = await load.run({ ...plan, ms: 300 })
  t.ok(answered > 0)
  t.strictSame(Object.keys(refused), ['429'])
  t.strictSame(Object.keys(failed), ['the connection was closed'])
})

test('names the URL of a server that cannot be reached', async (t) => {
  const { load, plan } = await loadOf(t, () => {})
  const gone = { ...plan, url: 'http://127.0.0.1:9', ms: 100 }
  await t.rejects(load.run(gone), /http:\/\/127.0.0.1:9 cannot be reached: .*ECONNREFUSED/)
})
