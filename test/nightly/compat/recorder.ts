/** A proxy between Envoy and a model server, which records the usage that the server reports. */

import { once } from 'node:events'
import http, { type IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Test } from 'tap'

export interface Recorder {
  readonly url: string
  /** Tokens of all completed responses, as reported by the server. */
  readonly said: () => number
  /** Responses with usage, and 2xx responses without. */
  readonly counts: { with: number; without: number }
  readonly headers: () => http.IncomingHttpHeaders
}

type Json = Record<string, unknown>

/** Starts a proxy for `target`; it is closed when `t` ends. */
export async function startRecorder(t: Test, target: string): Promise<Recorder> {
  const counts = { with: 0, without: 0 }
  let said = 0
  let last: http.IncomingHttpHeaders = {}
  const server = http.createServer((request, response) => {
    last = request.headers
    const { method = 'GET', url = '/', headers } = request
    const onward = http.request(target + url, { method, headers, agent: false }, (answer) => {
      response.writeHead(answer.statusCode ?? 502, answer.headers)
      const chunks: Buffer[] = []
      answer.on('data', (chunk: Buffer) => chunks.push(chunk))
      answer.on('end', () => {
        if (method !== 'POST' || answer.statusCode !== 200) return
        const tokens = tokensIn(answer, Buffer.concat(chunks).toString())
        if (tokens === undefined) counts.without += 1
        else counts.with += 1
        said += tokens ?? 0
      })
      answer.pipe(response)
    })
    onward.on('error', () => response.destroy())
    request.pipe(onward)
  })
  server.keepAliveTimeout = 0
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    server.close()
    server.closeAllConnections()
  })
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  return { url, said: () => said, counts, headers: () => last }
}

/** For a stream, the last value of each figure. */
function tokensIn({ headers }: IncomingMessage, text: string): number | undefined {
  const isStream = headers['content-type']?.startsWith('text/event-stream')
  const texts = isStream ? [...text.matchAll(/^data: (\{.*)$/gm)].map(([, data]) => data) : [text]
  const usage: Json = {}
  for (const each of texts) {
    const payload = JSON.parse(each ?? '') as Json
    for (const place of [payload, payload.response, payload.message] as (Json | undefined)[]) {
      Object.assign(usage, place?.usage)
    }
  }
  const figures = ['input_tokens', 'output_tokens', 'cache_creation_input_tokens']
  const sum = [...figures, 'cache_read_input_tokens'].map((name) => Number(usage[name] ?? 0))
  if (typeof usage.total_tokens === 'number') return usage.total_tokens
  return 'output_tokens' in usage ? sum.reduce((a, b) => a + b) : undefined
}
