/** Sends notices according to Standard Webhooks: signed, and repeated until the receiver responds with 2xx. */

import { createHmac } from 'node:crypto'
import { errorMessage } from '../../runtime/error-message.ts'
import { restAfter } from '../../runtime/loop.ts'
import type { NoticeStore } from './postgres-notices.ts'
import type { DueNotice } from './store.ts'

interface SendOptions {
  readonly url: string
  readonly secret: Buffer
  readonly store: Pick<NoticeStore, 'take' | 'finish' | 'postpone'>
  /** Milliseconds since the epoch. */
  readonly clock: () => number
  readonly onFailed: (notice: DueNotice, problem: string, isLast: boolean) => void
  /** Ends sending: another process sends the rest, at the latest when the lease of a notice ends. */
  readonly signal?: AbortSignal
}

const timeoutMs = 5_000
/** While a process sends a notice, no other does; longer than the timeout. */
const leaseMs = 10_000
const atOnce = 10
const backoff = { firstMs: 1_000, maxMs: 3_600_000 }
/** After this time a notice is abandoned. */
const maxAgeMs = 24 * 3_600_000

/** Sends due notices; resolves when none are left. Concurrent processes share the work. */
export function createNoticeSender(options: SendOptions): () => Promise<void> {
  const { url, secret, store, clock, onFailed, signal = new AbortController().signal } = options

  async function send(notice: DueNotice): Promise<void> {
    const problem = await post(notice)
    if (problem === undefined) return await store.finish(notice.id)
    if (signal.aborted) return
    const isLast = notice.ageMs > maxAgeMs
    onFailed(notice, problem, isLast)
    const { id, attempt } = notice
    await (isLast ? store.finish(id) : store.postpone(id, restAfter(attempt, backoff)))
  }

  /** Returns the problem, or undefined if the notice was delivered. */
  async function post({ id, body }: DueNotice): Promise<string | undefined> {
    const timestamp = String(Math.floor(clock() / 1_000))
    const signed = createHmac('sha256', secret).update(`${id}.${timestamp}.${body}`)
    try {
      const response = await fetch(url, {
        method: 'POST',
        headers: {
          'content-type': 'application/json',
          'webhook-id': id,
          'webhook-timestamp': timestamp,
          'webhook-signature': `v1,${signed.digest('base64')}`,
        },
        body,
        // Only the configured receiver gets the notice.
        redirect: 'manual',
        signal: AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)]),
      })
      await response.body?.cancel()
      return response.ok ? undefined : `it answered ${response.status}`
    } catch (error) {
      return errorMessage(error instanceof Error ? (error.cause ?? error) : error)
    }
  }

  return async function sendDue() {
    for (let due = await store.take(atOnce, leaseMs); due.length > 0; ) {
      await Promise.all(due.map(send))
      if (signal.aborted) return
      due = await store.take(atOnce, leaseMs)
    }
  }
}
