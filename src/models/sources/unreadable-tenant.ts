/** A Tenant whose limits are unknown: while it is in force, no request is allowed. */

import { isDeepStrictEqual } from 'node:util'
import type { Resource, Tenant } from '../../kinds/resources.ts'
import { defaultTenant } from '../rules/compile.ts'

const path = ['spec', 'limits']
const unread = [{ path, message: 'cannot be read' }]
const ambiguous = [{ path, message: 'differ from those of a second document' }]

export const unreadableTenant: Tenant = { ...defaultTenant, unreadable: unread }

const limitsIn = ({ limits, calendar, unreadable }: Tenant) => [limits, calendar, unreadable]

/** Whether it is a Tenant with limits or a calendar, legible or not. */
export function isLimitedTenant(resource: Resource): boolean {
  return (
    resource.kind === 'Tenant' && !isDeepStrictEqual(limitsIn(resource), limitsIn(defaultTenant))
  )
}

/** The resources of a source of which a part was never read: unless there are limits of the Tenant, it may have them. */
export function withUnreadableTenant(resources: readonly Resource[]): readonly Resource[] {
  if (resources.some(isLimitedTenant)) return resources
  const tenant = resources.find(({ kind }) => kind === 'Tenant') as Tenant | undefined
  const others = resources.filter(({ kind }) => kind !== 'Tenant')
  return [...others, tenant === undefined ? unreadableTenant : { ...tenant, unreadable: unread }]
}

/**
 * The first of two resources with one key, as it is in force, or undefined if it stays unchanged. Which of two Tenants
 * is the first depends only on their files' names, so ignoring the second's limits could ignore the intended ones.
 */
export function resolveDuplicateTenant(first: Resource, second: Resource): Tenant | undefined {
  if (first.kind !== 'Tenant' || second.kind !== 'Tenant') return undefined
  if (!isLimitedTenant(second) || isDeepStrictEqual(limitsIn(first), limitsIn(second)))
    return undefined
  const { limits, calendar } = defaultTenant
  return { ...first, limits, calendar, unreadable: first.unreadable ?? ambiguous }
}

/** The end of a message about two resources with one key. */
export function duplicateOutcome(instead: Resource | undefined): string {
  return instead === undefined
    ? 'and that one counts'
    : 'with other limits or another calendar: while there are both, nobody may use any model'
}
