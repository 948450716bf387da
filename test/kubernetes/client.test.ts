import http from 'node:http'
import { test } from 'tap'
import { createClient } from '../../src/kubernetes/client.ts'
import { listenLocally } from '../support/listening.ts'

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
