/**
 * For any bytes, the server responds or closes the connection, and other connections are served as
 * before. The files of `corpus` contain the bytes that clients sent, in hex: recorded from real
 * clients, and inputs that found a bug.
 */
import { createHash } from 'node:crypto'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Test, test } from 'tap'
import { frameHeaderBytes, frameType, preface } from '../../../src/grpc/http2/frames.ts'
import { packageRoot } from '../../../src/runtime/package-root.ts'
import { startGrpc } from '../../support/grpc-client.ts'
import { callWire, connectWire, prefixed } from '../../support/grpc-wire.ts'
import { connectRaw, type Frame, frame, framesOf } from '../../support/http2-frames.ts'
import { createRandom, type Random } from '../../support/random.ts'

const folder = join(packageRoot, 'test', 'grpc', 'http2', 'corpus')
const rounds = Number(process.env.FUZZ_CONNECTIONS ?? 200)

function readCorpus(): readonly Buffer[] {
  return readdirSync(folder)
    .filter((file) => file.endsWith('.hex'))
    .sort()
    .map((file) =>
      Buffer.from(readFileSync(join(folder, file), 'latin1').replaceAll(/\s/g, ''), 'hex'),
    )
}

/** Changes, removes or repeats some frames or bytes. */
function mutate(said: Buffer, random: Random): Buffer {
  const frames = framesOf(said.subarray(preface.length))
  for (let n = random.below(5); n >= 0; n -= 1) {
    const at = random.below(frames.length)
    const one = frames[at] as Frame
    const change = random.below(6)
    if (change === 0) frames.splice(at, 1, one, one)
    else if (change === 1 && frames.length > 1) frames.splice(at, 1)
    else if (change === 2) frames[at] = { ...one, flags: random.below(256) }
    else if (change === 3) frames[at] = { ...one, stream: random.below(12) }
    else if (change === 4) frames[at] = { ...one, type: random.below(11) }
    else {
      const payload = Buffer.from(one.payload)
      if (payload.length > 0) payload[random.below(payload.length)] = random.below(256)
      frames[at] = { ...one, payload: payload.subarray(random.below(8) === 0 ? 1 : 0) }
    }
  }
  const bytes = frames.map(({ type, stream, flags, payload }) =>
    frame(type, stream, flags, payload),
  )
  const whole = Buffer.concat([preface, ...bytes])
  // Sometimes any byte, such as a frame's length.
  if (random.below(3) === 0) whole[random.below(whole.length)] = random.below(256)
  return whole
}

/**
 * Sends the bytes and waits until the server closes the connection or answers a PING; throws if it
 * does neither.
 */
async function say(t: Test, port: number, bytes: Buffer): Promise<void> {
  const connection = await connectRaw(t, port)
  await connection.send(bytes)
  // Within a frame the PING would be a part of it, so nothing is awaited.
  const { length } = bytes
  let at = preface.length
  while (at + frameHeaderBytes <= length) at += frameHeaderBytes + bytes.readUIntBE(at, 3)
  if (at === length) await connection.settle()
  for (const { type, payload } of connection.frames()) {
    const most = type === frameType.settings ? 60 : 2 ** 14
    if (payload.length > most) throw new Error(`a frame of ${payload.length} bytes`)
  }
  connection.socket.destroy()
}

test('no input affects other connections', async (t) => {
  const { port, faults } = await startGrpc(t, {
    unary: {
      '/test/echo': (message) => message,
      '/envoy.service.auth.v3.Authorization/Check': (message) => message,
    },
  })
  const random = createRandom()
  t.comment(`SEED=${random.seed}`)
  const corpus = readCorpus()
  t.ok(corpus.length > 0)
  const bystander = connectWire(t, port)
  for (const said of corpus) await say(t, port, said)
  for (let i = 0; i < rounds; i += 1) {
    const bytes = mutate(corpus[random.below(corpus.length)] as Buffer, random)
    try {
      await say(t, port, bytes)
      if (faults.length > 0) throw faults[0]
      if (i % 20 > 0) continue
      const { status } = await callWire(bystander, { frames: [prefixed('hello')] })
      if (status !== '0') throw new Error(`the bystander's call has status ${status}`)
    } catch (error) {
      const mark = createHash('sha256').update(bytes).digest('hex').slice(0, 8)
      writeFileSync(join(folder, `found-${mark}.hex`), `${bytes.toString('hex')}\n`)
      t.fail(`${error}; kept as found-${mark}.hex`)
      return
    }
  }
  t.pass(`${rounds} connections`)
})
