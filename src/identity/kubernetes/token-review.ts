/** Identity tokens of the cluster, verified by its API server (authentication.k8s.io/v1 TokenReview). */

import { networkOf } from '../../formats/cidr.ts'
import { ServiceError } from '../../formats/errors.ts'
import type { JsonObject } from '../../formats/fields.ts'
import { isPlainText } from '../../formats/plain-text.ts'
import type { SourceAddress } from '../../keys/store.ts'
import { isRefusal } from '../../kubernetes/client.ts'
import { createInternPools } from '../../runtime/bounded-map.ts'
import { errorMessage } from '../../runtime/error-message.ts'
import { createFairLimiter } from '../../runtime/fair-limiter.ts'
import { createOutage } from '../../runtime/outage.ts'
import { createSingleFlight } from '../../runtime/single-flight.ts'
import { withAbort } from '../../runtime/with-abort.ts'
import type { TokenCaller } from '../rules/caller.ts'
import { createVerdictCache, hashOfToken, maxVerdicts } from '../verdict-cache.ts'
import { createFailurePauses } from './failure-pauses.ts'
import type { Review } from './review.ts'

interface TokenReviewOptions {
  readonly review: Review
  /** A token must be issued for one of them. */
  readonly audiences: readonly string[]
  /** How long a verified token stays valid while the API server is unavailable, in milliseconds. */
  readonly graceMs: number
  /** Called once when the API server fails, with the reason, and once when it is back. */
  readonly onUnavailable: (problem: string | undefined) => void
  /** Called with the reason why a token is refused, without any of its text. */
  readonly onRefused?: (reason: string) => void
  /** A monotonic clock in milliseconds. */
  readonly monotonic?: () => number
}

const believedMs = 60_000
const refusedMs = 10_000
const failureShownMs = 60_000
/** How long a request with a cached token waits for its review in an outage. */
const hangMs = 300
/** Concurrent calls; further ones wait in turn, network by network. */
const limits = { atOnce: 16, room: 4_000, roomForOne: 1_000 }

export function createTokenReview(options: TokenReviewOptions) {
  const { review, audiences, graceMs, onUnavailable, onRefused = () => {} } = options
  const { monotonic = () => performance.now() } = options
  // A separate cache, so that a flood of refused tokens evicts no valid one.
  const believed = createVerdictCache<TokenCaller>()
  const refused = createVerdictCache<null>()
  const pools = createInternPools(maxVerdicts)
  const inTurn = createFairLimiter({
    ...limits,
    refusal: () => new ServiceError('identity_unavailable'),
  })
  const pauses = createFailurePauses(monotonic)
  const outage = createOutage(onUnavailable)
  let failedAt = Number.NEGATIVE_INFINITY

  /** The cached result for a token: within its normal lifetime, or `late` as in an outage. */
  function recall(hash: string, late = false): TokenCaller | null | undefined {
    const now = monotonic()
    return believed.find(hash, now, late ? graceMs : 0) ?? refused.find(hash, now)
  }

  async function call(hash: string, token: string, network: string): Promise<TokenCaller | null> {
    const begunAt = monotonic()
    if (pauses.isPaused(network)) return doWithout(hash)
    try {
      const status = await review(path, {
        apiVersion: 'authentication.k8s.io/v1',
        kind: 'TokenReview',
        spec: { token, audiences },
      })
      const verdict = readStatus(status, audiences)
      outage.note(undefined)
      pauses.succeeded(network)
      // Counted from the call, so that a token revoked meanwhile does not live longer.
      if (typeof verdict !== 'string') {
        const caller = { ...verdict, groups: pools.list(verdict.groups) }
        believed.keep(hash, caller, begunAt, begunAt + believedMs)
        return caller
      }
      onRefused(verdict)
      believed.forget(hash)
      refused.keep(hash, null, begunAt, begunAt + refusedMs)
      return null
    } catch (error) {
      failedAt = monotonic()
      outage.note(errorMessage(error), isRefusal(error) ? 'refused' : undefined)
      pauses.failed(network)
      return doWithout(hash)
    }
  }

  function doWithout(hash: string): TokenCaller | null {
    const known = recall(hash, true)
    if (known === undefined) throw new ServiceError('identity_unavailable')
    return known
  }

  /** Checks of one token share a call. */
  const ask = createSingleFlight((hash: string, token: string, source?: SourceAddress) => {
    const network = networkOf(source?.() ?? '')
    return inTurn(network, () => call(hash, token, network))
  })

  return {
    /** Whether the API server failed at the last call, unless that was long ago: without tokens to verify nothing calls it. */
    get isUnavailable(): boolean {
      return outage.isOpen && monotonic() - failedAt < failureShownMs
    },
    /** Rejects with `identity_unavailable` if the token cannot be verified. */
    verify(
      token: string,
      _now: number,
      source?: SourceAddress,
    ): TokenCaller | null | Promise<TokenCaller | null> {
      const hash = hashOfToken(token)
      const known = recall(hash)
      if (known !== undefined) return known
      const asking = ask(hash, token, source)
      const late = outage.isOpen ? recall(hash, true) : undefined
      if (late === undefined) return asking
      // During an outage requests wait only briefly for the API server; if it responds in time, its verdict counts.
      return withAbort(asking, AbortSignal.timeout(hangMs)).catch(() => late)
    },
  }
}

const path = '/apis/authentication.k8s.io/v1/tokenreviews'

/**
 * The caller, or the reason why the token is refused. The response must name the token's audience: an API server
 * without support for audiences names none, and would accept a token issued for another service.
 */
function readStatus(status: JsonObject, audiences: readonly string[]): TokenCaller | string {
  if (status.authenticated !== true) return 'is not known to the cluster'
  const meantFor = Array.isArray(status.audiences) ? status.audiences : []
  if (!meantFor.some((each) => audiences.includes(each))) return 'is not meant for this service'
  const { username, groups = [] } = (status.user ?? {}) as JsonObject
  if (!isName(username) || username === '') return 'names nobody'
  if (!Array.isArray(groups) || !groups.every(isName)) return 'has no list of groups'
  return { by: 'token', proof: { by: 'cluster' }, user: username, groups }
}

function isName(value: unknown): value is string {
  return typeof value === 'string' && isPlainText(value)
}
