import { once } from 'node:events'
import type { Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Test } from 'tap'
import { createModelServer } from './model-server/server.ts'

/** The sample model server, in this process. */
export interface ModelServer {
  readonly url: string
  readonly server: Server
  /** What it has done, by its own tally. */
  tally(): Promise<Tally>
}

/** The tally from `/sim/requests`. */
export interface Tally {
  readonly requests: Readonly<Record<string, number>>
  /** Total tokens by the header `x-sim-label`. */
  readonly labels?: Readonly<Record<string, number>>
  /** Tokens that were sent, reported or not, by the same header. */
  readonly produced?: Readonly<Record<string, number>>
  readonly open: number
  readonly abandoned: number
  readonly completionTokens: number
  readonly totalTokens: number
}

/** Starts one on a free port or the given port; it is closed when `t` ends. */
export async function startModelServer(t: Test, port = 0): Promise<ModelServer> {
  const server = createModelServer().listen(port, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    server.close()
    server.closeAllConnections()
  })
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  return {
    url,
    server,
    tally: async () => (await (await fetch(`${url}/sim/requests`)).json()) as Tally,
  }
}
