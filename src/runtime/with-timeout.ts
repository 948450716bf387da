import { setTimeout as delay } from 'node:timers/promises'

/** Resolves when the work resolves or after `ms`; rejects if the work rejects before. */
export async function withTimeout(ms: number, work: Promise<unknown>): Promise<void> {
  const over = new AbortController()
  const late = delay(Math.max(0, ms), undefined, over).catch(() => {})
  await Promise.race([work, late]).finally(() => over.abort())
}

/** As the work, and calls `onLate` if it takes longer than `ms`, as on a disk that hangs. */
export function noteIfLate<T>(ms: number, work: Promise<T>, onLate: (error: Error) => void) {
  const late = setTimeout(onLate, ms, new Error('the disk does not respond')).unref()
  return work.finally(() => clearTimeout(late))
}
