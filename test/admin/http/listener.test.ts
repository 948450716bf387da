import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { type Test, test } from 'tap'
import { createKeyApi, type KeyApi } from '../../support/key-api.ts'

/** A raw connection to the external listener, and everything received over it. */
interface Connection {
  readonly socket: Socket
  received(): string
  /** Waits until this text has been received. */
  until(text: string): Promise<void>
  /** Resolves to everything received once the other side has closed. */
  readonly closed: Promise<string>
}

async function open(t: Test, api: KeyApi): Promise<Connection> {
  if (!api.external.server.listening) await api.external.listen({ host: '127.0.0.1', port: 0 })
  const address = api.external.server.address()
  const port = typeof address === 'object' && address !== null ? address.port : 0
  const socket = connect(port, '127.0.0.1')
  let received = ''
  socket.setEncoding('utf8').on('data', (text: string) => {
    received += text
  })
  // A reset closes the connection too.
  socket.on('error', () => {})
  const closed = new Promise<string>((settle) => socket.on('close', () => settle(received)))
  t.teardown(() => socket.destroy())
  await once(socket, 'connect')
  return {
    socket,
    received: () => received,
    async until(text) {
      const deadline = Date.now() + 10_000
      while (!received.includes(text)) {
        if (Date.now() > deadline || socket.closed) throw new Error(`no ${text} in: ${received}`)
        await sleep(5)
      }
    },
    closed,
  }
}

const alice = 'host: x\r\nauthorization: Bearer alice-token\r\n'
const short = { header: 200, request: 600, write: 30_000, idle: 300, check: 50 }

function envelopeOf(received: string): unknown {
  return JSON.parse(received.slice(received.indexOf('\r\n\r\n') + 4)).error
}

test('the time-outs are those of the contract', async (t) => {
  const { external, internal } = await createKeyApi(t)
  for (const { server } of [external, internal]) {
    t.equal(server.headersTimeout, 5_000)
    t.equal(server.requestTimeout, 15_000)
    t.equal(server.timeout, 30_000)
    t.equal(server.keepAliveTimeout, 60_000)
  }
})

test('slow headers end in 408', async (t) => {
  const api = await createKeyApi(t, { times: short })
  const { socket, closed } = await open(t, api)
  socket.write('GET /health HTTP/1.1\r\n')
  const drip = setInterval(() => socket.write('x: y\r\n'), 50)
  t.teardown(() => clearInterval(drip))
  const received = await closed
  t.match(received, /^HTTP\/1\.1 408 /)
  t.match(envelopeOf(received), { type: 'invalid_request_error', code: 'request_timeout' })
})

test('a slow body ends in 408', async (t) => {
  const api = await createKeyApi(t, { times: short })
  const { socket, closed } = await open(t, api)
  socket.write(`POST /v1/api-keys HTTP/1.1\r\n${alice}content-length: 1000\r\n\r\n{`)
  const drip = setInterval(() => socket.write(' '), 50)
  t.teardown(() => clearInterval(drip))
  t.match(await closed, /^HTTP\/1\.1 408 /)
})

test('what is not HTTP ends in 400', async (t) => {
  const api = await createKeyApi(t)
  const { socket, closed } = await open(t, api)
  socket.write('no request\r\n\r\n')
  const received = await closed
  t.match(received, /^HTTP\/1\.1 400 Bad Request\r\n/)
  t.match(envelopeOf(received), { type: 'invalid_request_error', code: 'bad_request' })
})

test('an idle connection is closed', async (t) => {
  const api = await createKeyApi(t, { times: short })
  const { socket, until, closed } = await open(t, api)
  socket.write('GET /health HTTP/1.1\r\nhost: x\r\n\r\n')
  await until('healthy')
  t.match(await closed, /^HTTP\/1\.1 200 /)
})

test('headers above a mebibyte end in 431', async (t) => {
  const api = await createKeyApi(t)
  const fits = await open(t, api)
  fits.socket.write(`GET /health HTTP/1.1\r\nhost: x\r\nx: ${'y'.repeat(900_000)}\r\n\r\n`)
  await fits.until('healthy')
  const { socket, closed } = await open(t, api)
  socket.write(`GET /health HTTP/1.1\r\nhost: x\r\nx: ${'y'.repeat(1_100_000)}\r\n\r\n`)
  const received = await closed
  t.match(received, /^HTTP\/1\.1 431 /)
  t.match(envelopeOf(received), { type: 'invalid_request_error', code: 'headers_too_large' })
})

test('a request without a host is refused with the envelope', async (t) => {
  const api = await createKeyApi(t)
  const { socket, closed } = await open(t, api)
  socket.write('GET /health HTTP/1.1\r\nconnection: close\r\n\r\n')
  const received = await closed
  t.match(received, /^HTTP\/1\.1 400 /)
  t.match(envelopeOf(received), { type: 'invalid_request_error' })
  const old = await open(t, api)
  old.socket.write('GET /health HTTP/1.0\r\n\r\n')
  t.match(await old.closed, /^HTTP\/1\.1 200 /)
})

