/**
 * What a line adds to counters: tokens and money at the end of the response, or at its admission where the Subscription
 * says so, and one request at its admission, whose hold had taken it. Of limits by name it depends on the line alone, of
 * the others on the resources, too; so every process that reads it counts the same.
 */

import type { Exact } from '../../formats/exact.ts'
import type { Snapshot } from '../../models/rules/snapshot.ts'
import { type Counter, isOfRequests } from '../../ratelimit/rules/counter.ts'
import {
  type ChargedLimit,
  counterOfCharged,
  counterOwnerOf,
  readChargedLimit,
  type Whose,
} from '../../ratelimit/rules/named-limits.ts'
import type { Counted } from '../../ratelimit/rules/sums.ts'
import { amountOf } from './amounts.ts'
import {
  chargeOf,
  requestCountersOf,
  tokenCountersOf,
  type UnusableUsage,
  type Usage,
} from './usage.ts'

/** What is needed of a line (journal/line.ts). */
export interface CountableLine {
  readonly state: 'ended' | 'running'
  /** Whether its tokens are counted: other operations have lines for durations and health alone. */
  readonly isMetered: boolean
  /** When its request came, in milliseconds since the epoch; its end is in `usage.response`. */
  readonly startedAt: number
  /** Who asked for what, and what was used; of one that runs, so far. Always with its id and end. */
  readonly usage: Usage & Required<Pick<Usage, 'response'>>
}

/** What a line adds to one limit by name. */
interface ChargedAmount {
  readonly limit: ChargedLimit
  readonly whom: string
  readonly counter: Counter
  /** Milliseconds since the epoch. */
  readonly at: number
  readonly amount: Exact
}

/** What the line adds; nothing while its request runs. Never throws. */
export function countedOf(
  line: CountableLine,
  snapshot: Snapshot,
  unusableUsage: UnusableUsage,
): readonly Counted[] {
  if (line.state === 'running') return nothing
  const { usage } = line
  const admittedAt = admittedAtOf(line)
  const counted: Counted[] = []
  const charge = line.isMetered ? chargeOf(usage, unusableUsage) : undefined
  const tokens = charge === undefined ? 0 : amountOf('tokens', usage, charge)
  if (tokens > 0) {
    const { admission } = snapshot.subscriptions.get(usage.subscription) ?? {}
    const at = admission?.charge === 'admission' ? admittedAt : usage.response.endedAt
    const counters = tokenCountersOf(usage, snapshot)
    if (counters.length > 0) counted.push({ at, amount: tokens, counters })
  }
  // What has not taken one, as lists of models, is not limited.
  const isLimited = line.isMetered || (usage.held?.admittedAt ?? 0) > 0
  const requests = isLimited ? requestCountersOf(usage, snapshot) : []
  if (requests.length > 0) counted.push({ at: admittedAt, amount: 1, counters: requests })
  for (const { at, amount, counter } of chargedOf(line, unusableUsage)) {
    counted.push({ at, amount, counters: [counter] })
  }
  return counted
}

const nothing: readonly Counted[] = []

/** What the line adds to the limits by name that it says; nothing while its request runs. Never throws. */
export function chargedOf(
  line: CountableLine,
  unusableUsage: UnusableUsage,
): readonly ChargedAmount[] {
  const { usage, isMetered, state } = line
  const { limits } = usage
  if (limits === undefined || state === 'running') return []
  const whose = whoseOf(usage)
  const admittedAt = admittedAtOf(line)
  const charge = chargeOf(usage, unusableUsage)
  return limits.flatMap((text) => {
    const limit = readChargedLimit(text)
    if (limit === undefined || limit.kind === 'concurrency') return []
    const isRequest = isOfRequests(limit)
    const amount = isRequest ? 1 : isMetered ? amountOf(limit.kind, usage, charge) : 0
    if (amount === 0) return []
    const at = isRequest || usage.chargesAdmission ? admittedAt : usage.response.endedAt
    return {
      limit,
      whom: counterOwnerOf(limit, whose),
      counter: counterOfCharged(limit, whose),
      at,
      amount,
    }
  })
}

/** Whose request it is. */
export function whoseOf(usage: Usage): Whose {
  const { user, subscription, keyId = '', pool = '', organization = '' } = usage
  return { user, subscription, keyId, pool, organization }
}

/** By which its request was admitted; without a hold when it began. */
function admittedAtOf({ usage, startedAt }: CountableLine): number {
  return usage.held?.admittedAt || startedAt
}
