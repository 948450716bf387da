import { writeFileSync } from 'node:fs'
import http from 'node:http'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { test } from 'tap'
import { createClient } from '../../src/kubernetes/client.ts'
import { listObjects } from '../../src/kubernetes/list.ts'
import { listenLocally } from '../support/listening.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

test('a body that is read as YAML has no characters that only JSON allows', async (t) => {
  const received: string[] = []
  const server = http.createServer(async (request, response) => {
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk)
    received.push(Buffer.concat(chunks).toString())
    response.end('{}')
  })
  const client = createClient({ server: `http://127.0.0.1:${await listenLocally(t, server)}` })
  const body = { message: 'a\x7f\x85\u2028\ufeff\uffff"\\\n😀é' }
  for (const contentType of ['application/apply-patch+yaml', 'application/json']) {
    await client.send({ method: 'PATCH', path: '/', body, contentType })
  }
  const [yaml = '', json = ''] = received
  t.match(yaml, '"a\\u007f\\u0085\\u2028\\ufeff\\uffff\\"\\\\\\n😀é"')
  t.strictSame(JSON.parse(yaml), body)
  t.equal(json, JSON.stringify(body))
})

test('a token that is refused is read again with the next request', async (t) => {
  const tokenFile = join(temporaryFolder(t), 'token')
  writeFileSync(tokenFile, 'former')
  const server = http.createServer(({ headers }, response) => {
    response.statusCode = headers.authorization === 'Bearer former' ? 401 : 200
    response.end('{}')
  })
  const url = `http://127.0.0.1:${await listenLocally(t, server)}`
  const client = createClient({ server: url, tokenFile })
  await t.rejects(client.send({ path: '/' }), { status: 401, message: /401/ })
  writeFileSync(tokenFile, 'fresh')
  await t.resolves(client.send({ path: '/' }))
})

test('says how long it waited for a response', async (t) => {
  const server = http.createServer(() => {})
  const url = `http://127.0.0.1:${await listenLocally(t, server)}`
  const client = createClient({ server: url }, { timeoutMs: 50 })
  const late = { message: 'timeout: the API server did not respond within 0.05 s' }
  await t.rejects(client.send({ path: '/' }), late)
  await t.rejects(client.open({ path: '/', idleMs: 1_000 }), late)
})

test('a list that takes too long is read in smaller pages', async (t) => {
  const limits: number[] = []
  const server = http.createServer(async ({ url = '' }, response) => {
    const query = new URL(url, 'http://localhost').searchParams
    const [from, limit] = [Number(query.get('continue') ?? 0), Number(query.get('limit'))]
    const end = Math.min(40, from + limit)
    limits.push(limit)
    response.write('{"items":[')
    for (let i = from; i < end && !response.destroyed; i += 1) {
      await delay(10)
      response.write(`${i > from ? ',' : ''}{"metadata":{"name":"m${i}"}}`)
    }
    const more = end < 40 ? `${end}` : ''
    response.end(`],"metadata":{"resourceVersion":"7","continue":"${more}"}}`)
  })
  const url = `http://127.0.0.1:${await listenLocally(t, server)}`
  const client = createClient({ server: url }, { timeoutMs: 300 })
  const { objects, version } = await listObjects(client, '/all')
  t.equal(objects.size, 40)
  t.equal(version, '7')
  t.match(limits.slice(0, 3), [500, 125, 32])
})
