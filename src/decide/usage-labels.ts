/** The labels of usage metrics. Pure. */

import type { Subscription, WrittenTelemetry } from '../kinds/resources.ts'
import { poolOfGroup } from '../models/rules/shared-limits.ts'

/** How users are named: in clear, by a hash, or not at all. */
export type UserNaming = 'on' | 'hash' | 'off'

export interface UsageLabels {
  /** Whether these metrics exist. */
  readonly enabled: boolean
  readonly user: UserNaming
  readonly model: boolean
  /** `organization_id` and `cost_center` of the subscription. */
  readonly organization: boolean
  /** The caller's group that owns the subscription. */
  readonly group: boolean
}

/** As the Tenant says. A user that it captures is named in this way. */
export function toUsageLabels(
  raw: WrittenTelemetry | undefined,
  captured: Exclude<UserNaming, 'off'>,
): UsageLabels {
  return {
    enabled: raw?.enabled ?? true,
    user: (raw?.captureUser ?? true) ? captured : 'off',
    model: raw?.captureModelUsage ?? true,
    organization: raw?.captureOrganization ?? false,
    group: raw?.captureGroup ?? false,
  }
}

/**
 * The first of the subscription's groups that the caller is in; empty if the user owns it by name.
 */
export function owningGroup({ owner }: Subscription, groups: readonly string[]): string {
  return owner.groups.find((group) => groups.includes(group)) ?? ''
}

/** The group whose pool the caller draws on, as lines name it; empty: that of the users whom the Subscription names. */
export function poolOf(subscription: Subscription, groups: readonly string[]): string {
  return poolOfGroup(owningGroup(subscription, groups))
}
