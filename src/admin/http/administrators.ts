/** Administrators: members of ADMIN_GROUPS, and users who are administrators by the cluster's roles. */

import type { AccessReview } from '../../identity/kubernetes/access-review.ts'
import type { Caller, Person, TokenCaller } from '../../identity/rules/caller.ts'

/** Called only if the result matters: it may need a request to the cluster. */
export type IsAdmin = (caller: Caller) => boolean | Promise<boolean>

/**
 * A caller with an identity token is an administrator through any of these groups, or by the review
 * if there is one. A key never is: it outlives its owner's groups and roles (contract, 3.14).
 */
export function createIsAdmin(
  adminGroups: ReadonlySet<string>,
  review: AccessReview = () => false,
): IsAdmin {
  return (caller) => {
    if (caller.by === 'key') return false
    if (caller.groups.some((group) => adminGroups.has(group))) return true
    const person = inCluster(caller)
    return person !== undefined && review(person)
  }
}

/**
 * The caller by the names that the cluster uses, or undefined if its name may be another user's there.
 * Only the cluster itself, or a prefix, distinguishes a provider's names from the cluster's.
 */
function inCluster({ user, groups, proof }: TokenCaller): Person | undefined {
  if (proof.by === 'cluster') return { user, groups }
  if (proof.by !== 'oidc' || !proof.prefixesUsers) return undefined
  return { user, groups: proof.prefixesGroups ? groups : [] }
}
