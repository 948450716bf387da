/**
 * What a line adds to counters: tokens at the end of the response, or at its admission where the Subscription
 * says so, and one request at its admission, whose hold had taken it. It depends on the line and the resources
 * alone, so every process that reads it counts the same.
 */

import type { Snapshot } from '../../models/rules/snapshot.ts'
import type { Counted } from '../../ratelimit/rules/sums.ts'
import { chargeOf, countersOf, requestCountersOf, type UnusableUsage, type Usage } from './usage.ts'

/** What is needed of a line (journal/line.ts). */
export interface CountableLine {
  readonly state: 'ended' | 'running'
  readonly isMetered: boolean
  readonly startedAt: number
  readonly usage: Usage & Required<Pick<Usage, 'response'>>
}

/** What the line adds; nothing while its request runs. Never throws. */
export function countedOf(
  line: CountableLine,
  snapshot: Snapshot,
  unusableUsage: UnusableUsage,
): readonly Counted[] {
  if (line.state === 'running') return nothing
  const { usage, startedAt } = line
  const { admittedAt: heldAt = 0 } = usage.held ?? {}
  const isHeld = heldAt > 0
  const admittedAt = isHeld ? heldAt : startedAt
  const counted: Counted[] = []
  const { tokens = 0 } = line.isMetered ? chargeOf(usage, unusableUsage) : {}
  if (tokens > 0) {
    const { charge } = snapshot.subscriptions.get(usage.subscription)?.admission ?? {}
    const at = charge === 'admission' ? admittedAt : usage.response.endedAt
    const counters = countersOf(usage, snapshot)
    if (counters.length > 0) counted.push({ at, amount: tokens, counters })
  }
  // What has not taken one, as lists of models, is not limited.
  const requests = line.isMetered || isHeld ? requestCountersOf(usage, snapshot) : []
  if (requests.length > 0) counted.push({ at: admittedAt, amount: 1, counters: requests })
  return counted
}

const nothing: readonly Counted[] = []
