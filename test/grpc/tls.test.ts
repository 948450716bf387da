import { once } from 'node:events'
import http2 from 'node:http2'
import { connect as dial } from 'node:net'
import { type ConnectionOptions, connect, type Server } from 'node:tls'
import { type Test, test } from 'tap'
import { makeCertificate, noOpenssl } from '../support/certificates.ts'
import { startGrpc } from '../support/grpc-client.ts'
import { callWire, prefixed } from '../support/grpc-wire.ts'
import { poll } from '../support/poll.ts'

const hello = prefixed('hello')
const skip = noOpenssl

/** Starts a server with TLS; `session` connects to it. */
async function startSecure(t: Test, asksCallers = false) {
  const own = makeCertificate(t)
  const servers: Server[] = []
  const { port, server, faults } = await startGrpc(t, {
    unary: { '/test/echo': (message) => message },
    tls: {
      options: {
        key: own.key,
        cert: own.cert,
        ...(asksCallers && { requestCert: true, rejectUnauthorized: true, ca: own.cert }),
      },
      follow: (each) => servers.push(each),
    },
  })
  const session = (options: http2.SecureClientSessionOptions = {}) => {
    const each = http2.connect(`https://localhost:${port}`, { ca: own.cert, ...options })
    each.on('error', () => {})
    t.teardown(() => each.destroy())
    return each
  }
  return { own, port, server, faults, servers, session }
}

/** Connects without HTTP/2; returns how the connection ends. */
async function shake(t: Test, options: ConnectionOptions): Promise<string> {
  const socket = connect({ host: '127.0.0.1', servername: 'localhost', ...options })
  t.teardown(() => socket.destroy())
  let said = ''
  socket.on('data', (data) => {
    said += data
  })
  socket.on('error', (error: NodeJS.ErrnoException) => {
    said += error.code
  })
  await new Promise((resolve) => socket.on('close', resolve))
  return said
}

test('serves calls over TLS', { skip }, async (t) => {
  const { session, servers, server, faults } = await startSecure(t)
  const one = session()
  const long = prefixed(Buffer.alloc(500_000, 'long'))
  for (const message of [hello, long, hello]) {
    t.match(await callWire(one, { frames: [message] }), { status: '0', body: message })
  }
  t.equal(servers.length, 1)
  const told = once(one, 'goaway')
  await server.stop(20_000)
  t.strictSame((await told)[0], 0)
  t.strictSame(faults, [])
})

test('a new certificate applies to new connections', { skip }, async (t) => {
  const { session, servers } = await startSecure(t)
  const before = session()
  t.match(await callWire(before, { frames: [hello] }), { status: '0' })
  const next = makeCertificate(t)
  servers[0]?.setSecureContext({ key: next.key, cert: next.cert })
  const after = session({ ca: next.cert })
  t.match(await callWire(after, { frames: [hello] }), { status: '0' })
  t.match(await callWire(before, { frames: [hello] }), { status: '0' }, 'open connections stay')
})

test('requires a client certificate if configured', { skip }, async (t) => {
  const { session, own } = await startSecure(t, true)
  const known = session({ key: own.key, cert: own.cert })
  t.match(await callWire(known, { frames: [hello] }), { status: '0' })
  const stranger = makeCertificate(t)
  for (const options of [{}, { key: stranger.key, cert: stranger.cert }]) {
    const refused = session(options)
    await poll(() => refused.destroyed, 'a missing or unknown certificate is refused')
  }
})

test('closes connections that do not speak HTTP/2', { skip }, async (t) => {
  const { own, port, session, faults } = await startSecure(t)
  t.equal(await shake(t, { port, ca: own.cert }), '', 'without ALPN')
  t.match(await shake(t, { port, ca: own.cert, ALPNProtocols: ['http/1.1'] }), /ALERT|ECONNRESET/)
  t.match(await callWire(session(), { frames: [hello] }), { status: '0' })
  t.strictSame(faults, [])
})

test('a stop does not wait for TLS handshakes', { skip }, async (t) => {
  const { port, server } = await startSecure(t)
  const silent = dial(port, '127.0.0.1')
  t.teardown(() => silent.destroy())
  silent.on('error', () => {})
  await once(silent, 'connect')
  await server.stop(50)
  if (!silent.destroyed) await once(silent, 'close')
  t.pass('the connection is closed')
})
