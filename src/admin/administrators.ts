/** Administrators: members of ADMIN_GROUPS, and users whom the cluster's roles allow it. */

import type { Caller } from '../core/caller.ts'
import type { AccessReview } from '../identity/kubernetes/access-review.ts'

/** Called only if the result matters: it may need a request to the cluster. */
export type IsAdmin = (caller: Caller) => boolean | Promise<boolean>

/** A caller is an administrator through any of these groups, or by the review if there is one. */
export function createIsAdmin(
  adminGroups: ReadonlySet<string>,
  review: AccessReview = () => false,
): IsAdmin {
  return (caller) => caller.groups.some((group) => adminGroups.has(group)) || review(caller)
}
