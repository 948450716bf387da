/** A minimal, fast HTTP/1.1 (RFC 9112) parser that finds the end of each message. */

/** Callbacks for each message; all are called before `read` returns. */
export interface MessageSink {
  /** Start line and headers, without the empty line. */
  onHead(head: string): void
  /** A part of the body, without framing; the buffer is reused afterwards. */
  onBody?(piece: Buffer): void
  onEnd(): void
}

const endOfHead = '\r\n\r\n'
const maxHeadLength = 65_536
const maxLineLength = 1_024

const states = { head: 0, fixed: 1, size: 2, chunk: 3, chunkEnd: 4, trailer: 5 } as const

/**
 * Returns a function that takes the bytes of one connection, in order and split anywhere. It throws
 * a readable Error if they are not HTTP/1.1, or if a body has no length and would end with the
 * connection.
 */
export function createHttp1Reader(sink: MessageSink): (data: Buffer) => void {
  let state: number = states.head
  let pending: Buffer | undefined
  let left = 0
  let line = ''

  function begin(head: string): void {
    if (/^HTTP\/1\.[01] 1\d\d/.test(head)) return
    sink.onHead(head)
    if (/\r\ntransfer-encoding: *chunked/i.test(head)) state = states.size
    else {
      const length = /\r\ncontent-length: *(\d+)/i.exec(head)?.[1]
      const mayHaveBody = head.startsWith('HTTP/') && !/^HTTP\/1\.[01] (204|304)/.test(head)
      if (length === undefined && mayHaveBody) {
        throw new Error('The answer has no length: its end would be that of the connection.')
      }
      left = Number(length ?? 0)
      if (left === 0) sink.onEnd()
      else state = states.fixed
    }
  }

  /** Continues in `data` at `at` in the current state; returns the new offset. */
  function step(data: Buffer, at: number): number {
    if (state === states.head) {
      const end = data.indexOf(endOfHead, at, 'latin1')
      if (end < 0) {
        if (data.length - at > maxHeadLength) throw new Error('The head of a message is too long.')
        pending = Buffer.from(data.subarray(at))
        return data.length
      }
      begin(data.toString('latin1', at, end))
      return end + endOfHead.length
    }
    if (state === states.fixed || state === states.chunk) {
      const taken = Math.min(left, data.length - at)
      sink.onBody?.(data.subarray(at, at + taken))
      left -= taken
      if (left === 0) {
        if (state === states.chunk) state = states.chunkEnd
        else end()
      }
      return at + taken
    }
    const newline = data.indexOf(0x0a, at)
    line += data.toString('latin1', at, newline < 0 ? data.length : newline)
    if (line.length > maxLineLength) throw new Error('A chunk of a body has no size.')
    if (newline < 0) return data.length
    const text = line.trim()
    line = ''
    if (state === states.chunkEnd) state = states.size
    else if (state === states.trailer) {
      if (text === '') end()
    } else {
      if (!/^[\da-f]{1,8}(;|$)/i.test(text)) throw new Error('A chunk of a body has no size.')
      left = Number.parseInt(text, 16)
      state = left === 0 ? states.trailer : states.chunk
    }
    return newline + 1
  }

  function end(): void {
    state = states.head
    sink.onEnd()
  }

  return (data) => {
    const all = pending === undefined ? data : Buffer.concat([pending, data])
    pending = undefined
    for (let at = 0; at < all.length; ) at = step(all, at)
  }
}
