import { once } from 'node:events'
import { createServer, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { type Test, test } from 'tap'
import { readResponseBody, requestOptionsOf, sendRequest } from '../../src/runtime/http-request.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

async function listen(t: Test, listener: RequestListener, path?: string): Promise<string> {
  const server = createServer(listener)
  if (path === undefined) server.listen(0, '127.0.0.1')
  else server.listen(path)
  await once(server, 'listening')
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  return path ?? `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

test('a request carries its body and headers', async (t) => {
  const url = await listen(t, async (request, response) => {
    const body = await readResponseBody(request, 100)
    response.end(`${request.method} ${request.url} ${request.headers.accept} ${body}`)
  })
  const headers = { accept: 'text/plain' }
  const answer = await sendRequest(`${url}/a?b=c`, { method: 'POST', headers, body: 'text' })
  t.equal(await readResponseBody(answer, 100), 'POST /a?b=c text/plain text')
})

test('a Unix socket is an address like any other', async (t) => {
  const path = join(temporaryFolder(t), 'socket')
  await listen(t, (request, response) => response.end(request.url), path)
  let connected = 0
  const onConnect = (): void => {
    connected += 1
  }
  const request = { ...requestOptionsOf({ path }), path: '/x', onConnect }
  const answer = await sendRequest('http://localhost', request)
  t.equal(await readResponseBody(answer, 100), '/x')
  t.equal(connected, 1)
})

test('a redirect is not followed', async (t) => {
  let requests = 0
  const url = await listen(t, (_, response) => {
    requests += 1
    response.writeHead(302, { location: '/elsewhere' }).end()
  })
  const answer = await sendRequest(url, {})
  answer.resume()
  t.equal(answer.statusCode, 302)
  t.equal(requests, 1)
})

test('a body that is too long is not read to its end', async (t) => {
  let closed: Promise<unknown> | undefined
  const url = await listen(t, (_, response) => {
    closed = once(response, 'close')
    response.write('x'.repeat(11))
  })
  t.equal(await readResponseBody(await sendRequest(url, {}), 10), undefined)
  await closed
})

/** A server that answers with these bytes again and again, as fast as they are read. */
async function flood(t: Test, head: string, bytes: string): Promise<string> {
  const many = bytes.repeat(10_000)
  return listen(t, ({ socket }) => {
    socket.on('error', () => {})
    const send = (): void => {
      while (socket.writable && socket.write(many));
    }
    socket.on('drain', send).write(head)
    send()
  })
}

test('a body of single bytes is not read to its end', async (t) => {
  const head = 'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n'
  const response = await sendRequest(await flood(t, head, '1\r\nx\r\n'), {})
  let pieces = 0
  response.on('data', () => {
    pieces += 1
  })
  const closed = once(response, 'close')
  t.equal(await readResponseBody(response, 1_000_000_000), undefined)
  await closed
  // The rest of a packet is parsed nevertheless.
  t.ok(pieces < 30_000, `${pieces} pieces were read`)
})

test('interim responses without end are refused', async (t) => {
  const url = await flood(t, '', 'HTTP/1.1 102 Processing\r\n\r\n')
  await t.rejects(sendRequest(url, { signal: AbortSignal.timeout(60_000) }), {
    message: 'it sends interim responses without end',
  })
  const some = await listen(t, ({ socket }) => {
    const early = 'HTTP/1.1 103 Early Hints\r\n\r\n'.repeat(10)
    socket.end(`${early}HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi`)
  })
  t.equal(await readResponseBody(await sendRequest(some, {}), 100), 'hi')
})

test('a response that breaks off is an error', async (t) => {
  const url = await listen(t, ({ socket }) => {
    socket.end('HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nhi')
  })
  await t.rejects(readResponseBody(await sendRequest(url, {}), 100), { code: 'ECONNRESET' })
})

test('rejects without a response', async (t) => {
  const url = await listen(t, (request) => void request.socket.destroy())
  await t.rejects(sendRequest(url, {}), { code: 'ECONNRESET' })
  await t.rejects(sendRequest(url, { signal: AbortSignal.abort() }), { name: 'AbortError' })
})
