/** Sends the bytes of a case and returns the response. */
import { connect as connectHttp2, constants } from 'node:http2'
import { connect } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'
import { type Draft, headersOf, nameOf, render } from './draft.ts'

export interface Reply {
  /** Of each response on the connection, in order. */
  readonly statuses: readonly number[]
  /** The received bytes as Latin-1; for HTTP/2 only the body. */
  readonly text: string
  /** The client closed the connection before a response was complete. */
  readonly wasCut: boolean
}

export interface SendOptions {
  readonly port: number
  readonly key: string | undefined
  /** Whether the model server is still working. */
  readonly isBusy: () => boolean
}

/** How long to wait for a response; an incomplete request gets none. */
const silenceMs = 600
const maxMs = 20_000

export function send(draft: Draft, options: SendOptions): Promise<Reply> {
  return draft.transport === 'http2' ? sendHttp2(draft, options) : sendBytes(draft, options)
}

function sendBytes(draft: Draft, { port, key, isBusy }: SendOptions): Promise<Reply> {
  const bytes = render(draft, key)
  return new Promise((settle) => {
    const begun = performance.now()
    let text = ''
    let quietSince = begun
    let closed = false
    const answers = draft.tail.length > 0 ? 2 : 1
    const isAnswered = () => isWhole(text) && statusesOf(text).length >= answers
    const socket = connect({ port, host: '127.0.0.1', noDelay: true }, async () => {
      const parts = draft.transport === 'whole' ? 1 : 12
      const step = Math.max(1, Math.ceil(bytes.length / parts))
      for (let at = 0; at < bytes.length && !socket.destroyed; at += step) {
        socket.write(bytes.subarray(at, at + step))
        await delay(1)
      }
    })
    socket.on('error', () => {})
    socket.on('data', (chunk) => {
      // An interim response (100 Continue) is not the final one.
      text = (text + chunk.toString('latin1')).replace(/HTTP\/1\.1 1\d\d .*?\r\n\r\n/gs, '')
      quietSince = performance.now()
    })
    const watch = setInterval(() => {
      const now = performance.now()
      const isQuiet = now - quietSince > (isAnswered() ? 60 : silenceMs)
      if ((isQuiet && !isBusy()) || now - begun > maxMs) socket.destroy()
    }, 30)
    // Envoy closes the connection when it is done.
    socket.on('end', () => {
      closed = true
    })
    socket.on('close', () => {
      clearInterval(watch)
      settle({ statuses: statusesOf(text), text, wasCut: !closed && !isAnswered() })
    })
  })
}

function statusesOf(text: string): readonly number[] {
  return [...text.matchAll(/(?:^|\n)HTTP\/1\.[01] (\d{3})/g)].map(([, status]) => Number(status))
}

/** Whether the last response appears to be complete. */
function isWhole(text: string): boolean {
  const start = text.lastIndexOf('HTTP/1.1 ')
  const end = text.indexOf('\r\n\r\n', start)
  if (start < 0 || end < 0) return false
  const head = text.slice(start, end)
  const length = /\r\ncontent-length: *(\d+)/i.exec(head)?.[1]
  if (length !== undefined) return text.length - end - 4 >= Number(length)
  return /\r\ntransfer-encoding: chunked/i.test(head) ? text.endsWith('0\r\n\r\n') : true
}

function sendHttp2(draft: Draft, { port, key }: SendOptions): Promise<Reply> {
  return new Promise((settle) => {
    let text = ''
    let status = 0
    let done = false
    const session = connectHttp2(`http://127.0.0.1:${port}`)
    const finish = (wasCut: boolean) => {
      if (done) return
      done = true
      clearTimeout(timer)
      session.destroy()
      settle({ statuses: status > 0 ? [status] : [], text, wasCut })
    }
    const timer = setTimeout(() => finish(true), maxMs)
    session.on('error', () => finish(true))
    try {
      const headers: Record<string, string[]> = {}
      for (const line of headersOf(draft, key)) {
        const name = nameOf(line).trim()
        if (
          [
            '',
            'connection',
            'transfer-encoding',
            'upgrade',
            'host',
            'te',
            'http2-settings',
          ].includes(name)
        )
          continue
        headers[name] ??= []
        headers[name].push(line.slice(line.indexOf(':') + 1).trim())
      }
      const pseudo = { ':method': draft.method, ':path': draft.target, ':authority': 'gateway' }
      const stream = session.request(
        { ...headers, ...pseudo },
        { endStream: draft.body.length === 0 },
      )
      stream.on('response', (answer) => {
        status = Number(answer[constants.HTTP2_HEADER_STATUS])
      })
      stream.setEncoding('latin1').on('data', (chunk: string) => {
        text += chunk
      })
      stream.on('error', () => {})
      stream.on('close', () => finish(stream.rstCode !== 0 && status === 0))
      if (draft.body.length > 0) stream.end(draft.body)
    } catch {
      // Node refuses to send some generated requests.
      finish(true)
    }
  })
}