test('of two authorization headers none may differ from the other', async (t) => {
  const api = await createKeyApi(t)
  for (const [first, second, status] of [
    ['Bearer alice-token', 'Bearer alice-token', 200],
    ['', 'Bearer alice-token', 200],
    ['Bearer alice-token', '', 200],
    ['Bearer', 'Bearer alice-token', 200],
    ['Bearer alice-token', 'Bearer bob-token', 401],
    ['Bearer alice-token', 'Basic YTpi', 401],
  ] as const) {
    const { socket, closed } = await open(t, api)
    const both = `authorization: ${first}\r\nauthorization: ${second}\r\n`
    socket.write(`GET /v1/me HTTP/1.1\r\nhost: x\r\n${both}connection: close\r\n\r\n`)
    t.match(await closed, new RegExp(`^HTTP/1\\.1 ${status} `), `"${first}" and "${second}"`)
  }
})

test('during a flood of headers others are served', async (t) => {
  const api = await createKeyApi(t)
  const { socket, closed } = await open(t, api)
  socket.write('GET /health HTTP/1.1\r\nhost: x\r\n')
  for (let i = 0; i < 100_000 && !socket.closed; i += 1) socket.write(`x-${i}: aaaaaaaa\r\n`)
  t.match(await closed, /^(HTTP\/1\.1 431 |$)/)
  t.equal((await api.ask('GET /health')).statusCode, 200)
})

test('a request that is not HTTP ends in 400', async (t) => {
  const api = await createKeyApi(t)
  const floods = [
    'hello\r\n\r\n',
    '\x16\x03\x01\x02\x00\x01',
    'GET / HTTP/1.1\r\nhost: x\r\na b: c\r\n\r\n',
    'POST /v1/api-keys HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n',
    'POST /v1/api-keys HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n',
    'GET / HTTP/1.1\r\n\r\n',
  ]
  for (const bytes of floods) {
    const { socket, closed } = await open(t, api)
    socket.write(bytes)
    socket.setTimeout(5_000, () => socket.destroy())
    const received = await closed
    t.match(received, /^HTTP\/1\.1 400 /, JSON.stringify(bytes))
  }
})

test('the limit applies to a chunked body too (413)', async (t) => {
  const api = await createKeyApi(t)
  const { socket, until } = await open(t, api)
  socket.write(`POST /v1/api-keys HTTP/1.1\r\n${alice}transfer-encoding: chunked\r\n\r\n`)
  const chunk = `10000\r\n${' '.repeat(0x10000)}\r\n`
  for (let i = 0; i < 17; i += 1) socket.write(chunk)
  await until('body_too_large')
})

test('a Content-Length above the limit is refused without reading the body (413)', async (t) => {
  const api = await createKeyApi(t)
  const { socket, until } = await open(t, api)
  socket.write(`POST /v1/api-keys HTTP/1.1\r\n${alice}content-length: 1048577\r\n\r\n`)
  await until('body_too_large')
})

test('a chunked body is read like any other', async (t) => {
  const api = await createKeyApi(t)
  const { socket, until } = await open(t, api)
  socket.write(`POST /v1/api-keys HTTP/1.1\r\n${alice}transfer-encoding: chunked\r\n\r\n`)
  socket.write('5\r\n{"nam\r\n8\r\ne":"ü"}\r\n0\r\n\r\n')
  await until('"name":"ü"')
})

test('a client that expects 100 Continue gets it', async (t) => {
  const api = await createKeyApi(t)
  const { socket, until } = await open(t, api)
  const head = `POST /v1/api-keys/search HTTP/1.1\r\n${alice}expect: 100-continue\r\n`
  socket.write(`${head}content-length: 2\r\n\r\n`)
  await until('HTTP/1.1 100 Continue')
  socket.write('{}')
  await until('"object":"list"')
})

test('an unknown expectation is refused with the envelope (417)', async (t) => {
  const api = await createKeyApi(t)
  const { socket, closed } = await open(t, api)
  const search = `POST /v1/api-keys/search HTTP/1.1\r\n${alice}expect: weird\r\n`
  socket.write(`${search}connection: close\r\ncontent-length: 2\r\n\r\n{}`)
  const received = await closed
  t.match(received, /^HTTP\/1\.1 417 /)
  t.match(envelopeOf(received), { type: 'invalid_request_error' })
})

test('after a refusal the connection stays usable', async (t) => {
  const api = await createKeyApi(t)
  const { socket, until, received } = await open(t, api)
  const post = 'POST /v1/api-keys HTTP/1.1\r\nhost: x\r\ncontent-length: 12\r\n\r\n{"name":"k"}'
  socket.write(post)
  await until('credential_invalid')
  socket.write('GET /health HTTP/1.1\r\nhost: x\r\n\r\n')
  await until('healthy')
  t.equal(received().match(/HTTP\/1\.1/g)?.length, 2)
})

test('a client that disconnects early affects no other', async (t) => {
  const api = await createKeyApi(t)
  for (let i = 0; i < 5; i += 1) {
    const { socket } = await open(t, api)
    socket.write(`POST /v1/api-keys HTTP/1.1\r\n${alice}content-length: 1000\r\n\r\n{"name"`)
    await sleep(10)
    socket.resetAndDestroy()
  }
  t.equal((await api.ask('POST /v1/api-keys/search', { as: 'alice' })).json().data.length, 0)
  t.notMatch(api.logged(), /"level":50/)
})
