/** Who administers: members of ADMIN_GROUPS. */

import type { Caller } from '../core/caller.ts'

export type IsAdmin = (caller: Caller) => boolean

/** A caller is an administrator through any of these groups. */
export function createIsAdmin(adminGroups: ReadonlySet<string>): IsAdmin {
  return ({ groups }) => groups.some((group) => adminGroups.has(group))
}
