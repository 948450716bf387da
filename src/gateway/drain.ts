/**
 * Drains Envoy before it is stopped. Tested with Envoy 1.40: `/healthcheck/fail` adds `connection:
 * close` to every HTTP/1 response, sends GOAWAY on HTTP/2, and keeps accepting; `/drain_listeners`
 * refuses new connections and does not affect existing ones.
 */

import { setTimeout as delay } from 'node:timers/promises'
import type { Address } from '../formats/address.ts'
import { requestAdmin } from './admin-page.ts'

interface DrainOptions {
  readonly admin: Address
  /** How long new connections are still accepted, because load balancers may not have noticed yet; milliseconds. */
  readonly minMs: number
  /** The longest wait for requests in progress; milliseconds. */
  readonly maxMs: number
  /** Called from time to time with the number of requests in progress. */
  readonly onRunning?: (requests: number) => void
  /** Aborts the wait; the promise then rejects. */
  readonly signal?: AbortSignal
}

const pollMs = 500
const silentMs = 15_000
/**
 * A connection that was in use may bring one more request, which would be lost with Envoy; its
 * response ends the connection. One without a request for this long is given up.
 */
const quietMs = 5_000

/**
 * Resolves when no request is in progress, the listeners are closed, and open connections have brought no request for
 * five seconds; or after `maxMs`. Returns the requests that are still in progress, 0 unless they took too long, and the
 * open connections. Rejects if there is no Envoy, or its admin page does not respond for 15 seconds.
 */
export async function drainEnvoy(options: DrainOptions) {
  const { admin, minMs, maxMs, onRunning, signal } = options
  const begunAt = performance.now()
  const tookMs = (): number => performance.now() - begunAt

  /** A busy Envoy may respond late; one that is gone or hangs never does. */
  async function ask(path: string, method: 'GET' | 'POST'): Promise<string> {
    const giveUpAt = Math.min(maxMs, tookMs() + silentMs)
    for (;;) {
      try {
        return await requestAdmin(admin, path, method)
      } catch (error) {
        const { code = '' } = error as NodeJS.ErrnoException
        if (['ECONNREFUSED', 'ENOENT'].includes(code) || tookMs() >= giveUpAt) throw error
      }
      await delay(pollMs, undefined, { signal })
    }
  }

  await ask('/healthcheck/fail', 'POST')
  let isClosed = false
  let last = -1
  let quietFromMs = 0
  for (;;) {
    if (!isClosed && tookMs() >= minMs) {
      await ask('/drain_listeners', 'POST')
      isClosed = true
      quietFromMs = tookMs()
    }
    const { requests, connections, total } = readUse(await ask(use, 'GET'))
    onRunning?.(requests)
    if (requests > 0 || total !== last) quietFromMs = tookMs()
    last = total
    const isQuiet = connections === 0 || tookMs() - quietFromMs >= quietMs
    if ((isClosed && requests === 0 && isQuiet) || tookMs() >= maxMs) {
      return { requests, connections, tookMs: tookMs() }
    }
    const restMs = isClosed ? pollMs : Math.min(pollMs, Math.max(0, minMs - tookMs()))
    await delay(restMs, undefined, { signal })
  }
}

/** Whether an Envoy is running that is not drained. Rejects if none responds. */
export async function isServing(admin: Address): Promise<boolean> {
  return (await requestAdmin(admin, '/ready')).startsWith('LIVE')
}

/** Statistics of the connection manager `gateway` in envoy/bootstrap.yaml. */
const filter = '^http\\.gateway\\.downstream_(rq_active|cx_active|rq_total)$'
const use = `/stats?format=json&filter=${encodeURIComponent(filter)}`

function readUse(text: string) {
  const { stats } = JSON.parse(text) as { stats: readonly { name?: string; value?: number }[] }
  const read = (name: string): number =>
    stats.find((each) => each.name === `http.gateway.downstream_${name}`)?.value ?? 0
  return { requests: read('rq_active'), connections: read('cx_active'), total: read('rq_total') }
}
