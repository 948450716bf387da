import { setTimeout as delay } from 'node:timers/promises'
import { StartError } from '../runtime/start-error.ts'

const pollMs = 50
const withinMs = 60_000
const answerWithinMs = 2_000

/**
 * Resolves when `url` returns 200. Rejects with a StartError after the timeout, or on the signal.
 */
export async function waitForHttp(name: string, url: string, signal: AbortSignal): Promise<void> {
  const deadline = Date.now() + withinMs
  let last = 'no answer'
  while (!signal.aborted && Date.now() < deadline) {
    try {
      const timeout = AbortSignal.timeout(answerWithinMs)
      const response = await fetch(url, { signal: AbortSignal.any([signal, timeout]) })
      await response.arrayBuffer()
      if (response.status === 200) return
      last = `status ${response.status}`
    } catch {
      // Not listening yet, or gone: the timeout and the process's supervisor decide.
    }
    await delay(pollMs)
  }
  throw new StartError(`${name} was not ready in ${withinMs / 1_000} s (${url}: ${last}).`)
}
