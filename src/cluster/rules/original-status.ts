/**
 * The statuses of the original's kinds: ours, converted to the fields of its definitions (contract,
 * 7.2).
 */

import type { ObjectStatus } from './object-status.ts'

const fields: ReadonlySet<string> = new Set([
  ...['phase', 'conditions'],
  ...['endpoint', 'httpRouteName', 'httpRouteNamespace', 'httpRouteHostnames'],
  ...['httpRouteGatewayName', 'httpRouteGatewayNamespace'],
  ...['authPolicies', 'modelRefStatuses', 'tokenRateLimitStatuses'],
])

/** The whole status of an object of the original, without undefined fields. */
export function toOriginalStatus(status: ObjectStatus): Readonly<Record<string, unknown>> {
  return Object.fromEntries(
    Object.entries(status).filter(([field, value]) => fields.has(field) && value !== undefined),
  )
}
