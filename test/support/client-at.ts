import { once } from 'node:events'
import { Agent, type IncomingMessage, request } from 'node:http'
import type { Gateway } from './gateway.ts'

interface Asked {
  /** The bearer credential. */
  readonly token?: string
  readonly method?: string
  readonly path?: string
  readonly forwardedFor?: string
}

/** Sends requests to a gateway from an address of this machine, over a few connections. */
export function clientAt(localAddress: string, { port }: Pick<Gateway, 'port'>) {
  const agent = new Agent({ keepAlive: true, maxSockets: 8 })
  const ask = async ({ token, method, path = '/v1/subscriptions', forwardedFor }: Asked) => {
    const headers = {
      ...(token !== undefined && { authorization: `Bearer ${token}` }),
      ...(forwardedFor !== undefined && { 'x-forwarded-for': forwardedFor }),
    }
    const at = { host: '127.0.0.1', port, localAddress, agent }
    const asked = request({ ...at, method, path, headers }).end()
    const [answer] = (await once(asked, 'response')) as [IncomingMessage]
    const text = (await answer.setEncoding('utf8').toArray()).join('')
    return { status: answer.statusCode, headers: answer.headers, text }
  }
  return { ask, close: () => agent.destroy() }
}
