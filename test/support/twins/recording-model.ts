import type { IncomingMessage } from 'node:http'
import type { Test } from 'tap'
import { startModelServer } from '../model-server.ts'

/** A request as the model server received it. */
export interface Recorded {
  readonly method: string
  readonly path: string
  /** Names in lower case and values, in the order of their arrival. */
  readonly headers: readonly (readonly [name: string, value: string])[]
  readonly body: Buffer
}

/** The sample model server, with a record of what it receives. */
export interface RecordingModel {
  readonly url: string
  /** What it has received since the last call, without the service's own requests. */
  take(): readonly Recorded[]
}

/** Starts one on a free port; it is closed when `t` ends. */
export async function startRecordingModel(t: Test): Promise<RecordingModel> {
  const { url, server } = await startModelServer(t)
  let recorded: Recorded[] = []
  // Before the server's own listener: it sees each chunk as the server reads it.
  server.prependListener('request', (request: IncomingMessage) => {
    const { method = '', url: path = '', rawHeaders, headers } = request
    if (headers['user-agent'] === 'tollgate' || path.startsWith('/sim/')) return
    const pieces: Buffer[] = []
    const own: Recorded = {
      ...{ method, path, headers: pairsOf(rawHeaders) },
      get body() {
        return Buffer.concat(pieces)
      },
    }
    recorded.push(own)
    const push = request.push.bind(request)
    request.push = (piece: Buffer | null, ...rest) => {
      if (piece !== null) pieces.push(Buffer.from(piece))
      return push(piece, ...rest)
    }
  })
  return {
    url,
    take() {
      const taken = recorded
      recorded = []
      return taken
    },
  }
}

/** Pairs of a list of names and values, as Node has them. */
export function pairsOf(rawHeaders: readonly string[]): readonly (readonly [string, string])[] {
  const pairs: [string, string][] = []
  for (let i = 0; i + 1 < rawHeaders.length; i += 2) {
    pairs.push([(rawHeaders[i] as string).toLowerCase(), rawHeaders[i + 1] as string])
  }
  return pairs
}
