/**
 * Clients and a model server in a process of their own, so that their CPU is not measured. The
 * parent loads exchanges, and then says how often one of them takes place.
 */
import http from 'node:http'
import { type AddressInfo, connect, type Socket } from 'node:net'

/** The bytes of a request, and the body of the model's response to it. */
export interface Exchange {
  readonly request: Buffer
  readonly answer: Buffer
  readonly answerType: string
}

export type Order =
  | { readonly port: number; readonly exchanges: readonly Exchange[] }
  /** At most this many requests; none begins after this many milliseconds. */
  | { readonly count: number; readonly withinMs: number }

/** How many requests have been answered, and the status of the last one (0: closed without). */
export interface Served {
  readonly count: number
  readonly status: number
}

export type Report = { readonly url: string } | { readonly loaded: true } | Served

const clients = 4
/** A gateway that is silent for this long does not answer any more. */
const timeoutMs = 60_000

let port = 0
let exchanges: readonly Exchange[] = []
let turn = 0
let exchange: Exchange = { request: Buffer.alloc(0), answer: Buffer.from('{}'), answerType: '' }
const idle: Socket[] = []

function report(message: Report): void {
  process.send?.(message)
}

/** Sends the request once; the promise is the status of the response. */
function ask(): Promise<number> {
  exchange = exchanges[turn % exchanges.length] ?? exchange
  turn += 1
  const socket = idle.pop() ?? connect(port, '127.0.0.1').setNoDelay()
  return new Promise((settle) => {
    const chunks: Buffer[] = []
    const finish = (isOpen: boolean) => {
      socket.removeAllListeners()
      socket.on('error', () => {})
      if (isOpen) idle.push(socket)
      else socket.destroy()
      const line = chunks[0]?.toString('latin1', 0, 12) ?? ''
      settle(Number(/^HTTP\/1\.[01] (\d{3})/.exec(line)?.[1] ?? 0))
    }
    socket.setTimeout(timeoutMs, () => finish(false))
    socket.on('error', () => finish(false))
    socket.on('close', () => finish(false))
    socket.on('data', (chunk) => {
      chunks.push(chunk)
      const end = endOf(chunks)
      if (end !== undefined) finish(end === 'open')
    })
    socket.write(exchange.request)
  })
}

/** Whether the response is complete, and then whether the connection stays open. */
function endOf(chunks: readonly Buffer[]): 'open' | 'closes' | undefined {
  const first = chunks[0] as Buffer
  const whole = chunks.length === 1 ? first : Buffer.concat(chunks.slice(0, 8))
  const headEnd = whole.indexOf('\r\n\r\n')
  if (headEnd < 0) return undefined
  const head = whole.toString('latin1', 0, headEnd).toLowerCase()
  const size = chunks.reduce((sum, { length }) => sum + length, 0)
  const length = /\r\ncontent-length: (\d+)/.exec(head)?.[1]
  const last = Buffer.concat(chunks.slice(-5)).toString('latin1').slice(-5)
  const isWhole = length === undefined ? last === '0\r\n\r\n' : size >= headEnd + 4 + Number(length)
  if (!isWhole) return undefined
  return head.includes('\r\nconnection: close') ? 'closes' : 'open'
}

async function askAll(count: number, withinMs: number): Promise<Served> {
  const endsAt = performance.now() + withinMs
  // Alone, because it may take seconds.
  let status = await ask()
  let begun = 1
  const client = async () => {
    while (begun < count && performance.now() < endsAt) {
      begun += 1
      status = await ask()
    }
  }
  await Promise.all(Array.from({ length: clients }, client))
  return { count: begun, status }
}

process.on('message', async (order: Order) => {
  if ('exchanges' in order) {
    port = order.port
    exchanges = order.exchanges
    // A connection on which a request was refused may be half read.
    for (const socket of idle.splice(0)) socket.destroy()
    report({ loaded: true })
  } else {
    report(await askAll(order.count, order.withinMs))
  }
})
process.on('disconnect', () => process.exit())

const server = http.createServer((request, response) => {
  request.resume().on('end', () => {
    const isProbe = request.headers['user-agent'] === 'tollgate'
    const [type, body] = isProbe
      ? ['application/json', '{"data":[]}']
      : [exchange.answerType, exchange.answer]
    response.writeHead(200, { 'content-type': type, 'content-length': body.length }).end(body)
  })
})
server.keepAliveTimeout = 0
server.listen(0, '127.0.0.1', () => {
  report({ url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` })
})
