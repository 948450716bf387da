/**
 * The least that Node can do: HTTP/2 frames from a raw socket, each HEADERS + DATA answered with
 * the same three frames, nothing decoded, no flow control. Not a usable server, but a lower bound:
 * `node bench/yardsticks/raw.ts host:port`.
 */

import { createServer } from 'node:net'
import { allowed, readAddress } from './answer.ts'

const PREFACE = 24
const HEAD = 9
const type = { data: 0, headers: 1, settings: 4, ping: 6, windowUpdate: 8 } as const
const flag = { ack: 1, endStream: 1, endHeaders: 4 } as const

function frame(kind: number, flags: number, stream: number, payload: Uint8Array): Buffer {
  const head = Buffer.alloc(HEAD)
  head.writeUIntBE(payload.length, 0, 3)
  head.writeUInt8(kind, 3)
  head.writeUInt8(flags, 4)
  head.writeUInt32BE(stream, 5)
  return Buffer.concat([head, payload])
}

/** A field without indexing, with a new name, without Huffman coding (RFC 7541, 6.2.2). */
function field(name: string, value: string): Buffer {
  return Buffer.concat([
    Buffer.from([0, name.length]),
    Buffer.from(name),
    Buffer.from([value.length]),
    Buffer.from(value),
  ])
}

const status200 = Buffer.from([0x88])
const message = Buffer.concat([Buffer.from([0, 0, 0, 0, allowed.length]), allowed])
const answer = Buffer.concat([
  frame(
    type.headers,
    flag.endHeaders,
    0,
    Buffer.concat([status200, field('content-type', 'application/grpc')]),
  ),
  frame(type.data, 0, 0, message),
  frame(type.headers, flag.endHeaders | flag.endStream, 0, field('grpc-status', '0')),
])
/** The offsets of the three stream numbers. */
const places = [5, 0, 0]
places[1] = (places[0] as number) + HEAD + answer.readUIntBE(0, 3)
places[2] = (places[1] as number) + HEAD + message.length

const [host, port] = readAddress().split(':')
createServer({ noDelay: true }, (socket) => {
  let pending: Buffer = Buffer.alloc(0)
  let at = PREFACE
  socket.write(frame(type.settings, 0, 0, Buffer.alloc(0)))
  socket.on('error', () => {})
  socket.on('data', (data) => {
    pending = pending.length === 0 ? data : Buffer.concat([pending, data])
    const out: Buffer[] = []
    let taken = 0
    while (at + HEAD <= pending.length && at + HEAD + pending.readUIntBE(at, 3) <= pending.length) {
      const length = pending.readUIntBE(at, 3)
      const [kind, flags, stream] = [
        pending[at + 3],
        pending[at + 4] ?? 0,
        pending.readUInt32BE(at + 5),
      ]
      if (kind === type.settings && !(flags & flag.ack)) {
        out.push(frame(type.settings, flag.ack, 0, Buffer.alloc(0)))
      } else if (kind === type.ping && !(flags & flag.ack)) {
        out.push(frame(type.ping, flag.ack, 0, pending.subarray(at + HEAD, at + HEAD + length)))
      } else if (kind === type.data && flags & flag.endStream) {
        taken += length
        const copy = Buffer.from(answer)
        for (const place of places) copy.writeUInt32BE(stream, place)
        out.push(copy)
      } else if (kind === type.data) taken += length
      at += HEAD + length
    }
    const rest = Math.max(0, at - pending.length)
    pending = pending.subarray(at)
    at = rest
    if (taken > 0) {
      const window = Buffer.alloc(4)
      window.writeUInt32BE(taken)
      out.push(frame(type.windowUpdate, 0, 0, window))
    }
    if (out.length > 0) socket.write(Buffer.concat(out))
  })
}).listen(Number(port), host)
