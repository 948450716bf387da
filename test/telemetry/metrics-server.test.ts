import { once } from 'node:events'
import { get } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import { type Test, test } from 'tap'
import { createMetricsServer } from '../../src/telemetry/metrics-server.ts'

async function start(t: Test, scrape: () => Promise<string>) {
  const faults: unknown[] = []
  const server = createMetricsServer({ scrape }, (error) => faults.push(error))
  await once(server.listen(0, '127.0.0.1'), 'listening')
  t.teardown(() => {
    server.close()
    server.closeAllConnections()
  })
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  return {
    url,
    faults,
    ask: (path: string, method = 'GET') => fetch(url + path, { method }),
  }
}

test('GET /metrics returns the scrape', async (t) => {
  const { ask } = await start(t, async () => 'a 1\n')
  for (const path of ['/metrics', '/metrics?x=y']) {
    const answer = await ask(path)
    t.equal(answer.status, 200)
    t.equal(answer.headers.get('content-type'), 'text/plain; version=0.0.4; charset=utf-8')
    t.equal(await answer.text(), 'a 1\n')
  }
  t.equal((await ask('/metrics', 'HEAD')).status, 200)
})

test('other paths and methods are refused', async (t) => {
  const { ask } = await start(t, async () => 'a 1\n')
  for (const path of ['/', '/metrics/', '/metrics/x', '/readyz', '//metrics']) {
    const answer = await ask(path)
    t.equal(answer.status, 404, path)
    t.equal(answer.headers.get('content-type'), 'application/json')
    t.equal(answer.headers.get('x-should-retry'), 'false')
    t.match(await answer.json(), { error: { code: 'not_found' } })
  }
  const posted = await ask('/metrics', 'POST')
  t.equal(posted.status, 405)
  t.match(await posted.json(), { error: { code: 'method_not_allowed' } })
  t.equal(posted.headers.get('allow'), 'GET, HEAD')
})

test('a failed scrape is answered with 500 and reported', async (t) => {
  const { ask, faults } = await start(t, () => Promise.reject(new Error('secret')))
  const answer = await ask('/metrics')
  t.equal(answer.status, 500)
  const body = await answer.text()
  t.equal(JSON.parse(body).error.code, 'internal')
  t.notMatch(body, /secret/)
  t.match(faults, [/secret/])
})

test('thirty-two concurrent scrapes are all answered', async (t) => {
  const { ask, faults } = await start(t, async () => 'a 1\n')
  const answers = await Promise.all(Array.from({ length: 32 }, () => ask('/metrics')))
  for (const answer of answers) t.equal(await answer.text(), 'a 1\n')
  t.strictSame(faults, [])
})

test('a page in a browser reads nothing', async (t) => {
  const { url } = await start(t, async () => 'a 1\n')
  const ask = (headers: Record<string, string>) =>
    new Promise<{ status: number | undefined; body: string }>((settle, fail) => {
      get(`${url}/metrics`, { headers }, async (answer) => {
        settle({ status: answer.statusCode, body: await text(answer) })
      }).on('error', fail)
    })
  for (const headers of [{ host: 'rebound.example' }, { 'sec-fetch-site': 'same-origin' }]) {
    const { status, body } = await ask(headers)
    t.strictSame(
      [status, JSON.parse(body).error.code],
      [403, 'local_only'],
      JSON.stringify(headers),
    )
  }
  t.equal((await ask({ 'sec-fetch-site': 'none' })).status, 200)
  t.equal((await ask({ host: 'localhost' })).status, 200)
})
