/** Identity tokens of the cluster: its API server is asked (authentication.k8s.io/v1 TokenReview). */

import { LRUCache } from 'lru-cache'
import type { TokenCaller } from '../../core/caller.ts'
import { ServiceError } from '../../core/errors.ts'
import { networkOf } from '../../core/network.ts'
import type { JsonObject } from '../../kubernetes/client.ts'
import type { Source } from '../../store/api-keys.ts'
import { createFairQueue } from '../../store/fair-queue.ts'
import { hashOfToken } from '../verdicts.ts'
import type { Review } from './review.ts'

export type TokenReview = ReturnType<typeof createTokenReview>

export interface TokenReviewOptions {
  readonly review: Review
  /** A token has to be meant for one of them. */
  readonly audiences: readonly string[]
  /** How long a token that was believed is believed on while the API server is away, in milliseconds. */
  readonly graceMs: number
  /** Told once when the API server fails, with the reason, and once when it is back. */
  readonly onAway: (problem: string | undefined) => void
  /** Told why a token is refused, in words that hold nothing of it. */
  readonly onRefused?: (reason: string) => void
  /** Milliseconds that never go back. */
  readonly monotonic?: () => number
}

interface Verdict {
  readonly caller: TokenCaller | null
  readonly at: number
}

interface Waiting {
  readonly token: string
  readonly hash: string
  readonly settle: (verdict: Promise<TokenCaller | null>) => void
  readonly reject: (reason: Error) => void
}

const believedMs = 60_000
const refusedMs = 10_000
/** Of each kind. */
const entries = 10_000
/** Calls side by side; what waits for one waits in turn, network by network. */
const atOnce = 16
const room = { room: 4_000, roomForOne: 1_000 }
/** An API server that fails is not asked for so long. */
const pauseMs = 1_000

export function createTokenReview(options: TokenReviewOptions) {
  const { review, audiences, graceMs, onAway, onRefused = () => {} } = options
  const { monotonic = () => performance.now() } = options
  const believed = new LRUCache<string, Verdict>({ max: entries })
  const refused = new LRUCache<string, Verdict>({ max: entries })
  const asked = new Map<string, Promise<TokenCaller | null>>()
  const queue = createFairQueue<Waiting>(room)
  let calls = 0
  let failedAt: number | undefined

  /** What is remembered of a token: as it should be, or `late` as it may be in an outage. */
  function recall(hash: string, late = false): TokenCaller | null | undefined {
    const good = believed.get(hash)
    const now = monotonic()
    if (good !== undefined && now - good.at < believedMs + (late ? graceMs : 0)) return good.caller
    const bad = refused.get(hash)
    return bad !== undefined && now - bad.at < refusedMs ? null : undefined
  }

  async function call({ token, hash }: Waiting): Promise<TokenCaller | null> {
    const begunAt = monotonic()
    if (failedAt !== undefined && begunAt - failedAt < pauseMs) return doWithout(hash)
    try {
      const verdict = readStatus(await review(path, toReview(token, audiences)), audiences)
      if (failedAt !== undefined) onAway(undefined)
      failedAt = undefined
      believed.delete(hash)
      refused.delete(hash)
      // From when it was asked: what the cluster takes back meanwhile lives no longer for that.
      const caller = typeof verdict === 'string' ? null : verdict
      if (typeof verdict === 'string') onRefused(verdict)
      const memory = caller === null ? refused : believed
      memory.set(hash, { caller, at: begunAt })
      return caller
    } catch (error) {
      if (failedAt === undefined) onAway(error instanceof Error ? error.message : String(error))
      failedAt = monotonic()
      return doWithout(hash)
    }
  }

  function doWithout(hash: string): TokenCaller | null {
    const known = recall(hash, true)
    if (known === undefined) throw new ServiceError('identity_unavailable')
    return known
  }

  function work(): void {
    while (calls < atOnce) {
      const next = queue.take()
      if (next === undefined) return
      calls += 1
      const answer = call(next).finally(() => {
        calls -= 1
        work()
      })
      next.settle(answer)
    }
  }

  /** One call for all who ask about a token meanwhile. */
  function ask(token: string, hash: string, source?: Source): Promise<TokenCaller | null> {
    const under = asked.get(hash)
    if (under !== undefined) return under
    const { promise, resolve, reject } = Promise.withResolvers<TokenCaller | null>()
    asked.set(hash, promise)
    const owner = networkOf(source?.() ?? '')
    const forget = (): void => void asked.delete(hash)
    promise.then(forget, forget)
    const dropped = queue.offer(owner, { token, hash, settle: resolve, reject })
    dropped?.reject(new ServiceError('identity_unavailable'))
    work()
    return promise
  }

  return {
    /** Whether the API server failed to answer when it was last asked. */
    get isAway(): boolean {
      return failedAt !== undefined
    },
    /** Rejects with `identity_unavailable` when nobody can say. */
    verify(
      token: string,
      _now: number,
      source?: Source,
    ): TokenCaller | null | Promise<TokenCaller | null> {
      const hash = hashOfToken(token)
      const known = recall(hash)
      return known === undefined ? ask(token, hash, source) : known
    },
  }
}

const path = '/apis/authentication.k8s.io/v1/tokenreviews'

function toReview(token: string, audiences: readonly string[]): JsonObject {
  return {
    apiVersion: 'authentication.k8s.io/v1',
    kind: 'TokenReview',
    spec: { token, audiences },
  }
}

/**
 * The caller, or why there is none. Believed only if the answer says for whom the token is: an API server that does not know audiences
 * answers none, and would let a token pass that was made for somebody else.
 */
function readStatus(status: JsonObject, audiences: readonly string[]): TokenCaller | string {
  if (status.authenticated !== true) return 'is not known to the cluster'
  const meantFor = Array.isArray(status.audiences) ? status.audiences : []
  if (!meantFor.some((each) => audiences.includes(each))) return 'is not meant for this service'
  const { username, groups = [] } = (status.user ?? {}) as JsonObject
  if (typeof username !== 'string' || username === '') return 'names nobody'
  if (!Array.isArray(groups) || !groups.every((group) => typeof group === 'string')) {
    return 'has no list of groups'
  }
  return { by: 'token', proof: { by: 'cluster' }, user: username, groups }
}
