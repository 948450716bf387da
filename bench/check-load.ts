/** The load of check.bench.ts: concurrent calls on one HTTP/2 connection, as from a worker of Envoy. */

import http2 from 'node:http2'
import type { Load, LoadResult } from './check.bench.ts'

/** gRPC's length-prefixed message: no compression, four bytes of length. */
function frame(message: Buffer): Buffer {
  const head = Buffer.alloc(5)
  head.writeUInt32BE(message.length, 1)
  return Buffer.concat([head, message])
}

process.once('message', async (load: Load) => {
  const session = http2.connect(`http://127.0.0.1:${load.port}`)
  let open = 0
  for (; open < (load.open ?? 0); open += 1) {
    const head = { ':method': 'POST', ':path': load.path, 'content-type': 'application/grpc' }
    const stream = session.request(head, { endStream: false }).on('error', () => {})
    stream.once('close', () => {
      open -= 1
    })
  }
  const frames = load.messages.map((message) => frame(Buffer.from(message, 'base64')))
  const tookMs: number[] = []
  let failures = 0
  let next = 0

  function call(i: number): Promise<void> {
    return new Promise((resolve) => {
      const startedAt = performance.now()
      const stream = session.request({
        ':method': 'POST',
        ':path': load.path,
        'content-type': 'application/grpc',
        te: 'trailers',
      })
      // An allow begins with an empty Status: field 1, length 0. Data may be split anywhere.
      let allowed = false
      let seen = 0
      stream.on('data', (data: Buffer) => {
        if (seen <= 5 && seen + data.length > 5) allowed = data[5 - seen] === 0x0a
        if (seen <= 6 && seen + data.length > 6) allowed &&= data[6 - seen] === 0
        seen += data.length
      })
      stream.once('close', () => {
        tookMs.push(performance.now() - startedAt)
        if (!allowed) failures += 1
        resolve()
      })
      stream.once('error', () => {})
      stream.end(frames[i % frames.length])
    })
  }

  async function caller(): Promise<void> {
    while (next < load.calls) {
      next += 1
      await call(next)
    }
  }

  /** A fixed number per second, whether or not earlier calls have been answered. */
  async function callSteadily(perSecond: number): Promise<void> {
    const startedAt = performance.now()
    const calls: Promise<void>[] = []
    while (next < load.calls) {
      const due = Math.min(load.calls, ((performance.now() - startedAt) * perSecond) / 1_000)
      for (; next < due; next += 1) calls.push(call(next))
      await new Promise((resolve) => setTimeout(resolve, 1))
    }
    await Promise.all(calls)
  }

  if (load.perSecond === undefined) {
    await Promise.all(Array.from({ length: load.atOnce }, caller))
  } else {
    await callSteadily(load.perSecond)
  }
  tookMs.sort((a, b) => a - b)
  // Calls that ended meanwhile were not open throughout.
  failures += (load.open ?? 0) - open
  const at = (share: number): number => tookMs[Math.floor(tookMs.length * share)] as number
  const result: LoadResult = { p50: at(0.5), p99: at(0.99), failures }
  if (load.open === undefined) session.close()
  else session.destroy()
  process.send?.(result, () => process.disconnect())
})
