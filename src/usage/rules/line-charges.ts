/**
 * The amounts that a line adds to counters: tokens and money at the end of the response, or at its admission if the
 * Subscription says so, and one request at its admission, when its hold began. They depend on the line alone, so every
 * process that reads it counts the same, whatever its resources. Lines of earlier versions lack the windows of limits
 * without a name: then the resources' windows are used.
 */

import type { ExactInt } from '../../formats/exact.ts'
import type { LimitKind } from '../../kinds/limits.ts'
import type { Snapshot } from '../../models/rules/snapshot.ts'
import {
  type ChargedLimit,
  chargedCounter,
  counterOwnerOf,
  parseChargedLimit,
  type RequestOwner,
} from '../../ratelimit/rules/charged-limits.ts'
import type { Counter } from '../../ratelimit/rules/counter.ts'
import type { LineUse } from '../../ratelimit/rules/sums.ts'
import { amountOf } from './amounts.ts'
import {
  type Charge,
  chargeOf,
  countersOfKind,
  tokenCountersOf,
  type UnusableUsage,
  type Usage,
} from './usage.ts'

/** The fields of a line that counting needs (journal/journal-line.ts). */
export interface CountableLine {
  readonly state: 'ended' | 'running'
  /** Whether its tokens are counted; lines of other operations serve durations and health alone. */
  readonly isMetered: boolean
  /** When its request arrived, in milliseconds since the epoch; its end is in `usage.response`. */
  readonly startedAt: number
  /** Caller, model and use; while the request runs, its use so far. Always with id and end. */
  readonly usage: Usage & Required<Pick<Usage, 'response'>>
  /** The result of `chargeOfLine`, which the reader calls once. */
  readonly charge: Charge | undefined
}

/** The amount that a line adds to one limit by name. */
interface ChargedAmount {
  readonly limit: ChargedLimit
  readonly whom: string
  readonly counter: Counter
  /** Milliseconds since the epoch. */
  readonly at: number
  readonly amount: ExactInt
}

/** The charge of a line's response, or undefined if it is not metered or its request runs. */
export function chargeOfLine(
  { state, isMetered, usage }: Omit<CountableLine, 'charge'>,
  unusableUsage: UnusableUsage,
): Charge | undefined {
  return isMetered && state === 'ended' ? chargeOf(usage, unusableUsage) : undefined
}

/** The amounts that the line adds to counters; none while its request runs. Never throws. */
export function lineUses(line: CountableLine, snapshot: Snapshot): readonly LineUse[] {
  const { usage, isMetered, state } = line
  if (state === 'running') return nothing
  const counted: LineUse[] = []
  const add = (kind: LimitKind, isAtAdmission: boolean, counters: readonly Counter[]): void => {
    const added = counters.length === 0 ? undefined : additionOf(line, kind, isAtAdmission)
    if (added !== undefined) counted.push({ ...added, counters })
  }
  if (isMetered) {
    const { admission } = snapshot.subscriptions.get(usage.subscription) ?? {}
    const isAtAdmission =
      usage.windows === undefined ? admission?.charge === 'admission' : usage.chargesAdmission
    add('tokens', isAtAdmission === true, tokenCountersOf(usage, snapshot))
  }
  // A request without a hold, such as for the list of models, is not limited.
  if (isMetered || (usage.held?.admittedAt ?? 0) > 0) {
    add('requests', true, countersOfKind(usage, snapshot, 'requests'))
  }
  for (const { at, amount, counter } of namedLimitCharges(line)) {
    counted.push({ at, amount, counters: [counter] })
  }
  return counted
}

const nothing: readonly LineUse[] = []

/** The amounts that the line adds to the limits by name that it lists; none while its request runs. Never throws. */
export function namedLimitCharges(line: CountableLine): readonly ChargedAmount[] {
  const { usage, state } = line
  const { limits } = usage
  if (limits === undefined || state === 'running') return []
  const whose = requestOwnerOf(usage)
  return limits.flatMap((text) => {
    const limit = parseChargedLimit(text)
    const added = limit && additionOf(line, limit.kind, usage.chargesAdmission === true)
    if (limit === undefined || added === undefined) return []
    const [whom, counter] = [counterOwnerOf(limit, whose), chargedCounter(limit, whose)]
    return { limit, whom, counter, ...added }
  })
}

/**
 * The amount that the line adds to a counter of this kind, and its time, or undefined if it adds nothing. A request
 * counts at its admission.
 */
function additionOf(
  { usage, charge, startedAt }: CountableLine,
  kind: LimitKind,
  isAtAdmission: boolean,
): Pick<LineUse, 'at' | 'amount'> | undefined {
  const isRequest = kind === 'requests'
  const amount = isRequest ? 1 : charge === undefined ? 0 : amountOf(kind, usage, charge)
  if (amount === 0) return undefined
  // The admission of the request or, without a hold, its begin.
  const at =
    isRequest || isAtAdmission ? usage.held?.admittedAt || startedAt : usage.response.endedAt
  return { at, amount }
}

/** The names that determine whose request it is. */
export function requestOwnerOf(usage: Usage): RequestOwner {
  const { user, subscription, keyId = '', pool = '', organization = '' } = usage
  return { user, subscription, keyId, pool, organization }
}
