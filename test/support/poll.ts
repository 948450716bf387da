import { setTimeout as delay } from 'node:timers/promises'

/** The interval in milliseconds: at first, and at most. It grows, since polling costs others processor time. */
const [minDelay, maxDelay] = [20, 100]

/** Calls `ask` until it returns something truthy; throws after `withinMs`. */
export async function poll<T>(
  ask: () => T | Promise<T>,
  what: string,
  withinMs = 10_000,
): Promise<T> {
  const begunAt = performance.now()
  for (;;) {
    const answer = await ask()
    if (answer) return answer
    const tookMs = performance.now() - begunAt
    if (tookMs > withinMs) throw new Error(`${what}: not within ${withinMs} ms`)
    await delay(Math.min(maxDelay, minDelay + tookMs / 20))
  }
}
