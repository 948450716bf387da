/**
 * The authorization code flow (RFC 6749, 4.1) with PKCE (RFC 7636), for a public client: the page stores the verifier,
 * and the service exchanges the code, since the page may call only the gateway.
 */

import { ServiceError } from '../../formats/errors.ts'
import type { JsonObject } from '../../formats/fields.ts'
import { isTrustworthy } from '../../formats/trustworthy.ts'
import { errorMessage } from '../../runtime/error-message.ts'
import { claimedIssuerOf } from '../identity-token.ts'
import type { ReadDocument } from './documents.ts'

/** A provider at which users can sign in. */
export type CodeFlow = ReturnType<typeof createCodeFlow>

export interface CodeFlowOptions {
  readonly issuer: string
  readonly clientId: string
  /** The discovery document as last read. */
  readonly discovered: () => JsonObject | undefined
  readonly readDocument: ReadDocument
  readonly onRefused: (reason: string) => void
}

/** Requested besides `openid` if the provider lists them, for the name and the groups. */
const wishedScopes = ['profile', 'email', 'groups']

export function createCodeFlow(options: CodeFlowOptions) {
  const { issuer, clientId, discovered, readDocument, onRefused } = options

  /** An endpoint of the discovery document, if it may be used. */
  function endpoint(name: string): string | undefined {
    const url = discovered()?.[name]
    if (typeof url !== 'string' || !isTrustworthy(url)) return undefined
    return issuer.startsWith('https:') && !url.startsWith('https:') ? undefined : url
  }

  return {
    issuer,
    /** Whether the discovery document was ever read; until then it is unknown whether users can sign in there. */
    isDiscovered: () => discovered() !== undefined,
    /** The provider's page for signing in, without state and challenge, or undefined if it is not known now. */
    pageFor(redirectUri: string) {
      const page = endpoint('authorization_endpoint')
      if (page === undefined || endpoint('token_endpoint') === undefined) return undefined
      const offered = discovered()?.scopes_supported
      const scopes = Array.isArray(offered)
        ? wishedScopes.filter((each) => offered.includes(each))
        : []
      const url = new URL(page)
      url.searchParams.set('client_id', clientId)
      url.searchParams.set('response_type', 'code')
      url.searchParams.set('redirect_uri', redirectUri)
      url.searchParams.set('scope', ['openid', ...scopes].join(' '))
      url.searchParams.set('code_challenge_method', 'S256')
      return url.href
    },
    /**
     * The identity token for a code: one of this provider, whose signature is not verified yet. Rejects with
     * `credential_invalid` if the provider refuses the code or returns a credential of another source, or with
     * `identity_unavailable`.
     */
    async exchange(code: string, verifier: string, redirectUri: string) {
      const url = endpoint('token_endpoint')
      if (url === undefined) throw new ServiceError('identity_unavailable')
      const form = new URLSearchParams({
        grant_type: 'authorization_code',
        client_id: clientId,
        redirect_uri: redirectUri,
        code,
        code_verifier: verifier,
      })
      const response = await readDocument(url, new AbortController().signal, form).catch(
        (error: unknown) => {
          onRefused(`the code was not exchanged: ${errorMessage(error)}`)
          const isRefused = /answered 4\d\d$/.test(errorMessage(error))
          throw new ServiceError(isRefused ? 'credential_invalid' : 'identity_unavailable', {
            ...(isRefused && {
              message: 'The identity provider refused the sign-in; begin again.',
            }),
          })
        },
      )
      const { id_token: token } = response
      if (typeof token !== 'string') {
        onRefused('the response to a code has no id_token')
        throw new ServiceError('identity_unavailable')
      }
      // A provider vouches for its own users. With a credential of another source it could sign a user in as any user
      // of that source (OpenID Connect Core, 3.1.3.7).
      if (claimedIssuerOf(token) === issuer) return token
      onRefused('the id_token in the response to a code has another issuer')
      throw new ServiceError('credential_invalid', {
        message: 'The identity provider answered with a token of another issuer; begin again.',
      })
    },
  }
}
