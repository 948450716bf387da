/** Types that the steps of a decision share. */

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

/** The request, and the findings of the steps so far. */
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

/** A step's findings, for later steps. */
export type StepFindings = Partial<
  Pick<DecisionContext, 'caller' | 'model' | 'isOneAnswer' | 'subscription' | 'terms' | 'keyLimits'>
>

/** Refuses the request, or lets it pass with its findings, if any. Pure. */
export type Step = (context: DecisionContext) => Denial | StepFindings | undefined
