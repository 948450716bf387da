/**
 * Simulates what resources would have decided about past usage. Responses are replayed in the order of their requests,
 * in the windows of the service: a request is refused if a limit is spent when it starts, and its tokens are added when
 * it ends, to that window or, with `charge: admission`, to the one in which it started. The first window of each
 * counter is empty before the first request.
 *
 * Past usage has no groups, so access and ownership are not decided; limits per group are replayed where the group is
 * known. Holds are ignored. Prices and weights come from the resources.
 */

import { findSubscription, unusableReason } from '../../decide/subscription-selection.ts'
import { addExact, type ExactInt, subtractExact } from '../../formats/exact.ts'
import { getOrAdd } from '../../formats/lists.ts'
import { dayMs } from '../../formats/time.ts'
import {
  type LimitSubject,
  limitsOnModel,
  poolsOfSubscription,
  sharerOfCounter,
  subscriptionAndModels,
} from '../../models/rules/shared-limits.ts'
import type { CompiledSubscription, Snapshot } from '../../models/rules/snapshot.ts'
import type { Counter } from '../../ratelimit/rules/counter.ts'
import { counterOf } from '../../ratelimit/rules/counter-cache.ts'
import {
  type CountedLimit,
  isRequestLimit,
  lastSpentLimit,
  limitStates,
} from '../../ratelimit/rules/limit.ts'
import { boundsAt } from '../../ratelimit/rules/windows.ts'
import { amountOfParts, type ChargeParts, type PricesAndWeights } from './amounts.ts'
import type { Usage } from './usage.ts'

/** A user, model and subscription; one object for all their usage, which is grouped by it. */
export type Spender = Pick<Usage, 'user' | 'subscription' | 'model' | 'pool'>

/** Times in milliseconds since the epoch. */
export interface PastUsage {
  readonly spender: Spender
  readonly startedAt: number
  readonly endedAt: number
  readonly tokens: number
  /** The tokens by kind, or undefined if only their sum is known. */
  readonly parts?: ChargeParts
  /**
   * For the sum of an hour: its number of responses. Such sums decide only about windows of a day or longer, to the
   * hour.
   */
  readonly answers?: number
}

/** Why a request would have been refused, other than by a limit. */
type Unpaid = 'not_found' | 'model_not_in_subscription' | 'model_unhealthy'

export interface SimulatedRefusals extends Spender {
  /** The spent limit, or why the subscription does not pay. */
  readonly by: CountedLimit | Unpaid
  requests: number
  tokens: number
  readonly firstAt: number
  lastAt: number
  /** Whether the figures include sums of hours, whose requests are estimated. */
  isEstimate: boolean
}

interface SimulatedLimit extends LimitSubject {
  readonly limit: CountedLimit
  /** Whether sums of hours can decide the limit (`isDecidedByHours`). */
  readonly isDecidedByHours: boolean
  /** Whether the limit is per group, and the group of some usage is unknown. */
  lacksGroups: boolean
  /** The maximum use of a window, with user and time; 0 if nothing was used. */
  most: ExactInt
  /** Whose use was the maximum: a user, or the group that shares the limit; empty if all users share it. */
  mostBy: string
  mostAt: number
}

export interface Simulation {
  /** Responses that were replayed. */
  readonly answers: number
  readonly refusals: readonly SimulatedRefusals[]
  /** All limits of the resources. */
  readonly limits: readonly SimulatedLimit[]
}

/** Whether sums of hours can decide a limit: its windows are long, and all tokens have the same weight. */
function isDecidedByHours({ kind, parsedWindow }: CountedLimit, rated: PricesAndWeights): boolean {
  const isLong = 'every' in parsedWindow || parsedWindow.ms >= dayMs
  return isLong && (kind === 'requests' || (kind === 'tokens' && rated.weights === undefined))
}

/** The group whose counter the spender would use: the only one, or the recorded one if it still exists. */
function poolIn(subscription: CompiledSubscription, { pool }: Spender): string | undefined {
  const pools = poolsOfSubscription(subscription)
  return pools.length > 1 ? pools.find((each) => each === pool) : pools[0]
}

/** A window during the replay; for concurrency it never ends. */
interface ReplayedWindow {
  used: ExactInt
  readonly resetsAt: number
}

/** A counter during the replay, which several accounts may share. */
interface Replayed {
  readonly limit: CountedLimit
  readonly isEnforced: boolean
  readonly counter: Counter
  readonly figure: SimulatedLimit
  /** The latest window. */
  window: ReplayedWindow | undefined
}

