import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'
import type { Test } from 'tap'
import { Connection } from '../../src/grpc/http2/connection.ts'
import { errorCode } from '../../src/grpc/http2/frames.ts'
import { type ConnectionLimits, defaultLimits } from '../../src/grpc/http2/limits.ts'
import type { Stream } from '../../src/grpc/http2/stream.ts'

const nothing = Buffer.alloc(0)
const status = { name: ':status', value: '200' }
const type = { name: 'content-type', value: 'text/plain', agreed: true }
const headers = [status, type]
const trailers = [{ name: 'x-end', value: 'yes', agreed: true }]

/** The requests that the server has seen: paths, complete bodies, ended streams, and reset streams. */
export interface Seen {
  readonly paths: string[]
  readonly bodies: string[]
  closed: number
  readonly undone: number[]
  /** How often a second function was called for an unread response. */
  undoneToo: number
}

/** Sends a complete answer. */
export function answer(stream: Stream, body: Buffer): void {
  stream.respond(headers)
  stream.write(nothing, body)
  stream.finish(trailers)
}

/** A plain HTTP/2 server: echoes each body, and answers an empty one with `hello`. */
export async function startHttp2(t: Test, limits: Partial<ConnectionLimits> = {}) {
  const faults: unknown[] = []
  const seen: Seen = { paths: [], bodies: [], closed: 0, undone: [], undoneToo: 0 }
  const connections = new Set<Connection>()
  const server = createServer({ noDelay: true }, (socket) => {
    const connection = new Connection(socket, {
      limits: { ...defaultLimits, ...limits },
      onFault: (error) => faults.push(error),
      open(stream, head) {
        seen.paths.push(head.path)
        stream.whenReset(() => seen.undone.push(stream.id))
        stream.whenReset(() => {
          seen.undoneToo += 1
        })
        const parts: Buffer[] = []
        return {
          data(payload, last) {
            parts.push(payload)
            if (!last) return
            const body = Buffer.concat(parts)
            seen.bodies.push(body.toString('latin1'))
            answer(stream, body.length > 0 ? body : Buffer.from('hello'))
          },
          overdue() {
            stream.reset(errorCode.cancel)
          },
          closed() {
            seen.closed += 1
          },
        }
      },
    })
    connections.add(connection)
    socket.once('close', () => connections.delete(connection))
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    for (const connection of connections) connection.destroy()
    server.close()
  })
  return { port: (server.address() as AddressInfo).port, seen, faults, connections }
}
