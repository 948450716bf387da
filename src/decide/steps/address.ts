/** Step `address`: whether the key may be used from where its client is. */

import type { Caller } from '../../identity/rules/caller.ts'
import { isAddressAllowed } from '../../keys/rules/caps-of-caller.ts'
import type { AccessRequest } from '../access-request.ts'
import { type Denial, deny } from '../decision.ts'

/** The refusal of a key that is used from elsewhere; undefined for all others, and if the address is not checked. */
export function refuseAddress(
  caller: Caller | null,
  address: AccessRequest['address'],
): Denial | undefined {
  if (caller === null || address === undefined) return undefined
  const known = address ?? undefined
  if (isAddressAllowed(caller, known)) return undefined
  return deny('address_not_allowed', { about: 'address', address: known })
}
