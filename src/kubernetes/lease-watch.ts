/** Detects whether another controller is alive, by the Leases with its name in any namespace. */

import { errorMessage } from '../runtime/error-message.ts'
import { repeat } from '../runtime/loop.ts'
import { createOutage } from '../runtime/outage.ts'
import { type LeaseOptions, type SeenLease, seeLease } from './lease.ts'
import { listObjects, objectKey } from './list.ts'

interface OthersLeaseOptions
  extends Pick<LeaseOptions, 'client' | 'name' | 'onProblem' | 'signal' | 'monotonic'> {
  /**
   * Called with the first result, at each change, and when it is certain again that no Lease is
   * renewed: with the renewed Lease, or with undefined if there is none.
   */
  readonly onChange: (alive: AliveLease | undefined) => void
  /** Between two reads. */
  readonly everyMs?: number
}

export interface AliveLease {
  /** `<namespace>/<name>` */
  readonly lease: string
  readonly holder: string
}

export type OthersLease = ReturnType<typeof followOthersLease>

/** Reads until `signal`. */
export function followOthersLease(options: OthersLeaseOptions) {
  const { client, name, onChange, onProblem, signal } = options
  const { everyMs = 2_000, monotonic = () => performance.now() } = options
  const seen = new Map<string, SeenLease>()
  let staleUntil = Number.NEGATIVE_INFINITY
  let reported: string | undefined
  const outage = createOutage(onProblem)

  const isStale = (): boolean => monotonic() < staleUntil

  async function poll(): Promise<void> {
    const asked = monotonic()
    const { objects } = await listObjects(client, '/apis/coordination.k8s.io/v1/leases', {
      selector: `&fieldSelector=metadata.name=${name}`,
      signal,
    })
    const respondedAt = monotonic()
    for (const object of objects.values()) {
      const key = objectKey(object)
      seen.set(key, seeLease(object, seen.get(key), respondedAt))
    }
    let alive: AliveLease | undefined
    for (const [key, { durationMs, since, holder }] of seen) {
      // A deleted Lease is recreated by its holder, so it counts for its whole duration.
      if (asked - since < durationMs) alive ??= { lease: key, holder }
      else if (!objects.has(key)) seen.delete(key)
    }
    const wasStale = isStale()
    staleUntil = alive === undefined ? asked + 3 * everyMs : Number.NEGATIVE_INFINITY
    const state = JSON.stringify(alive ?? null)
    const isNew = state !== reported || (alive === undefined && !wasStale)
    reported = state
    if (isNew) onChange(alive)
    outage.note(undefined)
  }

  // A different message is a different problem, and reported.
  const onFault = (error: unknown): void => outage.note(errorMessage(error), errorMessage(error))
  void repeat({ step: poll, restMs: everyMs, onFault, signal })
  return {
    /**
     * Whether no Lease was renewed for the whole of its duration while we were reading, within the
     * last three reads. False as long as that is unknown.
     */
    get isStale(): boolean {
      return isStale()
    },
  }
}
