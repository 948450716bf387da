/** What the steps of a decision have in common. */

import type { Caller, KeyLimits } from '../../identity/rules/caller.ts'
import type {
  CompiledSubscription,
  Model,
  ModelTerms,
  Snapshot,
} from '../../models/rules/snapshot.ts'
import type { PathRules } from '../../operations/operations.ts'
import type { AccessRequest } from '../access-request.ts'
import type { Denial } from '../decision.ts'

/** What is decided about, and what the steps so far have found. */
export interface DecisionContext {
  readonly request: AccessRequest
  readonly snapshot: Snapshot
  readonly rules: PathRules
  /** After the step `credential`. */
  readonly caller: Caller
  /** After `model`. */
  readonly model: Model
  /** Whether the request may ask for one answer only (operation.ts); after `operation`. */
  readonly isOneAnswer: boolean
  /** The one that pays; after `subscription`. */
  readonly subscription: CompiledSubscription
  /** The subscription's terms for the model besides the limits that refuse, if any; after `budget`. */
  readonly terms: ModelTerms | undefined
  /** The limits of the caller's key on the model, if any; after `budget`. */
  readonly keyLimits: KeyLimits | undefined
}

/** What a step has found for those after it. */
export type Found = Partial<
  Pick<DecisionContext, 'caller' | 'model' | 'isOneAnswer' | 'subscription' | 'terms' | 'keyLimits'>
>

/** Refuses the request, or lets it pass with what it has found, if anything. Pure. */
export type Step = (context: DecisionContext) => Denial | Found | undefined
