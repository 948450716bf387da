import { setTimeout as delay } from 'node:timers/promises'

/** Calls `ask` until it returns something truthy; throws after `withinMs`. */
export async function poll<T>(
  ask: () => T | Promise<T>,
  what: string,
  withinMs = 10_000,
): Promise<T> {
  const giveUpAt = performance.now() + withinMs
  for (;;) {
    const answer = await ask()
    if (answer) return answer
    if (performance.now() > giveUpAt) throw new Error(`${what}: not within ${withinMs} ms`)
    await delay(20)
  }
}
