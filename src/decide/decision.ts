/** The decision of Check on a request: a grant, or a denial. */

import type { ErrorCode } from '../formats/errors.ts'
import type { Caller, KeyLimits } from '../identity/rules/caller.ts'
import type { LimitKind } from '../kinds/limits.ts'
import type { AdmissionRules } from '../kinds/resources.ts'
import type { Model } from '../models/rules/snapshot.ts'
import type { PathRefusal } from '../operations/operations.ts'
import type { ModelFactors } from '../ratelimit/rules/estimates/held-amounts.ts'
import type { HoldRecord } from '../ratelimit/rules/hold.ts'
import type { CountedLimit, LimitState } from '../ratelimit/rules/limit.ts'
import type { SelectionError } from './subscription-selection.ts'

export interface Grant {
  readonly allowed: true
  readonly caller: Caller
  readonly model: Model
  readonly cluster: string
  readonly subscription: string
  /** The limits to enforce, the key's last; empty on paths without limits. */
  readonly limits: readonly CountedLimit[]
  /** The key's own limits on this model, if any; `limits` includes them. */
  readonly keyLimits?: KeyLimits | undefined
  /** Limits on concurrency that refuse nothing; the request is counted in these, too. */
  readonly watched?: readonly CountedLimit[]
  /** Whether any of all these counts requests, so that this one is counted before it is allowed. */
  readonly countsRequests?: boolean
  /** Their states; empty until they are read. */
  readonly states: readonly LimitState[]
  /** The rules of reservation, if its subscription reserves. */
  readonly admission?: AdmissionRules | undefined
  readonly held?: HoldRecord
  /** Whether the gateway must ask again with the size of the body: nothing is held yet. */
  readonly isUnread?: boolean
  /** Whether the response will be counted. */
  readonly metered: boolean
  /** Whether it will be counted if it reports usage; nothing is estimated otherwise. It holds no room. */
  readonly meteredIfReported?: boolean
  /** Whether it uses tokens that are not counted. */
  readonly uncounted: boolean
  /** Whether it only lists models, which no limit applies to. */
  readonly listing: boolean
  /** The caller's group that owns the subscription, empty if none does; undefined if it is not needed. */
  readonly owningGroup: string | undefined
  /** The payer of the response (payer.ts), if the subscription names one. */
  readonly payer: string | undefined
  /** Prices, weights and limits by name, as in lines. */
  readonly tariff?: string | undefined
  /** Whether there are limits by name, or weights. */
  readonly isByTariff?: boolean | undefined
  /** How limits count expected tokens, or undefined if there are no prices and weights. */
  readonly factors?: ModelFactors | undefined
  /**
   * If a limit counts by group: the caller's first group among those that own the Subscription, as in lines; empty if
   * the caller owns it by name.
   */
  readonly pool?: string | undefined
  /**
   * If the path names the model, and the body has not been read: the names that it may use, separated by tabs, if
   * known.
   */
  readonly bodyNames: string | undefined
  /** The name that the server knows, if it must replace the one in the body. */
  readonly sentName: string | undefined
  /** Path and query for the model's server. */
  readonly upstreamPath: string
}

/** Details of a refusal that its code does not express. */
export type DenialDetail =
  | PathRefusal['detail']
  /** A credential was sent and is invalid, with the reason if the caller may know it. */
  | { readonly about: 'credential'; readonly reason: string | undefined }
  /** An identity token was sent where an API key is required. */
  | { readonly about: 'identity_token' }
  /** Several subscriptions of the caller match, and the request names none. */
  | { readonly about: 'several' }
  /** For this operation, or with this method, only the path can name the model. */
  | { readonly about: 'path_needed'; readonly operation: string; readonly method?: string }
  /** The problem of the body, or undefined if it only names no model. */
  | { readonly about: 'body'; readonly problem: string | undefined }
  /** The model that was asked for, as the request wrote it. */
  | { readonly about: 'model'; readonly name: string }
  /** The requested model, which only the key's own list of models excludes. */
  | { readonly about: 'key_models'; readonly name: string }
  /** A limit of the key on cost needs a price, and its subscription has none for the model. */
  | { readonly about: 'unpriced'; readonly subscription: string }
  /** The address that the key may not be used from, if it is known. */
  | { readonly about: 'address'; readonly address: string | undefined }
  /** The paths of models that the name may mean, and whether there are more. */
  | {
      readonly about: 'ambiguous'
      readonly paths: readonly string[]
      readonly areMore: boolean
      /** Whether the models have the name because their servers list it. */
      readonly isListed: boolean
    }
  /**
   * The subscription that should pay and does not, and one of the caller's own that would; `other` is never set for
   * a key with caps.
   */
  | {
      readonly about: 'subscription'
      readonly error: Exclude<SelectionError, 'multiple_subscriptions'>
      /** The subscription of the key or of the request's header, or undefined if neither names one. */
      readonly named:
        | { readonly by: 'key'; readonly name: string }
        | { readonly by: 'token' }
        | undefined
      readonly other: string | undefined
    }

export interface Denial {
  readonly allowed: false
  readonly code: ErrorCode
  /** Details beyond the code. */
  readonly detail?: DenialDetail
  /** The selection's error code, if the selection refused. */
  readonly selection?: SelectionError
  /** Milliseconds since the epoch; if a limit refused, like the following. */
  readonly retryAt?: number
  /** The states of the limits, and the state of the one that refused. */
  readonly states?: readonly LimitState[]
  readonly refusing?: LimitState
  /** Whether the rest of the limit is only held, not used. */
  readonly isBusy?: boolean
  /** If too little is left: the minimum of output tokens for the request. */
  readonly needed?: number
  /** The grant without the limit. */
  readonly grant?: Grant
}

export type Decision = Grant | Denial

/** The code of a refusal by a limit of this kind. */
export const limitCodes = {
  tokens: 'token_limit_exceeded',
  input: 'token_limit_exceeded',
  output: 'token_limit_exceeded',
  requests: 'request_limit_exceeded',
  concurrency: 'concurrency_limit_exceeded',
  cost: 'insufficient_quota',
} as const satisfies Readonly<Record<LimitKind, ErrorCode>>

/** A refusal with these details. */
export function deny(code: ErrorCode, detail?: DenialDetail): Denial {
  return detail === undefined ? { allowed: false, code } : { allowed: false, code, detail }
}
