/** The claims of a verified identity token → user and groups. */

import { type JsonObject, valueAt } from '../../formats/fields.ts'
import type { Person } from '../rules/caller.ts'

export interface ClaimRules {
  /** `preferred_username` if undefined, or `sub` if that is missing. */
  readonly username: string | undefined
  /** If undefined, users have no groups. */
  readonly groups: string | undefined
  /** Prefix of each name. */
  readonly usernamePrefix: string
  readonly groupsPrefix: string
  /** Claims that must be present with exactly these values. */
  readonly required: readonly { readonly claim: string; readonly value: string }[]
}

/** Names that only the cluster may assign. */
const reserved = /^system:/
const maxNameLength = 1_024

/** The user, or why the token is refused, as the end of a sentence. */
export function readClaims(claims: JsonObject, rules: ClaimRules): Person | string {
  for (const { claim, value } of rules.required) {
    if (findClaim(claims, claim) !== value) return `does not have the required ${claim}`
  }
  const claim = rules.username ?? ('preferred_username' in claims ? 'preferred_username' : 'sub')
  const name = findClaim(claims, claim)
  if (!isName(name)) return `has no usable name in ${claim}`
  // As in kube-apiserver: an unverified address is no identity.
  if (claim === 'email' && (claims.email_verified ?? true) !== true) {
    return 'has an address that is not verified'
  }
  const user = rules.usernamePrefix + name
  if (reserved.test(user)) return 'has a name that begins with system:'

  const groups = rules.groups === undefined ? [] : readGroups(findClaim(claims, rules.groups))
  if (groups === undefined) return `has no list of groups in ${rules.groups}`
  return {
    user,
    groups: groups
      .map((group) => rules.groupsPrefix + group)
      .filter((group) => !reserved.test(group)),
  }
}

/**
 * As in kube-apiserver, one text is one group; null and blanks are none. Undefined if the claim does not contain
 * groups.
 */
function readGroups(raw: unknown): readonly string[] | undefined {
  const list: readonly unknown[] = Array.isArray(raw) ? raw : [raw ?? '']
  const named = list.filter((group) => typeof group !== 'string' || group.trim() !== '')
  return named.every(isName) ? named : undefined
}

/** By its whole name first (`https://example.com/groups`), then as a path (`realm_access.roles`). */
function findClaim(claims: JsonObject, name: string): unknown {
  return Object.hasOwn(claims, name) ? claims[name] : valueAt(claims, name.split('.'))
}

/** Text that the database can store byte for byte, and a log can show. */
function isName(value: unknown): value is string {
  return (
    typeof value === 'string' &&
    value !== '' &&
    value.length <= maxNameLength &&
    value.isWellFormed() &&
    !/\p{Cc}/u.test(value)
  )
}
