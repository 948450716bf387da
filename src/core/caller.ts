/** Who is asking, once a credential has been believed. */

/** A user with the groups that count. */
export interface Person {
  readonly user: string
  readonly groups: readonly string[]
}

/** What vouches for an identity token: the token file, an OIDC issuer, or the cluster. */
export type Proof =
  | { readonly by: 'file' }
  | { readonly by: 'oidc'; readonly issuer: string }
  | { readonly by: 'cluster' }

/** An identity token: may make keys and list, but opens no model for inference. */
export interface TokenCaller extends Person {
  readonly by: 'token'
  readonly proof: Proof
}

/** An API key: speaks with the groups of its creation, for one subscription. */
export interface KeyCaller extends Person {
  readonly by: 'key'
  readonly keyId: string
  /** Bare name of the subscription the key is bound to. */
  readonly subscription: string
  /** Milliseconds since the key's record was confirmed, while its store is out of reach. */
  readonly keyAgeMs?: number
}

export type Caller = TokenCaller | KeyCaller
