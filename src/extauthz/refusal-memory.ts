/**
 * The last refusals of each user, for an hour. A flood from one user, or of anonymous requests, does not evict other
 * users' refusals.
 */

import { clientErrorCode } from '../decide/limit-message.ts'
import { isRefusalOf, type PastRefusal, type PastRefusals } from '../decide/past-refusal.ts'
import { denialMessage } from '../decide/refusal-message.ts'
import { copyText } from '../formats/bounded-text.ts'
import { errorEntry } from '../formats/errors.ts'
import { lastHeaderValue } from '../formats/headers.ts'
import { appendTo } from '../formats/lists.ts'
import { hourMs } from '../formats/time.ts'
import type { RefusedCheck } from './refused-check.ts'

/** How long a refusal can be asked about. */
const rememberedMs = hourMs
/** Per user; anonymous requests together count as one user. */
const maxPerUser = 100
/** In all; about 2 KB each at most. */
const maxTotal = 10_000
/** Characters of a path and of other text that a client chooses; a request with more is not stored. */
const maxPathLength = 1_024
const maxTextLength = 256
const maxMessageLength = 1_024

interface RefusalMemory extends PastRefusals {
  /** Does nothing for a request without an id, or with long text. */
  note(refused: RefusedCheck): void
}

/** `startedAt` in milliseconds since the epoch. */
export function createRefusalMemory(startedAt = Date.now()): RefusalMemory {
  const slots: PastRefusal[] = []
  /** The slots of each user, oldest first. */
  const byUser = new Map<string, number[]>()
  /** Once all slots are taken: the next one to reassign. */
  let next = 0

  /** A free slot, the user's oldest, or one taken from another user. */
  function slotFor(own: number[]): number {
    if (own.length >= maxPerUser) return own.shift() as number
    if (slots.length < maxTotal) return slots.length
    const slot = next
    next = (next + 1) % maxTotal
    release(slot)
    return slot
  }

  const ownOf = (user: string): readonly PastRefusal[] =>
    (byUser.get(user) ?? []).map((slot) => slots[slot] as PastRefusal)

  function release(slot: number): void {
    const user = userOf(slots[slot] as PastRefusal)
    const own = byUser.get(user)
    own?.splice(own.indexOf(slot), 1)
    if (own?.length === 0) byUser.delete(user)
  }

  return {
    note(refused) {
      const refusal = toKeep(refused)
      if (refusal === undefined) return
      const user = userOf(refusal)
      const slot = slotFor(byUser.get(user) ?? [])
      slots[slot] = refusal
      appendTo(byUser, user, slot)
    },
    find(requestId, user, now) {
      const isIt = (each: PastRefusal) => each.requestId === requestId && isRecent(each, now)
      return user === undefined ? newest(slots.filter(isIt))[0] : ownOf(user).findLast(isIt)
    },
    recent(limit, now, whose) {
      const among = whose ? ownOf(whose.user).filter((each) => isRefusalOf(each, whose)) : slots
      return newest(among.filter((each) => isRecent(each, now))).slice(0, limit)
    },
    since: (now) => (now - startedAt < rememberedMs ? startedAt : undefined),
  }
}

/** Empty for requests without a valid credential; a user's name never is. */
function userOf({ caller }: PastRefusal): string {
  return caller?.user ?? ''
}

/** Newest first; of the same millisecond the later slot. */
function newest(refusals: readonly PastRefusal[]): readonly PastRefusal[] {
  return refusals.toReversed().sort((a, b) => b.at - a.at)
}

function isRecent({ at }: PastRefusal, now: number): boolean {
  return Math.abs(now - at) <= rememberedMs
}

function toKeep(refused: RefusedCheck): PastRefusal | undefined {
  const { code, status, denial, now, reason, caller, method, path, bodyModel, requestId } = refused
  if (requestId === undefined || requestId.length > maxTextLength) return undefined
  const requestedSubscription = lastHeaderValue(refused.subscription)
  if (path.length > maxPathLength) return undefined
  if (Math.max(bodyModel?.length ?? 0, requestedSubscription?.length ?? 0) > maxTextLength) {
    return undefined
  }
  const message = denialMessage(denial, now) ?? errorEntry(code).message
  return {
    requestId,
    at: now,
    code: clientErrorCode({ ...denial, code }, now),
    status,
    reason,
    caller,
    method,
    path,
    bodyModel,
    requestedSubscription: requestedSubscription && copyText(requestedSubscription),
    address: refused.source(),
    states: denial.states ?? [],
    pool: denial.grant?.pool,
    message: copyText(message.slice(0, maxMessageLength)),
  }
}
