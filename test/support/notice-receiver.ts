import { createServer, type IncomingHttpHeaders } from 'node:http'
import { text } from 'node:stream/consumers'
import type { Test } from 'tap'

export const secret = `whsec_${Buffer.alloc(32, 7).toString('base64')}`

export interface Received {
  readonly headers: IncomingHttpHeaders
  readonly text: string
  readonly body: { readonly type: string; readonly data: Record<string, unknown> }
}

/** A receiver that answers with `state.status`. */
export async function startReceiver(t: Test) {
  const state = { status: 204, received: [] as Received[], location: '' }
  const server = createServer(async (request, response) => {
    const written = await text(request)
    state.received.push({ headers: request.headers, text: written, body: JSON.parse(written) })
    response.writeHead(state.status, state.location ? { location: state.location } : {}).end()
  })
  await new Promise<void>((settle) => server.listen(0, '127.0.0.1', settle))
  t.teardown(() => server.close())
  const address = server.address()
  const port = typeof address === 'object' ? address?.port : 0
  return Object.assign(state, { url: `http://127.0.0.1:${port}/` })
}
