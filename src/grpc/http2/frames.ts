/** HTTP/2 frames: types, flags and head (RFC 9113, sections 4 and 6), and error codes (7). */

export const frameType = {
  data: 0,
  headers: 1,
  priority: 2,
  rstStream: 3,
  settings: 4,
  pushPromise: 5,
  ping: 6,
  goaway: 7,
  windowUpdate: 8,
  continuation: 9,
} as const

/** ACK and END_STREAM share a bit: no frame has both. */
export const frameFlag = { ack: 1, endStream: 1, endHeaders: 4, padded: 8, priority: 32 } as const

export const settingId = {
  headerTableSize: 1,
  enablePush: 2,
  maxConcurrentStreams: 3,
  initialWindowSize: 4,
  maxFrameSize: 5,
  maxHeaderListSize: 6,
} as const

export const errorCode = {
  noError: 0,
  protocolError: 1,
  internalError: 2,
  flowControlError: 3,
  settingsTimeout: 4,
  streamClosed: 5,
  frameSizeError: 6,
  refusedStream: 7,
  cancel: 8,
  compressionError: 9,
  connectError: 10,
  enhanceYourCalm: 11,
} as const

/** Bytes of a frame's head. */
export const frameHeaderBytes = 9
/** The largest payload that every peer accepts, and the largest that we do (SETTINGS_MAX_FRAME_SIZE). */
export const defaultFrameSize = 16_384
export const frameSizeLimit = 2 ** 24 - 1
/** The initial window of both sides (6.9.2), and the largest possible one (6.9.1). */
export const defaultWindow = 65_535
export const maxWindow = 2 ** 31 - 1
export const maxStreamId = 2 ** 31 - 1

/** The first bytes of a client (3.4). */
export const preface: Buffer = Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n')

/** A connection error (5.4.1): the connection ends with GOAWAY and this code. */
export class ConnectionError extends Error {
  readonly code: number

  constructor(code: number, message: string) {
    super(message)
    this.name = 'ConnectionError'
    this.code = code
  }
}

/** Writes a frame's head at `at`; returns the offset of its payload. */
export function putFrameHead(
  buffer: Buffer,
  at: number,
  length: number,
  type: number,
  flags: number,
  stream: number,
): number {
  buffer[at] = length >>> 16
  buffer[at + 1] = length >>> 8
  buffer[at + 2] = length
  buffer[at + 3] = type
  buffer[at + 4] = flags
  return putUint32(buffer, at + 5, stream)
}

/** Writes 32 bits at `at`; returns the offset after them. */
export function putUint32(buffer: Buffer, at: number, value: number): number {
  buffer[at] = value >>> 24
  buffer[at + 1] = value >>> 16
  buffer[at + 2] = value >>> 8
  buffer[at + 3] = value
  return at + 4
}

/** Reads 32 bits without the first, reserved one: a stream id, a window increment. */
export function readUint31(buffer: Buffer, at: number): number {
  return buffer.readUInt32BE(at) & 0x7fffffff
}
