/** A Lease as it was seen: it counts from when we saw it change, since other clocks are not believed. */

import { isObject } from '../core/fields.ts'

export interface SeenLease {
  readonly version: string
  /** Empty: nobody holds it. */
  readonly holder: string
  readonly durationMs: number
  /** When it was first seen as it is. */
  readonly since: number
}

/** What is known once this was read; `before` itself where nothing has changed. */
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
