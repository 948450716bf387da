/** Whether another controller is alive, by the Leases of its name in whatever namespace. */

import { setTimeout as delay } from 'node:timers/promises'
import type { KubeClient } from './client.ts'
import { keyOf, listObjects } from './list.ts'
import { type SeenLease, seeLease } from './seen-lease.ts'

export interface OthersLeaseOptions {
  readonly client: KubeClient
  readonly name: string
  /**
   * Told what was found at first, of each change, and when it is known again that none is renewed:
   * the Lease that is; undefined: none.
   */
  readonly onChange: (alive: AliveLease | undefined) => void
  /** Told when Leases cannot be read, with the reason, and once when they can be again. */
  readonly onProblem: (problem: string | undefined) => void
  readonly signal: AbortSignal
  /** Between two looks. */
  readonly everyMs?: number
  /** Milliseconds that never go back. */
  readonly monotonic?: () => number
}

export interface AliveLease {
  /** `<namespace>/<name>` */
  readonly lease: string
  readonly holder: string
}

export type OthersLease = ReturnType<typeof followOthersLease>

/** Looks until `signal`. */
export function followOthersLease(options: OthersLeaseOptions) {
  const { client, name, onChange, onProblem, signal } = options
  const { everyMs = 2_000, monotonic = () => performance.now() } = options
  const seen = new Map<string, SeenLease>()
  let staleUntil = Number.NEGATIVE_INFINITY
  let told: string | undefined
  let problem: string | undefined

  const isStale = (): boolean => monotonic() < staleUntil

  async function look(): Promise<void> {
    const asked = monotonic()
    const { objects } = await listObjects(client, '/apis/coordination.k8s.io/v1/leases', {
      selector: `&fieldSelector=metadata.name=${name}`,
      signal,
    })
    const answered = monotonic()
    for (const object of objects.values()) {
      const key = keyOf(object)
      seen.set(key, seeLease(object, seen.get(key), answered))
    }
    let alive: AliveLease | undefined
    for (const [key, { durationMs, since, holder }] of seen) {
      // One that is deleted is made again by whoever renews it, so it counts for as long as it would.
      if (asked - since < durationMs) alive ??= { lease: key, holder }
      else if (!objects.has(key)) seen.delete(key)
    }
    const wasStale = isStale()
    staleUntil = alive === undefined ? asked + 3 * everyMs : Number.NEGATIVE_INFINITY
    const state = JSON.stringify(alive ?? null)
    const isNews = state !== told || (alive === undefined && !wasStale)
    told = state
    if (isNews) onChange(alive)
  }

  function note(fresh: string | undefined): void {
    if (fresh !== problem) onProblem(fresh)
    problem = fresh
  }

  async function run(): Promise<void> {
    while (!signal.aborted) {
      try {
        await look()
        note(undefined)
      } catch (error) {
        if (signal.aborted) return
        note(error instanceof Error ? error.message : String(error))
      }
      await delay(everyMs, undefined, { signal }).catch(() => {})
    }
  }

  void run()
  return {
    /**
     * Whether none has been renewed for the whole of its duration while we looked, three looks ago at
     * most. False as long as that is not known.
     */
    get isStale(): boolean {
      return isStale()
    },
  }
}
