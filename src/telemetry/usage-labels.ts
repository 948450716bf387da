/** The labels of usage metrics. Pure. */

import type { WrittenTelemetry } from '../kinds/resources.ts'

/** How users are named: in clear, by a hash, or not at all. */
export type UserNaming = 'on' | 'hash' | 'off'

/** The labels that the Tenant chooses. `captured` is how users are named that it captures. */
export function toUsageLabels(
  raw: WrittenTelemetry | undefined,
  captured: Exclude<UserNaming, 'off'>,
) {
  return {
    /** Whether these metrics exist. */
    enabled: raw?.enabled ?? true,
    user: (raw?.captureUser ?? true) ? captured : ('off' as const),
    model: raw?.captureModelUsage ?? true,
    /** `organization_id` and `cost_center` of the subscription. */
    organization: raw?.captureOrganization ?? false,
    /** The caller's group that owns the subscription. */
    group: raw?.captureGroup ?? false,
  }
}
