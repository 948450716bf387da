/**
 * Sends Checks at a steady rate from a separate process: it is forked, receives the load and sends
 * back the result. It uses one HTTP/2 connection, as each of Envoy's worker threads does.
 */

import { randomBytes } from 'node:crypto'
import http2 from 'node:http2'
import { setTimeout as delay } from 'node:timers/promises'
import { WireWriter } from '../../../src/grpc/wire.ts'
import { keyIdBytes, keySecretBytes, mintKey } from '../../../src/keys/rules/api-key.ts'

export interface CheckLoad {
  readonly port: number
  readonly perSecond: number
  readonly seconds: number
  /** Seconds at the same rate before the measurement, in which code is compiled and heaps grow. */
  readonly warmSeconds?: number
  /** Used in turn; empty: a new key is generated for each Check. */
  readonly keys: readonly string[]
  /** The number of client addresses, used in turn. */
  readonly sources: number
}

export interface CheckLoadResult {
  /** Checks per second, without those that were dropped. */
  readonly rate: number
  /** The number of responses for each HTTP status; 200 is an allow, 0 no response. */
  readonly statuses: Readonly<Record<number, number>>
  /** Responses that are not measured, because this process was paused while they were pending. */
  readonly leftOut: number
  /** In milliseconds. */
  readonly p50: number
  readonly p99: number
  readonly most: number
}

/** Milliseconds between two bursts. */
const tickMs = 1
/**
 * After a pause of this process, due Checks are sent at once, but not more than of this many
 * milliseconds.
 */
const maxArrearsMs = 10
/** A tick that is this much later than scheduled is a pause. */
const lateMs = 5

const chatPath = '/llm/sim/v1/chat/completions'

/** A CheckRequest with its gRPC prefix: no compression, four bytes of length. */
function frameOf(key: string, source: string): Buffer {
  const writer = new WireWriter()
  writer.message(1, () => {
    writer.message(1, () =>
      writer.message(1, () => writer.message(1, () => writer.string(2, source))),
    )
    writer.message(4, () =>
      writer.message(2, () => {
        writer.string(2, 'POST')
        writer.message(3, () => writer.string(1, 'authorization').string(2, `Bearer ${key}`))
        writer.string(4, chatPath)
      }),
    )
  })
  const message = writer.finish()
  const head = Buffer.alloc(5)
  head.writeUInt32BE(message.length, 1)
  return Buffer.concat([head, message])
}

function invent(): string {
  return mintKey('tg', randomBytes(keyIdBytes), randomBytes(keySecretBytes)).key
}

process.once('message', async (load: CheckLoad) => {
  // In megabytes; with the default of ten, the client resets streams for which it has no room.
  const session = http2.connect(`http://127.0.0.1:${load.port}`, { maxSessionMemory: 1_000 })
  const tookMs: number[] = []
  const statuses: Record<number, number> = {}
  let open = 0
  let answered = 0
  let last = performance.now()
  /** Checks that started earlier were pending during a pause of this process. */
  let lateAt = 0

  function call(i: number): void {
    const key = load.keys.length > 0 ? (load.keys[i % load.keys.length] as string) : invent()
    const source = i % load.sources
    const startedAt = performance.now()
    const stream = session.request({
      ':method': 'POST',
      ':path': '/envoy.service.auth.v3.Authorization/Check',
      'content-type': 'application/grpc',
      te: 'trailers',
    })
    open += 1
    let answer: Buffer = Buffer.alloc(0)
    stream.on('data', (data: Buffer) => {
      answer = answer.length === 0 ? data : Buffer.concat([answer, data])
    })
    stream.once('error', () => {})
    stream.once('close', () => {
      open -= 1
      if (startedAt < measuredFrom) return
      const now = performance.now()
      // During a pause of this process the time is not the service's.
      if (startedAt > lateAt && now - last < lateMs) tookMs.push(now - startedAt)
      answered += 1
      const status = statusOf(answer)
      statuses[status] = (statuses[status] ?? 0) + 1
    })
    stream.end(frameOf(key, `192.0.${source >> 8}.${source & 255}`))
  }

  const measuredFrom = performance.now() + (load.warmSeconds ?? 0) * 1_000
  const endsAt = measuredFrom + load.seconds * 1_000
  // A backlog is not sent in one burst: real clients do not all wait for each other.
  const most = Math.max(1, (load.perSecond * maxArrearsMs) / 1_000)
  let sent = 0
  let owed = 0
  while (last < endsAt) {
    await delay(tickMs)
    const now = performance.now()
    if (now - last > lateMs) lateAt = now
    owed = Math.min(most, owed + ((now - last) * load.perSecond) / 1_000)
    last = now
    for (; owed >= 1; owed -= 1) {
      sent += 1
      call(sent)
    }
  }
  const giveUpAt = performance.now() + 30_000
  while (open > 0 && performance.now() < giveUpAt) await delay(10)
  tookMs.sort((a, b) => a - b)
  const at = (share: number) =>
    tookMs[Math.min(tookMs.length - 1, Math.floor(tookMs.length * share))] ?? 0
  const rate = Math.round(answered / load.seconds)
  const result = {
    rate,
    leftOut: answered - tookMs.length,
    statuses,
    p50: at(0.5),
    p99: at(0.99),
    most: at(1),
  } as CheckLoadResult
  session.close()
  process.send?.(result, () => process.disconnect())
})

/**
 * After the gRPC prefix, an allow begins with an empty Status; a denial contains the status (1) of
 * a DeniedHttpResponse with its code (1).
 */
function statusOf(answer: Buffer): number {
  if (answer[5] === 0x0a && answer[6] === 0) return 200
  return [401, 403, 429, 500, 503].find((code) => answer.includes(httpStatus(code))) ?? 0
}

function httpStatus(code: number): Buffer {
  return Buffer.from([0x0a, 0x03, 0x08, (code & 0x7f) | 0x80, code >> 7])
}
