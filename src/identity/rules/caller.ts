/** The caller of a request, once its credential has been verified. */

import type { Network } from '../../formats/cidr.ts'
import type { WrittenCalendar } from '../../kinds/limits.ts'
import type { CountedLimit } from '../../ratelimit/rules/limit.ts'

/** A user with the groups that apply. */
export interface Person {
  readonly user: string
  readonly groups: readonly string[]
}

/** The source that verified an identity token: the token file, an OIDC issuer, or the cluster. */
export type Proof =
  | { readonly by: 'file' }
  | {
      readonly by: 'oidc'
      readonly issuer: string
      /** Whether a prefix separates the provider's users, and its groups, from all others. */
      readonly prefixesUsers: boolean
      readonly prefixesGroups: boolean
    }
  | { readonly by: 'cluster' }

/** An identity token: may create keys and list, but not call models. */
export interface TokenCaller extends Person {
  readonly by: 'token'
  readonly proof: Proof
}

/** A key's caps, compiled. A missing one does not restrict the key. */
export interface CompiledCaps {
  /** `<namespace>/<name>` of each model. */
  readonly models: ReadonlySet<string> | undefined
  readonly networks: readonly Network[] | undefined
  /**
   * Limits of the key itself, on a model or on all models, or undefined if there are none. `calendar` is the calendar
   * of its Subscription. Usually returns the same object for the same arguments.
   */
  readonly limitsOn:
    | ((model: string | undefined, calendar: WrittenCalendar) => KeyLimits)
    | undefined
}

/** The limits of a key on a model. */
export interface KeyLimits {
  /** Limits that refuse requests. */
  readonly limits: readonly CountedLimit[]
  /** Limits that are only counted and shown. */
  readonly observed: readonly CountedLimit[]
  /** The items of `limits` in the field `RateLimit-Policy`. */
  readonly policies: string
  /** What a line must carry to be counted for its limits without a name (`keyCountersOf`). */
  readonly counted: string | undefined
  /** Its limits by name, as members of a line (usage/rules/line-head.ts), or undefined if there are none. */
  readonly charged: string | undefined
  /** Whether a limit on money refuses. */
  readonly hasCostLimit: boolean
}

/** An API key: has the groups of its creation, and one subscription. */
export interface KeyCaller extends Person {
  readonly by: 'key'
  readonly keyId: string
  /** Bare name of the subscription that the key is bound to. */
  readonly subscription: string
  /** Milliseconds since the key's record was last confirmed; set while the key store is unavailable. */
  readonly keyAgeMs?: number
  /** Set only if something is capped. */
  readonly caps?: CompiledCaps
  /** When the key ends, if that is soon, in milliseconds since the epoch. */
  readonly endsSoonAt?: number
  /** Set only if decisions for the key may be remembered: its hash, and until when at most (ms since the epoch). */
  readonly remembered?: { readonly hash: string; readonly until: number }
}

export type Caller = TokenCaller | KeyCaller
