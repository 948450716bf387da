import http2, { type ClientHttp2Session, type OutgoingHttpHeaders } from 'node:http2'
import type { Test } from 'tap'

/** One call as sent over HTTP/2. */
export interface WireCall {
  readonly path?: string
  readonly headers?: OutgoingHttpHeaders
  /** DATA frames, each written once the previous one has been sent. */
  readonly frames?: readonly Buffer[]
  /** The client never ends its stream. */
  readonly open?: boolean
}

export interface WireAnswer {
  readonly http: number
  /** Undefined if neither headers nor trailers have one. */
  readonly status: string | undefined
  readonly message: string | undefined
  readonly headers: Record<string, unknown>
  /** Whether the status is in the first headers ("Trailers-Only"). */
  readonly alone: boolean
  readonly body: Buffer
  readonly rstCode: number
}

/** A connection that is closed when `t` ends. */
export function connectWire(t: Test, port: number): ClientHttp2Session {
  const session = http2.connect(`http://127.0.0.1:${port}`)
  session.on('error', () => {})
  t.teardown(() => session.destroy())
  return session
}

/** A message with its prefix. */
export function prefixed(message: Buffer | string, flags = 0, length?: number): Buffer {
  const bytes = Buffer.from(message)
  const prefix = Buffer.alloc(5)
  prefix[0] = flags
  prefix.writeUInt32BE(length ?? bytes.length, 1)
  return Buffer.concat([prefix, bytes])
}

/** Makes a call and waits for its stream to close. */
export async function callWire(session: ClientHttp2Session, call: WireCall): Promise<WireAnswer> {
  const stream = session.request({
    ':method': 'POST',
    ':path': call.path ?? '/test/echo',
    'content-type': 'application/grpc',
    ...call.headers,
  })
  let first: Record<string, unknown> = {}
  let last: Record<string, unknown> = {}
  const parts: Buffer[] = []
  stream.on('response', (headers) => {
    first = headers
  })
  stream.on('trailers', (headers) => {
    last = headers
  })
  stream.on('data', (part: Buffer) => parts.push(part))
  stream.on('error', () => {})
  const closed = new Promise((resolve) => stream.on('close', resolve))
  for (const frame of call.frames ?? []) {
    if (stream.destroyed) break
    await Promise.race([new Promise((sent) => stream.write(frame, sent)), closed])
    await new Promise(setImmediate)
  }
  if (call.open !== true) stream.end()
  await closed
  const status = last['grpc-status'] ?? first['grpc-status']
  const message = last['grpc-message'] ?? first['grpc-message']
  return {
    http: Number(first[':status'] ?? 0),
    status: status === undefined ? undefined : String(status),
    message: message === undefined ? undefined : String(message),
    headers: first,
    alone: first['grpc-status'] !== undefined,
    body: Buffer.concat(parts),
    rstCode: stream.rstCode,
  }
}
