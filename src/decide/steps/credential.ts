/** Step `credential`: whether the credential is valid, and of a kind that allows the operation. */

import type { Caller } from '../../identity/rules/caller.ts'
import { isListing } from '../../operations/operations.ts'
import { type Denial, deny } from '../decision.ts'
import type { DecisionContext, StepFindings } from './step.ts'

export function checkCredential({ request }: DecisionContext): Denial | StepFindings {
  const { caller, target, method, tokensOpen } = request
  if (caller === null) return deny('credential_invalid')
  return refuseCaller(caller, tokensOpen || isListing(target.operation, method)) ?? { caller }
}

/** The refusal of a caller without a credential that allows inference; undefined for all others. */
export function refuseCaller(caller: Caller | null, tokensOpen = false): Denial | undefined {
  if (caller === null) return deny('credential_invalid')
  if (caller.by === 'key' || tokensOpen) return undefined
  return deny('credential_invalid', { about: 'identity_token' })
}
