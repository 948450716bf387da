/**
 * Selects the verifier of an identity token by its form. The first that applies decides: a token
 * that its own issuer refuses is tried nowhere else.
 */

import { decodeJwt } from 'jose'
import { ServiceError } from '../formats/errors.ts'
import type { VerifyCredential } from './authenticate.ts'
import type { Caller, Proof } from './rules/caller.ts'
import type { FindTokenCaller } from './token-file.ts'

interface Proofs {
  /** The tokens of a file. */
  readonly file: FindTokenCaller
  /** The verifier for an issuer, or undefined if the issuer is not configured. */
  readonly oidc: (issuer: string) => VerifyCredential | undefined
  /** The verifier for all other tokens; they are invalid if it is undefined. */
  readonly cluster: VerifyCredential | undefined
  /** Called with the result for each token. */
  readonly onProved?: (by: ProofSource, result: ProofResult) => void
}

/** The verifier of a token, or `none`. */
type ProofSource = Proof['by'] | 'none'
/** `failed`: a bug in this service. */
type ProofResult = 'ok' | 'refused' | 'unavailable' | 'failed'

/** File, OIDC, cluster. */
export function createTokenVerifier(proofs: Proofs): VerifyCredential {
  const { file, oidc, cluster, onProved = () => {} } = proofs

  function observed(by: ProofSource, verdict: Caller | null): Caller | null {
    onProved(by, verdict === null ? 'refused' : 'ok')
    return verdict
  }

  async function observedLater(by: ProofSource, verdict: Promise<Caller | null>) {
    try {
      return observed(by, await verdict)
    } catch (error) {
      onProved(by, resultOf(error))
      throw error
    }
  }

  return function verifyToken(token, now, source) {
    const listed = file(token)
    if (listed !== null) return observed('file', listed)
    const issuer = claimedIssuerOf(token)
    const ofIssuer = issuer === undefined ? undefined : oidc(issuer)
    const verify = ofIssuer ?? cluster
    if (verify === undefined) return observed('none', null)
    const by = ofIssuer === undefined ? 'cluster' : 'oidc'
    const verdict = verify(token, now, source)
    return verdict instanceof Promise ? observedLater(by, verdict) : observed(by, verdict)
  }
}

function resultOf(error: unknown): ProofResult {
  if (!(error instanceof ServiceError)) return 'failed'
  return error.code === 'credential_invalid' ? 'refused' : 'unavailable'
}

/** The issuer that a JWT claims, unverified; undefined for any other token. */
export function claimedIssuerOf(token: string): string | undefined {
  if (token.split('.', 4).length !== 3) return undefined
  try {
    const { iss } = decodeJwt(token)
    return typeof iss === 'string' ? iss : undefined
  } catch {
    return undefined
  }
}
