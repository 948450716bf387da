/** Identity tokens and administrators by the cluster, if KUBERNETES_TOKEN_REVIEW is on. */

import { readFileSync } from 'node:fs'
import { decodeJwt } from 'jose'
import { subscriptionNamespace } from '../../kinds/resources.ts'
import { accessOf } from '../../kubernetes/access.ts'
import type { ClusterAccess } from '../../kubernetes/client.ts'
import type { ProcessContext } from '../../settings/context.ts'
import type { RefusalLog } from '../refusal-log.ts'
import { type AccessResult, createAccessReview } from './access-review.ts'
import { createReview } from './review.ts'
import { createTokenReview } from './token-review.ts'

/** Shorter than a provider's: only the API server knows that a token was revoked. */
const maxGraceMs = 5 * 60_000

/** Returns undefined if the cluster is not used. Throws an error that names the setting to check. */
export function openClusterIdentity(
  { config, log }: ProcessContext,
  refusals: RefusalLog,
  onAccessReviewed: (result: AccessResult) => void,
) {
  if (!config.kubernetesTokenReview) return undefined
  const access = accessOf(config)
  const review = createReview(access)
  return {
    tokens: createTokenReview({
      review,
      audiences: [...new Set([...config.tokenReviewAudiences, ...ownAudiences(access)])],
      graceMs: Math.min(maxGraceMs, config.oidcOutageGraceMs),
      onUnavailable: (problem) =>
        problem === undefined
          ? log.info(
              { code: 'token_reviews_available' },
              "resumed reviewing tokens at the cluster's API server",
            )
          : log.error(
              { code: 'token_reviews_unavailable', problem },
              "cannot review tokens at the cluster's API server",
            ),
      onRefused: (reason) => refusals.note({ proof: 'cluster' }, reason),
    }),
    mayAdminister: createAccessReview({
      review,
      resource: { ...config.adminAccessReview, namespace: subscriptionNamespace },
      onReviewed(result, problem) {
        onAccessReviewed(result)
        if (result !== 'failed') return
        log.error(
          { code: 'access_reviews_failing', problem },
          'cannot review access: cluster roles make no caller an administrator until reviews succeed',
        )
      },
    }),
  }
}

/** The cluster's own audiences, if they differ from the default. */
function ownAudiences({ token, tokenFile }: ClusterAccess): readonly string[] {
  try {
    const own = token ?? (tokenFile && readFileSync(tokenFile, 'utf8').trim())
    const { aud } = own ? decodeJwt(own) : {}
    return typeof aud === 'string' ? [aud] : (aud ?? [])
  } catch {
    // A token that is not a JWT names none; an invalid one fails at the first review.
    return []
  }
}
