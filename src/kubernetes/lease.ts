/**
 * Elects one of several processes by a Lease of coordination.k8s.io/v1. The holder renews it, and
 * another process takes it when it has not been renewed for its whole duration. Other machines'
 * clocks are not trusted: a Lease counts from when this process saw it change.
 */

import { isObject, type JsonObject } from '../formats/fields.ts'
import { errorMessage } from '../runtime/error-message.ts'
import { repeat } from '../runtime/loop.ts'
import { createOutage } from '../runtime/outage.ts'
import { isRefusal, type KubeClient, KubeError } from './client.ts'

export interface LeaseOptions {
  readonly client: KubeClient
  readonly namespace: string
  readonly name: string
  /** Unique to this process. */
  readonly identity: string
  /** Called for each change: whether this process holds it. */
  readonly onChange: (isHeld: boolean) => void
  /** Called when the Lease can be neither read nor written, with the reason, and once when it can be again. */
  readonly onProblem: (problem: string | undefined) => void
  readonly signal: AbortSignal
  readonly durationMs?: number
  readonly renewMs?: number
  /** Milliseconds since the epoch, for readers of the Lease. */
  readonly clock?: () => number
  /** A monotonic clock in milliseconds. */
  readonly monotonic?: () => number
}

/** Follows the Lease until `signal`. */
export function followLease(options: LeaseOptions) {
  const { client, namespace, name, identity, signal, onChange, onProblem } = options
  const { durationMs = 15_000, renewMs = 5_000 } = options
  const { clock = Date.now, monotonic = () => performance.now() } = options
  const collection = `/apis/coordination.k8s.io/v1/namespaces/${namespace}/leases`
  const path = `${collection}/${name}`
  let seen: SeenLease | undefined
  let heldUntil = Number.NEGATIVE_INFINITY
  let reported = false
  const outage = createOutage(onProblem)

  const isHeld = (): boolean => monotonic() < heldUntil

  function report(): void {
    if (isHeld() === reported) return
    reported = isHeld()
    onChange(reported)
  }

  function bodyOf(lease: JsonObject | undefined, holder: string): JsonObject {
    const now = new Date(clock()).toISOString().replace('Z', '000Z')
    const before = lease && isObject(lease.spec) ? lease.spec : {}
    const isNew = before.holderIdentity !== holder
    const transitions = Number(before.leaseTransitions ?? 0)
    return {
      apiVersion: 'coordination.k8s.io/v1',
      kind: 'Lease',
      metadata: lease?.metadata ?? { name, namespace },
      spec: {
        holderIdentity: holder,
        leaseDurationSeconds: Math.ceil(durationMs / 1_000),
        acquireTime: isNew ? now : before.acquireTime,
        renewTime: now,
        leaseTransitions: transitions + (isNew && lease !== undefined ? 1 : 0),
      },
    }
  }

  /** Reads the Lease, and takes or renews it if this process may. */
  async function step(): Promise<void> {
    const lease = await client.send({ path, signal }).catch((error: unknown) => {
      if (error instanceof KubeError && error.status === 404) return undefined
      throw error
    })
    note(lease)
    const isFree =
      seen === undefined ||
      seen.holder === '' ||
      seen.holder === identity ||
      monotonic() - seen.since >= seen.durationMs
    if (!isFree) {
      heldUntil = Number.NEGATIVE_INFINITY
      return
    }
    // Measured before it is written, so that we never hold it longer than others think.
    const from = monotonic()
    const body = bodyOf(lease, identity)
    const written =
      lease === undefined
        ? await client.send({ method: 'POST', path: collection, body, signal })
        : await client.send({ method: 'PUT', path, body, signal })
    note(written)
    heldUntil = from + durationMs - renewMs
  }

  function note(lease: JsonObject | undefined): void {
    seen = lease && seeLease(lease, seen, monotonic())
  }

  void repeat({
    async step() {
      // The Lease may have been lost since the last step.
      report()
      await step()
      outage.note(undefined)
      report()
    },
    onFault(error) {
      const isRace = error instanceof KubeError && error.status === 409
      if (!isRace) outage.note(errorMessage(error), isRefusal(error) ? 'refused' : undefined)
      report()
    },
    restMs: () => (isHeld() ? renewMs : renewMs / 2),
    signal,
  })
  return {
    /** False as soon as another process may have taken it, even after a long pause of this process. */
    get isHeld(): boolean {
      return isHeld()
    },
    /** Releases it, so that the next process need not wait. Resolves after the attempt. */
    async release(): Promise<void> {
      if (!isHeld()) return
      heldUntil = Number.NEGATIVE_INFINITY
      try {
        const lease = await client.send({ path })
        const spec = isObject(lease.spec) ? lease.spec : {}
        if (spec.holderIdentity !== identity) return
        const body = { ...lease, spec: { ...spec, holderIdentity: '', leaseDurationSeconds: 1 } }
        await client.send({ method: 'PUT', path, body })
      } catch {
        // The next process waits for its duration.
      }
    },
  }
}

/** A Lease as this process has seen it. It counts from when it was seen to change, because other clocks are not trusted. */
export interface SeenLease {
  readonly version: string
  /** Empty: it has no holder. */
  readonly holder: string
  readonly durationMs: number
  /** When this state was first seen. */
  readonly since: number
}

/** The state after this read; `before` itself if nothing has changed. */
export function seeLease(
  lease: Readonly<Record<string, unknown>>,
  before: SeenLease | undefined,
  now: number,
): SeenLease {
  const metadata = isObject(lease.metadata) ? lease.metadata : {}
  const spec = isObject(lease.spec) ? lease.spec : {}
  const version = `${metadata.uid}/${metadata.resourceVersion}`
  if (before?.version === version) return before
  const seconds = Number(spec.leaseDurationSeconds ?? 15)
  return {
    version,
    holder: String(spec.holderIdentity ?? ''),
    durationMs: 1_000 * (seconds >= 0 ? seconds : 15),
    since: now,
  }
}
