/** What a person may do in the cluster, according to its API server (authorization.k8s.io/v1 SubjectAccessReview). */

import { hash } from 'node:crypto'
import { errorMessage } from '../../runtime/error-message.ts'
import { createSingleFlight } from '../../runtime/single-flight.ts'
import type { Person } from '../rules/caller.ts'
import { createVerdictCache } from '../verdict-cache.ts'
import { createFailurePauses } from './failure-pauses.ts'
import type { Review } from './review.ts'

/** Whether a person may. Any failure counts as no. */
export type AccessReview = (person: Person) => boolean | Promise<boolean>

/** The API server's response to a review. */
export type AccessResult = 'allowed' | 'denied' | 'failed'

interface AccessReviewOptions {
  readonly review: Review
  /** The permission that is required: to `create` this, in the namespace of subscriptions. */
  readonly resource: {
    readonly group: string
    readonly resource: string
    readonly namespace: string
  }
  /** Called for each response; for a failure also with a message for the log. */
  readonly onReviewed: (result: AccessResult, problem?: string) => void
  /** A monotonic clock in milliseconds. */
  readonly monotonic?: () => number
}

/** How long yes and no are cached; a removed role is lost after this time. */
const keptMs = 30_000

export function createAccessReview(options: AccessReviewOptions): AccessReview {
  const { review, resource, onReviewed, monotonic = () => performance.now() } = options
  const verdicts = createVerdictCache<boolean>()
  const pauses = createFailurePauses(monotonic)

  const ask = createSingleFlight(async (key: string, { user, groups }: Person) => {
    const at = monotonic()
    try {
      const status = await review(path, {
        apiVersion: 'authorization.k8s.io/v1',
        kind: 'SubjectAccessReview',
        spec: { user, groups, resourceAttributes: { ...resource, verb: 'create' } },
      })
      // A denial outweighs another authorizer's permission.
      const allowed = status.allowed === true && status.denied !== true
      verdicts.keep(key, allowed, at, at + keptMs)
      pauses.succeeded(key)
      onReviewed(allowed ? 'allowed' : 'denied')
      return allowed
    } catch (error) {
      pauses.failed(key)
      onReviewed('failed', errorMessage(error))
      return false
    }
  })

  return function mayAdminister(person) {
    const key = keyOf(person)
    const known = verdicts.find(key, monotonic())
    if (known !== undefined) return known
    return pauses.isPaused(key) ? false : ask(key, person)
  }
}

const path = '/apis/authorization.k8s.io/v1/subjectaccessreviews'

/** As JSON, because the groups `["a,b"]` differ from `["a","b"]`; their order does not matter. */
function keyOf({ user, groups }: Person): string {
  return hash('sha256', JSON.stringify([user, [...new Set(groups)].sort()]), 'base64')
}
