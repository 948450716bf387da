/**
 * Drains Envoy before it is stopped. Tested with Envoy 1.40: `/healthcheck/fail` adds `connection:
 * close` to every HTTP/1 response, sends GOAWAY on HTTP/2, and keeps accepting; `/drain_listeners`
 * refuses new connections and does not affect existing ones.
 */

import { setTimeout as delay } from 'node:timers/promises'
import type { Address } from '../core/formats/address.ts'
import { askAdmin } from './admin-page.ts'

export interface DrainOptions {
  readonly admin: Address
  /**
   * How long new connections are still accepted, because load balancers may not have noticed yet;
   * milliseconds.
   */
  readonly minMs: number
  /** The longest wait for requests in progress; milliseconds. */
  readonly maxMs: number
  /** Called from time to time with the number of requests in progress. */
  readonly onRunning?: (requests: number) => void
  /** Aborts the wait; the promise then rejects. */
  readonly signal?: AbortSignal
}

export interface Drained {
  /** Requests still in progress at the end: 0, unless they took too long. */
  readonly requests: number
  readonly tookMs: number
}

const pollMs = 500
const silentMs = 15_000

/**
 * Resolves when no request is in progress and no connection can arrive any more, or after `maxMs`.
 * Rejects if there is no Envoy, or its admin page does not respond for 15 seconds.
 */
export async function drainEnvoy(options: DrainOptions): Promise<Drained> {
  const { admin, minMs, maxMs, onRunning, signal } = options
  const begunAt = performance.now()
  const tookMs = (): number => performance.now() - begunAt

  /** A busy Envoy may respond late; one that is gone or hangs never does. */
  async function ask(path: string, method: 'GET' | 'POST'): Promise<string> {
    const giveUpAt = Math.min(maxMs, tookMs() + silentMs)
    for (;;) {
      try {
        return await askAdmin(admin, path, method)
      } catch (error) {
        const { code = '' } = error as NodeJS.ErrnoException
        if (['ECONNREFUSED', 'ENOENT'].includes(code) || tookMs() >= giveUpAt) throw error
      }
      await delay(pollMs, undefined, { signal })
    }
  }

  await ask('/healthcheck/fail', 'POST')
  for (let isClosed = false; ; ) {
    if (!isClosed && tookMs() >= minMs) {
      await ask('/drain_listeners', 'POST')
      isClosed = true
    }
    const requests = readRunning(await ask(running, 'GET'))
    onRunning?.(requests)
    if ((isClosed && requests === 0) || tookMs() >= maxMs) return { requests, tookMs: tookMs() }
    const restMs = isClosed ? pollMs : Math.min(pollMs, Math.max(0, minMs - tookMs()))
    await delay(restMs, undefined, { signal })
  }
}

/** Whether an Envoy is running that is not drained. Rejects if none responds. */
export async function isServing(admin: Address): Promise<boolean> {
  return (await askAdmin(admin, '/ready')).startsWith('LIVE')
}

/** The statistic of the connection manager `gateway` in envoy/bootstrap.yaml. */
const running = `/stats?type=Gauges&format=json&filter=${encodeURIComponent('^http\\.gateway\\.downstream_rq_active$')}`

function readRunning(text: string): number {
  const { stats } = JSON.parse(text) as { stats: readonly { value?: number }[] }
  return stats[0]?.value ?? 0
}
