/**
 * The load of workers.bench.ts: Checks on one connection, like a thread of Envoy, and an entry for
 * each.
 */

import { randomUUID } from 'node:crypto'
import http2 from 'node:http2'
import { writeStruct } from '../src/grpc/struct.ts'
import { WireWriter } from '../src/grpc/wire.ts'

/** The input of a load; a connection is kept for the next load of its port. */
export interface WorkersLoad {
  readonly port: number
  /** `sk-…`, used in turn, and the user of each. */
  readonly keys: readonly string[]
  readonly users: readonly string[]
  readonly calls: number
  /** Concurrent Checks, each followed by another one. */
  readonly atOnce: number
}

/** The result of a load. */
export interface WorkersLoadResult {
  readonly failures: number
}

function framed(message: Buffer): Buffer {
  const head = Buffer.alloc(5)
  head.writeUInt32BE(message.length, 1)
  return Buffer.concat([head, message])
}

/** A CheckRequest with the headers that Envoy sends under `allowed_headers`. */
function toCheck(key: string): Buffer {
  const path = '/llm/m0/v1/chat/completions'
  const headers = { ':method': 'POST', ':path': path, authorization: `Bearer ${key}` }
  const writer = new WireWriter()
  writer.message(1, () =>
    writer.message(4, () =>
      writer.message(2, () => {
        writer.string(1, '1234567890').string(2, 'POST')
        for (const [name, value] of Object.entries(headers)) {
          writer.message(3, () => writer.string(1, name).string(2, value))
        }
        writer.string(4, path).string(5, 'localhost').string(10, 'HTTP/1.1')
      }),
    ),
  )
  return writer.finish()
}

/** A StreamAccessLogsMessage for one response that has just ended. */
function toEntry(user: string): Buffer {
  const writer = new WireWriter()
  const now = Date.now()
  const metadata = (namespace: string, values: Record<string, string | number | boolean>): void => {
    writer.message(1, () => {
      writer.string(1, namespace)
      writeStruct(writer, 2, values)
    })
  }
  const check = { user, subscription: 'team', model: 'llm/m0', metered: true }
  writer.message(2, () =>
    writer.message(1, () => {
      writer.message(1, () => {
        writer.message(5, () => writer.unsigned(1, Math.floor(now / 1_000)))
        writer.message(17, () => {
          metadata('envoy.filters.http.ext_authz', check)
          metadata('tollgate.usage', { total_tokens: 7, prompt_tokens: 3, completion_tokens: 4 })
        })
        writer.message(23, () => writer.unsigned(2, (now % 1_000) * 1_000_000))
      })
      writer.message(3, () => writer.string(9, randomUUID()))
      writer.message(4, () => writer.message(1, () => writer.unsigned(1, 200)))
    }),
  )
  return writer.finish()
}

const head = { ':method': 'POST', 'content-type': 'application/grpc', te: 'trailers' }

/** Like a thread of Envoy: a connection, and its stream of access-log entries. */
function connect(port: number) {
  const session = http2.connect(`http://127.0.0.1:${port}`)
  const open = (path: string) => session.request({ ...head, ':path': path })
  const log = open('/envoy.service.accesslog.v3.AccessLogService/StreamAccessLogs')
  return { open, log }
}

const connections = new Map<number, ReturnType<typeof connect>>()

process.on('message', async ({ port, keys, users, calls, atOnce }: WorkersLoad) => {
  const { open, log } = connections.get(port) ?? connect(port)
  connections.set(port, { open, log })
  const checks = keys.map((key) => framed(toCheck(key)))
  let failures = 0
  let next = 0

  function call(i: number): Promise<void> {
    return new Promise((resolve) => {
      const stream = open('/envoy.service.auth.v3.Authorization/Check')
      const seen: Buffer[] = []
      stream.on('data', (data: Buffer) => seen.push(data))
      stream.once('error', () => {})
      stream.once('close', () => {
        // An allow begins with an empty Status: field 1, length 0.
        const [, , , , , field, length] = Buffer.concat(seen)
        if (field !== 0x0a || length !== 0) failures += 1
        log.write(framed(toEntry(users[i % users.length] as string)))
        resolve()
      })
      stream.end(checks[i % checks.length])
    })
  }

  async function caller(): Promise<void> {
    while (next < calls) {
      next += 1
      await call(next)
    }
  }

  await Promise.all(Array.from({ length: atOnce }, caller))
  const result: WorkersLoadResult = { failures }
  process.send?.(result)
})
