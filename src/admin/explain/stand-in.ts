/** With what somebody would ask whose key is not named. */

import { selectForKey } from '../../decide/selection.ts'
import { ServiceError } from '../../formats/errors.ts'
import type { TokenCaller } from '../../identity/rules/caller.ts'
import type { ApiKeyRecord } from '../../keys/rules/api-key.ts'
import type { ApiKeyStore } from '../../keys/store.ts'
import type { Snapshot } from '../../models/rules/snapshot.ts'

/**
 * The newest active key of the user that is not ephemeral, at `now`, and of the subscription with this bare
 * name, if one is given; undefined: there is none.
 */
export async function newestKey(
  keys: Pick<ApiKeyStore, 'search'>,
  user: string,
  subscription: string | undefined,
  now: number,
): Promise<ApiKeyRecord | undefined> {
  const any = { only: undefined, subscription, prefix: undefined, labels: {} }
  const newest = { sortBy: 'created_at', descending: true, limit: 1, offset: 0 } as const
  const statuses = new Set(['active'] as const)
  const [found] = await keys.search({
    ...any,
    ...newest,
    owner: user,
    statuses,
    includeEphemeral: false,
    now,
  })
  return found
}

/** The subscription that a new key of the person would be bound to; undefined: there is none. */
export function subscriptionOfNewKey(person: TokenCaller, snapshot: Snapshot): string | undefined {
  try {
    return selectForKey(snapshot, person, undefined).name
  } catch (error) {
    if (error instanceof ServiceError) return undefined
    throw error
  }
}
