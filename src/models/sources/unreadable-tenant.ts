/** A Tenant whose limits nobody knows: while it is in force, nobody may use any model. */

import { isDeepStrictEqual } from 'node:util'
import type { Resource, Tenant } from '../../kinds/resources.ts'
import { defaultTenant } from '../rules/compile.ts'

const path = ['spec', 'limits']
const unread = [{ path, message: 'cannot be read' }]
const ambiguous = [{ path, message: 'are others in a second document' }]

export const unreadableTenant: Tenant = { ...defaultTenant, unreadable: unread }

/**
 * What is in force of the first of two resources of one key; undefined: it is as it stands. Which of two Tenants is the
 * first says only the name of its file, and limits of the second would be limits of nobody.
 */
export function besideSecond(first: Resource, second: Resource): Tenant | undefined {
  if (first.kind !== 'Tenant' || second.kind !== 'Tenant') return undefined
  const limitsIn = ({ limits, calendar, unreadable }: Tenant) => [limits, calendar, unreadable]
  const isWithout = isDeepStrictEqual(limitsIn(second), limitsIn(defaultTenant))
  if (isWithout || isDeepStrictEqual(limitsIn(first), limitsIn(second))) return undefined
  const { limits, calendar } = defaultTenant
  return { ...first, limits, calendar, unreadable: first.unreadable ?? ambiguous }
}

/** Of two resources of one key. */
export function whichCounts(instead: Resource | undefined): string {
  return instead === undefined
    ? 'and that one counts'
    : 'with other limits or another calendar: while there are both, nobody may use any model'
}
