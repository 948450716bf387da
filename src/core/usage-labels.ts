/** Which labels the metrics of who used what have. Pure. */

import type { Subscription, WrittenTelemetry } from './resources.ts'

/** How users are named: as they are, by a hash, or not at all. */
export type UserNaming = 'on' | 'hash' | 'off'

export interface UsageLabels {
  /** Whether there are such metrics at all. */
  readonly enabled: boolean
  readonly user: UserNaming
  readonly model: boolean
  /** `organization_id` and `cost_center` of the subscription. */
  readonly organization: boolean
  /** The group of the caller's that owns the subscription. */
  readonly group: boolean
}

/** What the Tenant writes wins. A user that it wants captured is hashed where the setting says so. */
export function toUsageLabels(
  written: WrittenTelemetry | undefined,
  naming: UserNaming,
): UsageLabels {
  const captured = naming === 'off' ? 'on' : naming
  const user = written?.captureUser
  return {
    enabled: written?.enabled ?? true,
    user: user === undefined ? naming : user ? captured : 'off',
    model: written?.captureModelUsage ?? true,
    organization: written?.captureOrganization ?? false,
    group: written?.captureGroup ?? false,
  }
}

/** The first of the subscription's groups that the caller is in; empty: it is theirs by name. */
export function owningGroup({ owner }: Subscription, groups: readonly string[]): string {
  return owner.groups.find((group) => groups.includes(group)) ?? ''
}
