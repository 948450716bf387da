/**
 * The last refusals of each user, for an hour. A flood of one user's, or of anonymous requests, does
 * not push out those of others.
 */

import { describe } from '../core/decision/errors.ts'
import type { PastRefusal, PastRefusals } from '../core/decision/past-refusal.ts'
import { messageOf } from '../core/decision/refusal-message.ts'
import { lastValue } from '../core/formats/header-value.ts'
import type { RefusedCheck } from './refused-check.ts'

/** How long a refusal is remembered. */
const rememberedMs = 3_600_000
/** Per user; anonymous requests together count as one user. */
const mostOfUser = 100
/** In all; about 2 KB each at most. */
const mostInAll = 10_000
/** Characters of a path and of other text that a client chooses; a request with more is not kept. */
const mostOfPath = 1_024
const mostOfText = 256
const mostOfMessage = 1_024

export interface RefusalMemory extends PastRefusals {
  /** Does nothing if the request has no id, or much text. */
  note(refused: RefusedCheck): void
}

export function createRefusalMemory(): RefusalMemory {
  /** Oldest first. */
  const refusals = new Set<PastRefusal>()
  /** The same by user. */
  const byUser = new Map<string, Set<PastRefusal>>()

  function forget(refusal: PastRefusal | undefined): void {
    if (refusal === undefined) return
    refusals.delete(refusal)
    const user = userOf(refusal)
    const own = byUser.get(user)
    own?.delete(refusal)
    if (own?.size === 0) byUser.delete(user)
  }

  return {
    note(refused) {
      const refusal = toKeep(refused)
      if (refusal === undefined) return
      const user = userOf(refusal)
      let own = byUser.get(user)
      if (own !== undefined && own.size >= mostOfUser) forget(first(own))
      if (refusals.size >= mostInAll) forget(first(refusals))
      own = byUser.get(user)
      if (own === undefined) {
        own = new Set()
        byUser.set(user, own)
      }
      refusals.add(refusal)
      own.add(refusal)
      const oldest = first(refusals)
      if (oldest !== undefined && refusal.at - oldest.at > rememberedMs) forget(oldest)
    },
    find(requestId, user, now) {
      let found: PastRefusal | undefined
      for (const refusal of (user === undefined ? refusals : byUser.get(user)) ?? []) {
        if (refusal.requestId === requestId && isRecent(refusal, now)) found = refusal
      }
      return found
    },
    recent(limit, now) {
      return [...refusals]
        .filter((each) => isRecent(each, now))
        .slice(-limit)
        .reverse()
    },
  }
}

/** Empty for requests without a valid credential; a user's name never is. */
function userOf({ caller }: PastRefusal): string {
  return caller?.user ?? ''
}

function first(set: ReadonlySet<PastRefusal>): PastRefusal | undefined {
  return set.values().next().value
}

function isRecent({ at }: PastRefusal, now: number): boolean {
  return Math.abs(now - at) <= rememberedMs
}

function toKeep(refused: RefusedCheck): PastRefusal | undefined {
  const { code, status, denial, now, reason, caller, method, path, bodyModel } = refused
  const requestId = refused.requestId()
  if (requestId === undefined || requestId.length > mostOfText) return undefined
  const requestedSubscription = lastValue(refused.subscription)
  if (path.length > mostOfPath) return undefined
  if (Math.max(bodyModel?.length ?? 0, requestedSubscription?.length ?? 0) > mostOfText) {
    return undefined
  }
  const message = messageOf(denial, now) ?? describe(code).message
  return {
    ...{ requestId, at: now, code, status, reason, caller },
    ...{ method, path, bodyModel, requestedSubscription },
    ...{ states: denial.states ?? [], retryAt: denial.retryAt },
    // A part of a longer text would keep all of it in memory.
    message: Buffer.from(message.slice(0, mostOfMessage)).toString(),
  }
}
