/** Which keys a caller may look at and change: another user's, and one that does not exist, get the same response. */

import { ServiceError } from '../../formats/errors.ts'
import type { Caller } from '../../identity/rules/caller.ts'
import type { IsAdmin } from '../http/administrators.ts'

/** Whether it has the form of all ids in the database; others are not worth a query. */
export function isUuid(id: string): boolean {
  return /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(id)
}

/** The key, or what was found of it; throws 404 if there is none. */
export function requireKey<Found>(found: Found | undefined): Found {
  if (found !== undefined) return found
  throw new ServiceError('not_found', { message: 'There is no such API key.' })
}

/** Acts on the caller's own key, or for an administrator on any. Returns undefined if `act` found none. */
export async function actOnKey<Done>(
  caller: Caller,
  isAdmin: IsAdmin,
  act: (owner: string | undefined) => Promise<Done | undefined>,
): Promise<Done | undefined> {
  return (await act(caller.user)) ?? ((await isAdmin(caller)) ? await act(undefined) : undefined)
}
