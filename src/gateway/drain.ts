/**
 * Has Envoy take leave of its clients before it is ended. Tried on Envoy 1.40: `/healthcheck/fail`
 * puts `connection: close` on every answer of HTTP/1 and sends GOAWAY on HTTP/2, and goes on
 * accepting; `/drain_listeners` refuses new connections and says nothing on those that there are.
 */

import { setTimeout as delay } from 'node:timers/promises'
import { askAdmin } from './admin-page.ts'
import type { Address } from './bootstrap.ts'

export interface DrainOptions {
  readonly admin: Address
  /** Milliseconds for which new connections are accepted: whoever balances may not have heard yet. */
  readonly leastMs: number
  /** Milliseconds that requests are waited for. */
  readonly mostMs: number
  /** Told from time to time how many requests are running. */
  readonly onRunning?: (requests: number) => void
  /** Ends the waiting; the promise then rejects. */
  readonly signal?: AbortSignal
}

export interface Drained {
  /** Requests that were still running at the end: 0, unless they took too long. */
  readonly requests: number
  readonly tookMs: number
}

const lookEveryMs = 500
const silentMs = 15_000

/**
 * Settles when no request is running and no connection can come any more, or when that has taken
 * `mostMs`. Rejects when Envoy is not there, or its admin page says nothing for 15 seconds.
 */
export async function drainEnvoy(options: DrainOptions): Promise<Drained> {
  const { admin, leastMs, mostMs, onRunning, signal } = options
  const begunAt = performance.now()
  const tookMs = (): number => performance.now() - begunAt

  /** A busy Envoy may be slow to answer; one that is gone or hangs will not. */
  async function ask(path: string, method: 'GET' | 'POST'): Promise<string> {
    const giveUpAt = Math.min(mostMs, tookMs() + silentMs)
    for (;;) {
      try {
        return await askAdmin(admin, path, method)
      } catch (error) {
        const { code = '' } = error as NodeJS.ErrnoException
        if (['ECONNREFUSED', 'ENOENT'].includes(code) || tookMs() >= giveUpAt) throw error
      }
      await delay(lookEveryMs, undefined, { signal })
    }
  }

  await ask('/healthcheck/fail', 'POST')
  for (let isClosed = false; ; ) {
    if (!isClosed && tookMs() >= leastMs) {
      await ask('/drain_listeners', 'POST')
      isClosed = true
    }
    const requests = readRunning(await ask(running, 'GET'))
    onRunning?.(requests)
    if ((isClosed && requests === 0) || tookMs() >= mostMs) return { requests, tookMs: tookMs() }
    const restMs = isClosed ? lookEveryMs : Math.min(lookEveryMs, Math.max(0, leastMs - tookMs()))
    await delay(restMs, undefined, { signal })
  }
}

/** Whether an Envoy is there that nobody has drained. Rejects when none answers. */
export async function isServing(admin: Address): Promise<boolean> {
  return (await askAdmin(admin, '/ready')).startsWith('LIVE')
}

/** Of the connection manager `gateway` in envoy/bootstrap.yaml. */
const running = `/stats?type=Gauges&format=json&filter=${encodeURIComponent('^http\\.gateway\\.downstream_rq_active$')}`

function readRunning(text: string): number {
  const { stats } = JSON.parse(text) as { stats: readonly { value?: number }[] }
  return stats[0]?.value ?? 0
}
