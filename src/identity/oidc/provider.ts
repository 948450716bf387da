/** One OIDC provider: verifies identity tokens of its issuer (OpenID Connect Core 3.1.3.7). */

import { type CryptoKey, errors, type JWSHeaderParameters, jwtVerify } from 'jose'
import { ServiceError } from '../../formats/errors.ts'
import { createInternPools } from '../../runtime/bounded-map.ts'
import type { TokenCaller } from '../rules/caller.ts'
import { createVerdictCache, hashOfToken, maxVerdicts } from '../verdict-cache.ts'
import { type ClaimRules, readClaims } from './claims.ts'
import type { FoundKeys, KeySource } from './key-source.ts'

interface ProviderOptions {
  readonly issuer: string
  /** A token must name one of them (`aud`). */
  readonly audiences: readonly string[]
  readonly claims: ClaimRules
  /** Prefixes that do not separate it, because another provider can issue the same names. */
  readonly shared?: SharedPrefixes | undefined
  /** How long a verified token is cached; never past its `exp`. 5 minutes by default. */
  readonly ttlMs?: number | undefined
  readonly keys: KeySource
  /** Called with the reason why a token is refused, without any of its text. */
  readonly onRefused: (reason: string) => void
}

export interface SharedPrefixes {
  readonly users: boolean
  readonly groups: boolean
}

export type Provider = ReturnType<typeof createProvider>

/** Seconds that the clocks of issuer and service may differ. */
const tolerance = 60
/** Public-key signatures only: with `none` or HS256 any client could forge tokens. */
const algorithms = [
  ...['RS256', 'RS384', 'RS512', 'PS256', 'PS384', 'PS512'],
  ...['ES256', 'ES384', 'ES512', 'EdDSA'],
]

export function createProvider(options: ProviderOptions) {
  const { issuer, audiences, claims, ttlMs = 300_000, keys, shared, onRefused } = options
  const verdicts = createVerdictCache<{ caller: TokenCaller; provedBy: number }>()
  const pools = createInternPools(maxVerdicts)
  const proof = {
    by: 'oidc',
    issuer,
    prefixesUsers: shared?.users !== true && claims.usernamePrefix !== '',
    prefixesGroups: shared?.groups !== true && claims.groupsPrefix !== '',
  } as const

  /** Again if the set has changed: providers replace a key under its `kid`, or one without any. */
  async function verifySignature(token: string, now: number) {
    const { generation } = keys
    try {
      return await verifyByKnown(token, now)
    } catch (error) {
      if (!(error instanceof errors.JWSSignatureVerificationFailed)) throw error
      await keys.doubt()
      if (keys.generation === generation) throw error
      return await verifyByKnown(token, now)
    }
  }

  /** With each key that fits its header, until one has signed it. */
  async function verifyByKnown(token: string, now: number) {
    let found: FoundKeys | undefined
    for (let tried = 0; ; tried += 1) {
      const findKey = async (header: JWSHeaderParameters): Promise<CryptoKey> => {
        refuseHeader(header)
        found ??= await keys.find(header)
        const key = found?.keys[tried]
        if (key === undefined) throw new Refusal('is signed by an unknown key (kid)', false)
        return key
      }
      try {
        const { payload } = await jwtVerify(token, findKey, {
          issuer,
          audience: [...audiences],
          algorithms,
          requiredClaims: ['exp'],
          clockTolerance: tolerance,
          currentDate: new Date(now),
        })
        return { payload, provedBy: found?.generation ?? Number.NaN }
      } catch (error) {
        // A TypeError is about a key, such as an RSA key of 1,024 bits.
        const isOther =
          error instanceof errors.JWSSignatureVerificationFailed || error instanceof TypeError
        if (!isOther || found?.keys[tried + 1] === undefined) throw error
      }
    }
  }

  async function verifyAfresh(token: string, now: number): Promise<TokenCaller> {
    const { payload, provedBy } = await verifySignature(token, now)
    if ((payload.iat ?? 0) * 1_000 > now + tolerance * 1_000) {
      throw new Refusal('is from the future (iat)')
    }
    const person = readClaims(payload, claims)
    if (typeof person === 'string') throw new Refusal(person)
    const groups = pools.list(person.groups)
    const caller: TokenCaller = { by: 'token', proof, user: person.user, groups }
    const until = Math.min(now + ttlMs, (payload.exp as number) * 1_000)
    verdicts.keep(hashOfToken(token), { caller, provedBy }, now, until)
    return caller
  }

  return {
    /** Whether the provider is unavailable. */
    get isUnavailable(): boolean {
      return keys.isUnavailable
    },
    /**
     * The caller. Rejects with `credential_invalid`, whose message names expiry, audience or claim
     * only if the signature is valid, or with `identity_unavailable`.
     */
    verify(token: string, now: number): TokenCaller | Promise<TokenCaller> {
      const known = verdicts.find(hashOfToken(token), now)
      // The key may have left the set since, even during the verification.
      if (known?.provedBy === keys.generation && !keys.isLost) return known.caller
      return verifyAfresh(token, now).catch((error: unknown) => {
        if (error instanceof ServiceError) throw error
        const { message: reason, isPublic } = toRefusal(error)
        onRefused(reason)
        const message = `The identity token ${isPublic ? reason : 'is not valid'}.`
        throw new ServiceError('credential_invalid', { message })
      })
    },
    close: (): void => keys.close(),
  }
}

/** `jku`, `x5u` and `jwk` are ignored: the signer does not choose the key. */
function refuseHeader({ typ, cty, crit }: JWSHeaderParameters): void {
  const type = typ?.toLowerCase().replace(/^application\//, '') ?? 'jwt'
  if (type !== 'jwt' && type !== 'at+jwt') throw new Refusal('is of another type (typ)', false)
  // A nested token, or a header with unknown critical extensions.
  if (cty !== undefined || crit !== undefined) {
    throw new Refusal('has a header that is not supported (cty, crit)', false)
  }
}

/** Why a token is invalid, as the end of a sentence, and whether its bearer may know. */
class Refusal extends Error {
  readonly isPublic: boolean

  constructor(reason: string, isPublic = true) {
    super(reason)
    this.isPublic = isPublic
  }
}

/** jose's errors in our words, because its own may quote the token. Claims are verified after the signature. */
function toRefusal(error: unknown): Refusal {
  if (error instanceof Refusal) return error
  if (error instanceof errors.JWTExpired) return new Refusal('has expired (exp)')
  if (error instanceof errors.JWTClaimValidationFailed) {
    const { claim } = error
    if (claim === 'aud') return new Refusal('is not meant for this service (aud)')
    if (claim === 'nbf') return new Refusal('is not valid yet (nbf)')
    const isKnown = claim === 'exp' || claim === 'iat' || claim === 'iss'
    return new Refusal(isKnown ? `has no usable ${claim}` : 'has an unusable claim')
  }
  if (error instanceof errors.JOSEAlgNotAllowed) {
    return new Refusal('is signed in a way that is not allowed (alg)', false)
  }
  if (error instanceof errors.JWSSignatureVerificationFailed) {
    return new Refusal('has an invalid signature', false)
  }
  return new Refusal('cannot be read or verified', false)
}
