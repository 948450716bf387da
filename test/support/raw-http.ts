import { connect } from 'node:net'

/** An answer: the status (0 if it was not HTTP), and header block and body as received. */
export interface RawAnswer {
  readonly status: number
  readonly head: string
  readonly body: string
}

/** A request that is sent exactly as written, as Latin-1. */
export interface RawRequest {
  readonly method?: string
  readonly path: string
  readonly headers?: readonly string[]
  readonly body?: string | Buffer
}

/** The bytes of a request that asks to close the connection after it. */
export function toBytes({ method = 'POST', path, headers = [], body = '' }: RawRequest): Buffer {
  const bytes = typeof body === 'string' ? Buffer.from(body) : body
  const length = bytes.length > 0 ? [`content-length: ${bytes.length}`] : []
  const lines = [`${method} ${path} HTTP/1.1`, 'host: gateway', 'connection: close']
  const head = [...lines, ...length, ...headers, '', ''].join('\r\n')
  return Buffer.concat([Buffer.from(head, 'latin1'), bytes])
}

/**
 * Sends bytes and reads the answer up to its stated length, or until the other side closes. A reset
 * or 15 s of silence ends it too.
 */
export function sendRaw(port: number, bytes: Buffer | string): Promise<RawAnswer> {
  return new Promise((settle) => {
    const socket = connect(port, '127.0.0.1', () => socket.write(bytes))
    let answer = read('')
    let text = ''
    socket.setTimeout(15_000, () => socket.destroy())
    socket.on('error', () => {})
    socket.on('data', (chunk) => {
      text += chunk.toString('latin1')
      answer = read(text)
      const length = /\r\ncontent-length: *(\d+)/i.exec(answer.head)?.[1]
      if (length !== undefined && answer.body.length >= Number(length)) socket.destroy()
    })
    socket.on('close', () => settle(answer))
  })
}

function read(text: string): RawAnswer {
  // An interim response (100 Continue) is not the answer.
  const answer = text.replace(/^HTTP\/1\.1 1\d\d.*?\r\n\r\n/s, '')
  const end = answer.indexOf('\r\n\r\n')
  if (end < 0) return { status: 0, head: '', body: '' }
  return {
    status: Number(/^HTTP\/1\.1 (\d{3})/.exec(answer)?.[1] ?? 0),
    head: answer.slice(0, end),
    body: answer.slice(end + 4),
  }
}
