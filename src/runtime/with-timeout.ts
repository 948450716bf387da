import { setTimeout as delay } from 'node:timers/promises'

/** Resolves when the work resolves or after `ms`; rejects if the work rejects before. */
export async function withTimeout(ms: number, work: Promise<unknown>): Promise<void> {
  const over = new AbortController()
  const late = delay(Math.max(0, ms), undefined, over).catch(() => {})
  await Promise.race([work, late]).finally(() => over.abort())
}
