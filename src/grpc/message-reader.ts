/** Reads length-prefixed messages from HTTP/2 DATA (gRPC over HTTP/2, "Length-Prefixed-Message"). */

import { gunzipSync } from 'node:zlib'
import { CallError, grpcStatus } from './status.ts'

/** One byte of flags, four bytes of length. */
export const prefixBytes = 5

/** The memory that a stored part takes besides its bytes. */
const partBytes = 256

/** The bytes of unfinished messages that one connection may make us keep. */
interface Allowance {
  left: number
}

/** Properties that all messages of a stream share. */
export interface MessageForm {
  /** The maximum size of a message, compressed or not; gRPC's own default is 4 MiB. */
  readonly maxBytes: number
  /** The stream's `grpc-encoding`. */
  readonly encoding: string | undefined
  readonly allowance: Allowance
}

/** Whether these bytes are exactly one uncompressed message. */
export function isMessage(bytes: Buffer, { maxBytes }: MessageForm): boolean {
  if (bytes.length < prefixBytes || bytes[0] !== 0) return false
  const length = bytes.length - prefixBytes
  return length <= maxBytes && bytes.readUInt32BE(1) === length
}

/** Takes this much of the connection's allowance; returns how much was taken. */
export function chargeAllowance({ allowance }: MessageForm, bytes: number): number {
  const charged = bytes + partBytes
  allowance.left -= charged
  if (allowance.left >= 0) return charged
  allowance.left += charged
  throw new CallError(
    grpcStatus.resourceExhausted,
    'too many unfinished messages on this connection',
  )
}

/** A copy that retains no other memory; `Buffer.from` takes small ones from a pool, whose slabs a few bytes would retain. */
export function copyBytes(part: Buffer): Buffer {
  const copy = Buffer.allocUnsafeSlow(part.length)
  copy.set(part)
  return copy
}

/** Reassembles messages, however they were split into frames. */
export class MessageReader {
  readonly #form: MessageForm
  #parts: Buffer[] = []
  #held = 0
  #charged = 0
  /** The number of bytes at which the first message in `#parts` is complete. */
  #needed = prefixBytes

  constructor(form: MessageForm) {
    this.#form = form
  }

  /** Whether a message has begun and not ended. */
  get midway(): boolean {
    return this.#held > 0
  }

  /** Passes on each message that `data` completes. Throws a CallError for an invalid one. */
  push(data: Buffer, take: (message: Buffer) => void): void {
    let rest = data
    if (this.#held > 0) {
      if (!this.#keep(data)) return
      rest = this.#join()
    }
    while (rest.length >= prefixBytes) {
      const end = prefixBytes + this.#lengthOf(rest)
      if (rest.length < end) {
        this.#needed = end
        break
      }
      const message = rest.subarray(prefixBytes, end)
      take(rest[0] === 0 ? message : this.#inflate(message))
      rest = rest.subarray(end)
    }
    if (rest.length > 0) this.#keep(rest)
  }

  /** Releases its memory; nothing may be pushed afterwards. */
  drop(): void {
    this.#form.allowance.left += this.#charged
    this.#charged = 0
    this.#held = 0
    this.#parts = []
  }

  /** Stores a part; returns whether the awaited prefix or message is now complete. */
  #keep(part: Buffer): boolean {
    this.#charged += chargeAllowance(this.#form, part.length)
    this.#held += part.length
    // A part is a slice of the buffer that was read; keeping it would retain the whole buffer.
    this.#parts.push(part.length * 2 < part.buffer.byteLength ? copyBytes(part) : part)
    return this.#held >= this.#needed
  }

  #join(): Buffer {
    const [first] = this.#parts
    const joined = this.#parts.length === 1 && first ? first : Buffer.concat(this.#parts)
    this.drop()
    this.#needed = prefixBytes
    return joined
  }

  #lengthOf(prefixed: Buffer): number {
    const length = prefixed.readUInt32BE(1)
    const { maxBytes } = this.#form
    if (length <= maxBytes) return length
    throw new CallError(
      grpcStatus.resourceExhausted,
      `message of ${length} bytes is longer than ${maxBytes}`,
    )
  }

  #inflate(message: Buffer): Buffer {
    const { encoding = 'identity', maxBytes } = this.#form
    if (encoding === 'identity') {
      throw new CallError(grpcStatus.internal, 'compressed message without grpc-encoding')
    }
    if (encoding !== 'gzip') {
      throw new CallError(grpcStatus.unimplemented, `grpc-encoding ${encoding} is not supported`)
    }
    try {
      return gunzipSync(message, { maxOutputLength: maxBytes })
    } catch (error) {
      const tooLong = error instanceof RangeError
      throw tooLong
        ? new CallError(grpcStatus.resourceExhausted, `message is longer than ${maxBytes} bytes`)
        : new CallError(grpcStatus.internal, 'message cannot be decompressed')
    }
  }
}
