/** Who administers: members of ADMIN_GROUPS, and whoever the cluster's roles allow to. */

import type { Caller } from '../core/caller.ts'
import type { AccessReview } from '../identity/kubernetes/access-review.ts'

/** Asked only where the answer matters: it may take a call to the cluster. */
export type IsAdmin = (caller: Caller) => boolean | Promise<boolean>

/** A caller is an administrator through any of these groups, or by the review where there is one. */
export function createIsAdmin(
  adminGroups: ReadonlySet<string>,
  review: AccessReview = () => false,
): IsAdmin {
  return (caller) => caller.groups.some((group) => adminGroups.has(group)) || review(caller)
}
