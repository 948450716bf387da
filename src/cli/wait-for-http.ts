import { setTimeout as sleep } from 'node:timers/promises'
import { StartError } from './start-error.ts'

const POLL_MS = 50
const ANSWER_WITHIN_MS = 2_000

/** What to ask until it is answered. */
export interface WaitForHttpOptions {
  /** As a sentence names it. */
  readonly name: string
  readonly url: string
  readonly signal: AbortSignal
  readonly withinMs?: number
}

/** Settles once `url` answers 200. Rejects with a StartError when it does not in time, or on the signal. */
export async function waitForHttp(options: WaitForHttpOptions): Promise<void> {
  const { name, url, signal, withinMs = 60_000 } = options
  const deadline = Date.now() + withinMs
  let last = 'no answer'
  while (!signal.aborted && Date.now() < deadline) {
    try {
      const timeout = AbortSignal.timeout(ANSWER_WITHIN_MS)
      const response = await fetch(url, { signal: AbortSignal.any([signal, timeout]) })
      await response.arrayBuffer()
      if (response.status === 200) return
      last = `status ${response.status}`
    } catch {
      // Not listening yet, or gone: the deadline and whoever watches the process decide.
    }
    await sleep(POLL_MS)
  }
  throw new StartError(`${name} was not ready in ${withinMs / 1000} s (${url}: ${last}).`)
}