/** A spender's counters during the replay. */
interface Account {
  readonly spender: Spender
  readonly unpaid: Unpaid | undefined
  readonly chargesAdmission: boolean
  readonly rated: PricesAndWeights
  readonly counters: readonly Replayed[]
}

/** Replays usage. Takes some microseconds for each response. */
export function simulate(usage: readonly PastUsage[], snapshot: Snapshot): Simulation {
  const limits = limitsIn(snapshot)
  const accounts = new Map<Spender, Account>()
  const counters = new Map<string, Replayed>()
  const refusals = new Map<Spender, Map<SimulatedRefusals['by'], SimulatedRefusals>>()
  /** Admitted usage, with its windows. */
  const admitted = new Map<PastUsage, readonly ReplayedWindow[]>()

  function accountOf(spender: Spender): Account {
    const known = accounts.get(spender)
    if (known !== undefined) return known
    const { user, model } = spender
    const subscription = findSubscription(snapshot, spender.subscription)
    const unpaid: Unpaid | undefined =
      subscription === undefined ? 'not_found' : unusableReason(subscription, model)
    const own = unpaid === undefined && subscription ? [...limitsOnModel(subscription, model)] : []
    const pool = subscription && poolIn(subscription, spender)
    const account = {
      spender,
      unpaid,
      counters: own.flatMap(({ limit, isEnforced }) => {
        const figure = limits.get(limit.keyPrefix) as SimulatedLimit
        if (limit.scope === 'group' && pool === undefined) {
          figure.lacksGroups = true
          return []
        }
        const counter = counterOf(limit, user, pool)
        const replayed = counters.get(counter.key) ?? {
          ...{ limit, isEnforced, counter, figure },
          window: undefined,
        }
        counters.set(counter.key, replayed)
        return replayed
      }),
      rated: subscription ? ratedIn(subscription, model) : {},
      chargesAdmission: subscription?.admission?.charge === 'admission',
    }
    accounts.set(spender, account)
    return account
  }

  function refuse(past: PastUsage, by: SimulatedRefusals['by'], share = 1): void {
    const { spender, startedAt, tokens, answers = 1 } = past
    const own = getOrAdd(refusals, spender, () => new Map())
    const known: SimulatedRefusals = getOrAdd(own, by, () => ({
      user: spender.user,
      subscription: spender.subscription,
      model: spender.model,
      by,
      requests: 0,
      tokens: 0,
      firstAt: startedAt,
      lastAt: startedAt,
      isEstimate: false,
    }))
    known.requests += Math.ceil(answers * share)
    known.tokens += Math.ceil(tokens * share)
    known.lastAt = startedAt
    if (past.answers !== undefined) known.isEstimate = true
  }

  /** The window at an instant, which must not precede the last call's window. */
  function windowAt(replayed: Replayed, at: number): ReplayedWindow {
    const { counter, limit, window } = replayed
    if (window !== undefined && at < window.resetsAt) return window
    const isOpen = limit.kind === 'concurrency'
    const { end } = isOpen ? { end: Infinity } : boundsAt(counter.window, counter.owner, at)
    replayed.window = { used: 0, resetsAt: end }
    return replayed.window
  }

  function add(
    { figure, limit, counter }: Replayed,
    window: ReplayedWindow,
    amount: ExactInt,
    { user }: Spender,
    at: number,
  ): void {
    window.used = addExact(window.used, amount)
    if (window.used <= figure.most) return
    const mostBy = limit.scope === 'user' ? user : (sharerOfCounter(limit, counter) ?? '')
    Object.assign(figure, { most: window.used, mostBy, mostAt: at })
  }

  function begin(past: PastUsage) {
    const account = accountOf(past.spender)
    const { unpaid, counters: own } = account
    if (unpaid !== undefined) return refuse(past, unpaid)
    if (past.answers !== undefined) return addHour(account, past, past.answers)
    const { startedAt, spender } = past
    const windows = own.map((replayed) => windowAt(replayed, startedAt))
    const all = own.map(({ limit }) => limit)
    const states = limitStates(all, windows, startedAt)
    const by = lastSpentLimit(states.filter((_, i) => own[i]?.isEnforced))
    if (by !== undefined) return refuse(past, by.limit)
    admitted.set(past, windows)
    for (const [i, replayed] of own.entries()) {
      const window = windows[i] as ReplayedWindow
      if (isRequestLimit(replayed.limit)) add(replayed, window, 1, spender, startedAt)
    }
  }

  function end(past: PastUsage): void {
    const begun = admitted.get(past)
    // The request was refused, or has not begun yet: if it ends as it begins, `begin` comes first.
    if (begun === undefined) return
    admitted.delete(past)
    const { counters: own, chargesAdmission, rated, spender } = accountOf(past.spender)
    for (const [i, replayed] of own.entries()) {
      const { kind } = replayed.limit
      const atBegin = begun[i] as ReplayedWindow
      if (kind === 'concurrency') add(replayed, atBegin, -1, spender, past.endedAt)
      if (isRequestLimit(replayed.limit)) continue
      const window = chargesAdmission ? atBegin : windowAt(replayed, past.endedAt)
      const amount = amountOfParts(kind, partsOf(past), rated)
      if (amount > 0) add(replayed, window, amount, spender, past.endedAt)
    }
  }

  /** Refuses the share of an hour's sum that exceeds the limit that is exceeded most. */
  function addHour({ counters: all }: Account, past: PastUsage, count: number): void {
    const { startedAt, spender } = past
    const own = all.filter(({ figure }) => figure.isDecidedByHours)
    const amounts = own.map(({ limit }) => (limit.kind === 'tokens' ? past.tokens : count))
    let refused = 0
    let by: CountedLimit | undefined
    for (const [i, replayed] of own.entries()) {
      const { limit, isEnforced } = replayed
      const { used } = windowAt(replayed, startedAt)
      const left = Math.max(0, Number(subtractExact(limit.limit, used)))
      const beyond = isEnforced ? 1 - left / Math.max(1, amounts[i] as number) : 0
      if (beyond <= refused) continue
      refused = beyond
      by = limit
    }
    if (by !== undefined) refuse(past, by, refused)
    for (const [i, replayed] of own.entries()) {
      const amount = Math.round((amounts[i] as number) * (1 - refused))
      add(replayed, windowAt(replayed, startedAt), amount, spender, startedAt)
    }
  }

  replay(usage, begin, end)
  return {
    answers: usage.reduce((sum, past) => sum + (past.answers ?? 1), 0),
    refusals: [...refusals.values()].flatMap((own) => [...own.values()]),
    limits: [...limits.values()],
  }
}

