/**
 * What proves an identity token, by its shape. The first that applies is final: a token that its own
 * issuer refuses is tried nowhere else.
 */

import { decodeJwt } from 'jose'
import type { Verify, VerifyNow } from './authenticate.ts'

export interface Proofs {
  /** The tokens of a file. */
  readonly file: VerifyNow
  /** What verifies the tokens of an issuer; undefined: the issuer is not one of ours. */
  readonly oidc: (issuer: string) => Verify | undefined
  /** Everything else; undefined: nothing else is believed. */
  readonly cluster: Verify | undefined
}

/** File, OIDC, cluster. */
export function createVerifyToken({ file, oidc, cluster }: Proofs): Verify {
  return function verifyToken(token, now, source) {
    const listed = file(token, now)
    if (listed !== null) return listed
    const issuer = issuerOf(token)
    const verify = (issuer === undefined ? undefined : oidc(issuer)) ?? cluster
    return verify === undefined ? null : verify(token, now, source)
  }
}

/** Who a JWT says has issued it; nothing of that is proved. */
function issuerOf(token: string): string | undefined {
  if (token.split('.', 4).length !== 3) return undefined
  try {
    const { iss } = decodeJwt(token)
    return typeof iss === 'string' ? iss : undefined
  } catch {
    return undefined
  }
}
