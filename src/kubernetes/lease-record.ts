/**
 * A Lease as this process has seen it. It counts from when it was seen to change, because other
 * clocks are not trusted.
 */

import { isObject } from '../formats/fields.ts'

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
