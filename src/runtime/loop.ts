/** Work that is repeated until a signal, with rests that may be cut short. */

export type RestTimer = ReturnType<typeof createRestTimer>

/** Rests of one loop. They do not keep the process alive. */
export function createRestTimer(signal: AbortSignal) {
  let isRung = false
  let end = (): void => {}
  signal.addEventListener('abort', () => end(), { once: true })

  async function pause(ms: number | undefined): Promise<void> {
    if (signal.aborted) return
    let timer: NodeJS.Timeout | undefined
    await new Promise<void>((settle) => {
      end = settle
      if (ms !== undefined) timer = setTimeout(settle, ms).unref()
    })
    clearTimeout(timer)
  }

  return {
    /** Ends the current rest, or the next one if none is in progress. */
    ring(): void {
      isRung = true
      end()
    },
    /**
     * Resolves after `ms` (never by itself if undefined), when the alarm rings, or on the signal. After a ring it takes
     * `settleMs` more, in which further rings count as the same.
     */
    async rest(ms: number | undefined, settleMs = 0): Promise<void> {
      if (!isRung) await pause(ms)
      if (isRung && settleMs > 0) {
        const until = performance.now() + settleMs
        for (let left = settleMs; left > 0 && !signal.aborted; left = until - performance.now()) {
          await pause(left)
        }
      }
      isRung = false
    },
  }
}

/** Rests between attempts that fail, in milliseconds. */
interface Backoff {
  /** After the first failure. */
  readonly firstMs: number
  /** Maximum. */
  readonly maxMs: number
  /** Factor from each rest to the next; 2 by default. */
  readonly growth?: number
  /** Fraction by which a rest is longer or shorter at random; 0 by default. */
  readonly jitter?: number
}

/** Milliseconds to rest after this many failures in a row, from 1. */
export function restAfter(failures: number, backoff: Backoff): number {
  const { firstMs, maxMs, growth = 2, jitter = 0 } = backoff
  return (
    Math.min(maxMs, firstMs * growth ** (failures - 1)) * (1 + jitter * (2 * Math.random() - 1))
  )
}

interface Repetition {
  readonly step: () => Promise<void>
  /**
   * Milliseconds between two steps, or a function of the number of consecutive failures; until the alarm rings if
   * undefined.
   */
  readonly restMs: number | ((failures: number) => number | undefined)
  /** Called with the error of a step; the next one follows after the rest. */
  readonly onFault: (error: unknown) => void
  readonly signal: AbortSignal
  /** Cuts rests short. */
  readonly alarm?: RestTimer
  /** Milliseconds after a ring in which others count as the same. */
  readonly settleMs?: number
  /** Whether a rest comes before the first step. */
  readonly restsFirst?: boolean
}

/** Resolves when the signal has aborted and the last step has ended; rejects only if `onFault` throws. */
export async function repeat(repetition: Repetition): Promise<void> {
  const { step, restMs, onFault, signal, settleMs } = repetition
  const { alarm = createRestTimer(signal) } = repetition
  let failures = 0
  const rest = () => alarm.rest(typeof restMs === 'number' ? restMs : restMs(failures), settleMs)
  if (repetition.restsFirst) await rest()
  while (!signal.aborted) {
    try {
      await step()
      failures = 0
    } catch (error) {
      failures += 1
      if (!signal.aborted) onFault(error)
    }
    await rest()
  }
}
