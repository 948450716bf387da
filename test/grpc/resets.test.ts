import { once } from 'node:events'
import { connect } from 'node:net'
import { type Test, test } from 'tap'
import { startGrpc } from '../support/grpc-client.ts'
import { callWire, connectWire, prefixed } from '../support/grpc-wire.ts'
import { poll } from '../support/poll.ts'

const hello = prefixed('hello')
const cancel = 8
const kind = { headers: 1, reset: 3, settings: 4, ping: 6, goaway: 7 } as const
const preface = Buffer.concat([
  Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'),
  frameOf(kind.settings, 0, 0),
])

/** `:method: POST`, `:scheme: http`; then authority, path and content type as literals. */
const request = Buffer.concat([
  Buffer.from([0x83, 0x86, 0x01, 1, 0x61, 0x04, 10]),
  Buffer.from('/test/echo'),
  Buffer.from([0x0f, 0x10, 16]),
  Buffer.from('application/grpc'),
])

function frameOf(type: number, flags: number, stream: number, payload = Buffer.alloc(0)): Buffer {
  const head = Buffer.alloc(9)
  head.writeUIntBE(payload.length, 0, 3)
  head[3] = type
  head[4] = flags
  head.writeUInt32BE(stream, 5)
  return Buffer.concat([head, payload])
}

/** Sends calls that are reset by the next frame, as fast as the server accepts them. */
async function flood(t: Test, port: number, calls: number) {
  const socket = connect(port, '127.0.0.1')
  t.teardown(() => socket.destroy())
  socket.on('error', () => {})
  let received = Buffer.alloc(0)
  socket.on('data', (data) => {
    received = Buffer.concat([received, data])
  })
  const closed = new Promise((resolve) => socket.on('close', resolve))
  const write = (bytes: Buffer): Promise<unknown> =>
    Promise.race([new Promise((sent) => socket.write(bytes, sent)), closed])
  await once(socket, 'connect')
  socket.write(preface)
  for (let done = 0; done < calls && !socket.destroyed; done += 1_000) {
    const frames: Buffer[] = []
    for (let i = done; i < done + 1_000; i += 1) {
      const stream = 2 * i + 1
      frames.push(frameOf(kind.headers, 4, stream, request))
      frames.push(frameOf(kind.reset, 0, stream, Buffer.from([0, 0, 0, cancel])))
    }
    await write(Buffer.concat(frames))
  }
  if (!socket.destroyed) await write(frameOf(kind.ping, 0, 0, Buffer.alloc(8)))
  const has = (type: number) => typesOf(received).includes(type)
  await poll(() => socket.destroyed || has(kind.ping) || has(kind.goaway), 'the flood is over')
  return { ended: has(kind.goaway) || !has(kind.ping) }
}

function typesOf(received: Buffer): number[] {
  const types: number[] = []
  for (let at = 0; at + 9 <= received.length; at += 9 + received.readUIntBE(at, 3)) {
    types.push(received[at + 3] as number)
  }
  return types
}

test('clients that reset streams do not affect other calls', async (t) => {
  const { port, faults } = await startGrpc(t, {
    unary: {
      '/test/echo': (message) => message,
      '/test/slow': (message) => new Promise((resolve) => setTimeout(resolve, 200, message)),
    },
  })
  const session = connectWire(t, port)
  const echoed: Promise<unknown>[] = []
  for (let i = 0; i < 5_000; i += 1) {
    const stream = session.request({
      ':method': 'POST',
      ':path': i % 2 ? '/test/slow' : '/test/echo',
      'content-type': 'application/grpc',
    })
    stream.on('error', () => {})
    // Before the message, before the response, or during either.
    if (i % 3) stream.end(hello)
    if (i % 5) stream.close(cancel)
    else setTimeout(() => stream.close(cancel), i % 20)
    if (i % 10) continue
    echoed.push(callWire(session, { frames: [hello] }))
    await new Promise(setImmediate)
  }
  for (const answer of await Promise.all(echoed)) {
    t.match(answer, { status: '0', body: hello })
  }
  t.equal(session.destroyed, false)
  t.strictSame(faults, [])
})

test('tolerates as many resets as Envoy sends', async (t) => {
  const { port } = await startGrpc(t, { unary: { '/test/echo': (message) => message } })
  t.match(await flood(t, port, 30_000), { ended: false })
})

test('a flood of resets closes only its connection', async (t) => {
  let begun = 0
  const { port } = await startGrpc(t, {
    unary: {
      '/test/echo': (message) => {
        begun += 1
        return message
      },
    },
  })
  const session = connectWire(t, port)
  let over = false
  const flooded = flood(t, port, 400_000).finally(() => {
    over = true
  })
  let answered = 0
  while (!over) {
    t.match(await callWire(session, { frames: [hello] }), { status: '0' })
    answered += 1
  }
  t.match(await flooded, { ended: true })
  t.ok(answered > 0)
  t.equal(begun, answered, 'the calls of the flood are not processed')
})

test('refused calls do not close the connection', async (t) => {
  const { port } = await startGrpc(t, { unary: { '/test/echo': (message) => message } })
  const session = connectWire(t, port)
  const slowly = { path: '/test/none', frames: [hello, hello], open: true }
  for (let round = 0; round < 30; round += 1) {
    const answers = await Promise.all(Array.from({ length: 100 }, () => callWire(session, slowly)))
    for (const answer of answers) t.match(answer, { status: '12' })
  }
  t.match(await callWire(session, { frames: [hello] }), { status: '0', body: hello })
})
