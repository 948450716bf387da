/** The labels of usage metrics. Pure. */

import type { WrittenTelemetry } from '../kinds/resources.ts'

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

/** The labels that the Tenant chooses. `captured` is how users are named that it captures. */
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