/** The limits of the resources, without use, by the key prefix of their counters. */
function limitsIn({ subscriptions }: Snapshot): Map<string, SimulatedLimit> {
  const limits = new Map<string, SimulatedLimit>()
  for (const subscription of subscriptions.values()) {
    for (const model of subscription.limits.keys()) {
      const rated = ratedIn(subscription, model)
      for (const { limit } of limitsOnModel(subscription, model)) {
        if (limits.has(limit.keyPrefix)) continue
        limits.set(limit.keyPrefix, {
          ...subscriptionAndModels(limit, model, subscription),
          limit,
          isDecidedByHours: isDecidedByHours(limit, rated),
          ...{ lacksGroups: false, most: 0, mostBy: '', mostAt: 0 },
        })
      }
    }
  }
  return limits
}

/** Begins and ends all usage in the order of time. At one instant ends come first, but none before its begin. */
function replay(
  usage: readonly PastUsage[],
  begin: (past: PastUsage) => void,
  end: (past: PastUsage) => void,
): void {
  const ends = usage.toSorted((a, b) => a.endedAt - b.endedAt)
  let ended = 0
  for (const past of usage.toSorted((a, b) => a.startedAt - b.startedAt)) {
    for (; (ends[ended]?.endedAt ?? Infinity) <= past.startedAt; ended += 1) {
      end(ends[ended] as PastUsage)
    }
    begin(past)
    if (past.endedAt <= past.startedAt) end(past)
  }
  for (; ended < ends.length; ended += 1) end(ends[ended] as PastUsage)
}

/** If only the total is known, all tokens count as output. */
function partsOf({ parts, tokens }: PastUsage): ChargeParts {
  return parts ?? { input: 0, cached: 0, cacheWrite: 0, output: tokens, isWhole: true }
}

/** The prices and weights that responses would be charged by. */
function ratedIn({ terms }: Pick<CompiledSubscription, 'terms'>, model: string): PricesAndWeights {
  const text = terms.get(model)?.tariff?.text
  if (text === undefined) return {}
  const { prices, weights } = JSON.parse(`{${text}}`)
  return { prices, weights }
}
