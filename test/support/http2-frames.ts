import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import type { Test } from 'tap'
import { frameHeaderBytes, frameType, preface, putFrameHead } from '../../src/grpc/http2/frames.ts'
import { poll } from './poll.ts'

/** A frame of the named type with any content. */
export function frame(
  type: keyof typeof frameType | number,
  stream: number,
  flags = 0,
  payload: Buffer | string = '',
): Buffer {
  const bytes = Buffer.from(payload)
  const head = Buffer.alloc(frameHeaderBytes)
  const kind = typeof type === 'number' ? type : frameType[type]
  putFrameHead(head, 0, bytes.length, kind, flags, stream)
  return Buffer.concat([head, bytes])
}

export function uint32(value: number): Buffer {
  const bytes = Buffer.alloc(4)
  bytes.writeUInt32BE(value)
  return bytes
}

/** A SETTINGS payload. */
export function settings(values: Readonly<Record<number, number>>): Buffer {
  return Buffer.concat(
    Object.entries(values).map(([name, value]) =>
      Buffer.concat([Buffer.of(0, Number(name)), uint32(value)]),
    ),
  )
}

/** A literal without indexing; each character is a byte. */
export function literal(name: string, value: string): Buffer {
  const text = (characters: string): Buffer => {
    const bytes = Buffer.from(characters, 'latin1')
    const rest = bytes.length - 127
    const length = [127, (rest & 127) | 128, ((rest >> 7) & 127) | 128, rest >> 14]
    return Buffer.concat([Buffer.from(rest < 0 ? [bytes.length] : length), bytes])
  }
  return Buffer.concat([Buffer.of(0), text(name), text(value)])
}

/** `:method: POST`, `:scheme: http`, `:path: /`, and more. */
export const post = (...more: readonly Buffer[]): Buffer =>
  Buffer.concat([Buffer.of(0x83, 0x86, 0x84), ...more])

/** The start of a client's connection. */
export const hello = Buffer.concat([preface, frame('settings', 0)])

/** A received frame. */
export interface Frame {
  readonly type: number
  readonly flags: number
  readonly stream: number
  readonly payload: Buffer
}

/** A connection on which the test writes raw bytes; closed when `t` ends. */
export interface RawConnection {
  readonly socket: Socket
  /** The socket is closed, for any reason. */
  readonly closed: boolean
  send(...bytes: readonly Buffer[]): Promise<void>
  frames(): readonly Frame[]
  /** The first frame of this type for which `holds` is true, once it arrives. */
  frame(type: keyof typeof frameType, holds?: (frame: Frame) => boolean): Promise<Frame>
  /**
   * Waits for the answer to a PING, after which all earlier bytes have been handled, or for the
   * end.
   */
  settle(): Promise<void>
}

export async function connectRaw(t: Test, port: number): Promise<RawConnection> {
  const socket = connect({ port, host: '127.0.0.1', noDelay: true })
  let received = Buffer.alloc(0)
  let closed = false
  let pings = 0
  socket.on('error', () => {})
  socket.on('data', (data) => {
    received = Buffer.concat([received, data])
  })
  const gone = new Promise<void>((resolve) => {
    socket.on('close', () => {
      closed = true
      resolve()
    })
  })
  t.teardown(() => socket.destroy())
  await once(socket, 'connect')
  const frames = (): readonly Frame[] => framesOf(received)
  const connection: RawConnection = {
    socket,
    get closed() {
      return closed
    },
    async send(...bytes) {
      if (closed) return
      await Promise.race([new Promise((sent) => socket.write(Buffer.concat(bytes), sent)), gone])
    },
    frames,
    frame: (type, holds = () => true) =>
      poll(
        () => frames().find((one) => one.type === frameType[type] && holds(one)),
        `${type} arrives`,
      ) as Promise<Frame>,
    async settle() {
      pings += 1
      const mark = Buffer.alloc(8, pings)
      await connection.send(frame('ping', 0, 0, mark))
      await poll(
        () =>
          closed ||
          frames().some(({ type, payload }) => type === frameType.ping && payload.equals(mark)),
        'the PING is answered',
      )
    },
  }
  return connection
}

export function framesOf(bytes: Buffer): Frame[] {
  const frames: Frame[] = []
  for (let at = 0; at + frameHeaderBytes <= bytes.length; ) {
    const end = at + frameHeaderBytes + bytes.readUIntBE(at, 3)
    if (end > bytes.length) break
    frames.push({
      type: bytes[at + 3] as number,
      flags: bytes[at + 4] as number,
      stream: bytes.readUInt32BE(at + 5),
      payload: bytes.subarray(at + frameHeaderBytes, end),
    })
    at = end
  }
  return frames
}
