/** Header blocks: HEADERS and its CONTINUATION frames (RFC 9113, 4.3, 6.2 and 6.10). */

import { ConnectionError, errorCode, frameFlag, readUint31 } from './frames.ts'

interface BlockLimits {
  readonly blockBytes: number
  readonly blockFrames: number
}

/** Receives a complete block, in `buffer` from `start` to `end`. */
type OnBlock = (
  stream: number,
  /** The client sends nothing more on the stream. */
  last: boolean,
  /** The stream depends on itself (RFC 7540, 5.3.1). */
  circular: boolean,
  buffer: Buffer,
  start: number,
  end: number,
) => void

export class HeaderBlocks {
  readonly #limits: BlockLimits
  readonly #onBlock: OnBlock
  #stream = 0
  #last = false
  #circular = false
  #parts: Buffer[] = []
  #bytes = 0

  constructor(limits: BlockLimits, onBlock: OnBlock) {
    this.#limits = limits
    this.#onBlock = onBlock
  }

  /** The stream whose block must continue in the next frame, or 0. */
  get open(): number {
    return this.#stream
  }

  begin(stream: number, flags: number, buffer: Buffer, start: number, end: number): void {
    let from = start
    let to = end
    if ((flags & frameFlag.padded) !== 0) {
      to -= from < to ? (buffer[from] as number) : 0
      from += 1
    }
    let circular = false
    if ((flags & frameFlag.priority) !== 0) {
      circular = from + 5 <= to && readUint31(buffer, from) === stream
      from += 5
    }
    if (from > to) throw new ConnectionError(errorCode.protocolError, 'padding of HEADERS')
    const last = (flags & frameFlag.endStream) !== 0
    if ((flags & frameFlag.endHeaders) !== 0) {
      this.#onBlock(stream, last, circular, buffer, from, to)
      return
    }
    this.#stream = stream
    this.#last = last
    this.#circular = circular
    this.#keep(buffer, from, to)
  }

  continuation(flags: number, buffer: Buffer, start: number, end: number): void {
    if (this.#stream === 0) throw new ConnectionError(errorCode.protocolError, 'CONTINUATION')
    this.#keep(buffer, start, end)
    if ((flags & frameFlag.endHeaders) === 0) return
    const block = Buffer.concat(this.#parts)
    const stream = this.#stream
    this.#stream = 0
    this.#parts = []
    this.#bytes = 0
    this.#onBlock(stream, this.#last, this.#circular, block, 0, block.length)
  }

  #keep(buffer: Buffer, start: number, end: number): void {
    this.#bytes += end - start
    // A copy: a part would retain the whole buffer that was read.
    this.#parts.push(Buffer.from(buffer.subarray(start, end)))
    if (this.#bytes > this.#limits.blockBytes || this.#parts.length > this.#limits.blockFrames) {
      throw new ConnectionError(errorCode.enhanceYourCalm, 'header block without end')
    }
  }
}
