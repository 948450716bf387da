import http from 'node:http'
import type { AddressInfo } from 'node:net'
import root from 'tap'

/** A request as received. */
export interface Received {
  readonly method: string
  readonly path: string
  readonly headers: http.IncomingHttpHeaders
  readonly body: string
}

/** An answer: its headers, and its body in pieces, each sent separately, and when the test yields it. */
export interface Script {
  readonly status?: number
  readonly headers?: http.OutgoingHttpHeaders
  readonly pieces: Iterable<string | Buffer> | AsyncIterable<string | Buffer>
  /** Whether the connection ends before the answer does. */
  readonly isCut?: boolean
}

/** A model server that answers every path and method with the current script. */
export interface ScriptedModel {
  readonly url: string
  /** What clients sent, without the service's own requests for the list of models. */
  readonly received: Received[]
  answer(script: Script): void
}

/** Starts one for a whole test file. */
export async function startScriptedModel(): Promise<ScriptedModel> {
  const received: Received[] = []
  let script: Script = { pieces: ['{}'] }
  const server = http.createServer(async (request, response) => {
    const chunks: Buffer[] = await request.toArray()
    const { method = '', url: path = '', headers } = request
    const body = Buffer.concat(chunks).toString()
    if (headers['user-agent'] !== 'tollgate') received.push({ method, path, headers, body })
    const { status = 200, pieces } = script
    response.sendDate = false
    response.writeHead(status, script.headers)
    response.flushHeaders()
    for await (const piece of pieces) {
      if (piece.length > 0) await new Promise((written) => response.write(piece, written))
    }
    if (script.isCut) response.destroy()
    else response.end()
  })
  server.keepAliveTimeout = 0
  await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening))
  root.teardown(() => {
    server.close()
    server.closeAllConnections()
  })
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    received,
    answer(next) {
      script = next
    },
  }
}
