/** The keys that are assumed for a person whose key is not named. */

import { selectForKey } from '../../decide/subscription-selection.ts'
import { ServiceError } from '../../formats/errors.ts'
import type { TokenCaller } from '../../identity/rules/caller.ts'
import type { ApiKeyRecord } from '../../keys/rules/api-key.ts'
import type { ApiKeyStore } from '../../keys/store.ts'
import type { Snapshot } from '../../models/rules/snapshot.ts'

/** Maximum number of a person's keys that are considered. */
const maxKeys = 20

/**
 * The user's keys that are active at `now` and not ephemeral, of the subscription with this bare name,
 * if one is given; newest first, at most `maxKeys`.
 */
export function newestKeys(
  keys: Pick<ApiKeyStore, 'search'>,
  user: string,
  subscription: string | undefined,
  now: number,
): Promise<readonly ApiKeyRecord[]> {
  const any = { only: undefined, subscription, prefix: undefined, labels: {} }
  const newest = { sortBy: 'created_at', descending: true, limit: maxKeys, offset: 0 } as const
  const statuses = new Set(['active'] as const)
  return keys.search({
    ...any,
    ...newest,
    owner: user,
    statuses,
    includeEphemeral: false,
    now,
  })
}

/** The subscription that a new key of the person would be bound to, or undefined if there is none. */
export function subscriptionOfNewKey(person: TokenCaller, snapshot: Snapshot): string | undefined {
  try {
    return selectForKey(snapshot, person, undefined).name
  } catch (error) {
    if (error instanceof ServiceError) return undefined
    throw error
  }
}
