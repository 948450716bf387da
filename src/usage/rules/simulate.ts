/**
 * What resources would have decided about past usage. Answers are replayed in the order of their
 * requests, in the windows that the service counts in: a request is refused if a limit is reached when
 * it starts, and its tokens are added when it ends, to that window or, by `charge: admission`, to the one in
 * which it started. The first window of each counter is empty before the first request.
 *
 * Past usage has no groups, so access and ownership are not decided. Nor is room that requests hold.
 */

import { findSubscription, unusableReason } from '../../decide/selection.ts'
import type { Snapshot } from '../../models/rules/snapshot.ts'
import {
  type CountedLimit,
  isTaken,
  lastSpent,
  limitStates,
} from '../../ratelimit/rules/counter.ts'
import { userInLines } from '../../ratelimit/rules/line-user.ts'
import { spanAt } from '../../ratelimit/rules/windows.ts'

/** Who used what; one object for all their usage, by which it is grouped. */
export interface Spender {
  readonly user: string
  /** Bare name. */
  readonly subscription: string
  /** `<namespace>/<name>`. */
  readonly model: string
}

/** Times in milliseconds since the epoch. */
export interface PastUsage {
  readonly spender: Spender
  readonly startedAt: number
  readonly endedAt: number
  readonly tokens: number
  /**
   * Set for the sums of an hour: how many answers they are of. Only windows of a day or longer are judged
   * by them, to the hour.
   */
  readonly answers?: number
}

/** Why a request would have been refused, if not for a limit. */
export type Unpaid = 'not_found' | 'model_not_in_subscription' | 'model_unhealthy'

export interface SimulatedRefusals extends Spender {
  /** The limit that was reached, or why the subscription does not pay. */
  readonly by: CountedLimit | Unpaid
  requests: number
  tokens: number
  readonly firstAt: number
  lastAt: number
  /** Whether sums of hours are among them, of which the requests are estimated. */
  isEstimate: boolean
}

export interface SimulatedLimit {
  readonly subscription: string
  readonly model: string
  readonly limit: CountedLimit
  /** The most that one user had used in a window, who that was and when; 0: nobody used anything. */
  most: number
  mostBy: string
  mostAt: number
}

export interface Simulation {
  /** Answers that were replayed. */
  readonly answers: number
  readonly refusals: readonly SimulatedRefusals[]
  /** All limits of the resources. */
  readonly limits: readonly SimulatedLimit[]
}

const dayMs = 86_400_000

/** Whether sums of hours say anything about a limit. */
export function isDecidedByHours({ kind, windowMs }: CountedLimit): boolean {
  return kind !== 'concurrency' && windowMs >= dayMs
}

/** Those by name may be shared, or count money, which past usage does not tell. */
function isReplayed({ limitName }: CountedLimit): boolean {
  return limitName === undefined
}

/** A window while usage is replayed; of concurrency it never ends. */
interface ReplayedWindow {
  used: number
  readonly resetsAt: number
}

/** A spender's limits and counters while usage is replayed. */
interface Account {
  readonly spender: Spender
  /** Whose phase the windows have. */
  readonly owner: string
  readonly unpaid: Unpaid | undefined
  readonly chargesAdmission: boolean
  readonly limits: readonly CountedLimit[]
  /** Those that were asked for last. */
  windows: readonly ReplayedWindow[]
  readonly figures: readonly SimulatedLimit[]
}

/** Replays usage. Takes some microseconds for each answer. */
export function simulate(usage: readonly PastUsage[], snapshot: Snapshot): Simulation {
  const limits = new Map<CountedLimit, SimulatedLimit>()
  for (const { name, limits: ofModels } of snapshot.subscriptions.values()) {
    for (const [model, some] of ofModels) {
      const none = { most: 0, mostBy: '', mostAt: 0 }
      for (const limit of some.filter(isReplayed))
        limits.set(limit, { subscription: name, model, limit, ...none })
    }
  }
  const accounts = new Map<Spender, Account>()
  const refusals = new Map<Spender, Map<SimulatedRefusals['by'], SimulatedRefusals>>()
  /** In which windows. */
  const admitted = new Map<PastUsage, readonly ReplayedWindow[]>()
  let answers = 0

  function accountOf(spender: Spender): Account {
    const known = accounts.get(spender)
    if (known !== undefined) return known
    const subscription = findSubscription(snapshot, spender.subscription)
    const unpaid: Unpaid | undefined =
      subscription === undefined ? 'not_found' : unusableReason(subscription, spender.model)
    const all = (unpaid === undefined && subscription?.limits.get(spender.model)) || []
    const own = all.filter(isReplayed)
    const figures = own.map((limit) => limits.get(limit) as SimulatedLimit)
    const account = {
      spender,
      owner: userInLines(spender.user),
      unpaid,
      limits: own,
      windows: [],
      figures,
      chargesAdmission: subscription?.admission?.charge === 'admission',
    }
    accounts.set(spender, account)
    return account
  }

  function refuse(past: PastUsage, by: SimulatedRefusals['by'], share = 1): void {
    const { spender, startedAt, tokens, answers = 1 } = past
    const own = refusals.get(spender) ?? new Map<SimulatedRefusals['by'], SimulatedRefusals>()
    refusals.set(spender, own)
    const known = own.get(by) ?? {
      user: spender.user,
      subscription: spender.subscription,
      model: spender.model,
      by,
      requests: 0,
      tokens: 0,
      firstAt: startedAt,
      lastAt: startedAt,
      isEstimate: false,
    }
    own.set(by, known)
    known.requests += Math.ceil(answers * share)
    known.tokens += Math.ceil(tokens * share)
    known.lastAt = startedAt
    if (past.answers !== undefined) known.isEstimate = true
  }

  /** The windows at an instant, none of which is before those of the last call. */
  function windowsAt(account: Account, at: number): readonly ReplayedWindow[] {
    const { limits: own, owner, windows } = account
    if (windows.length === own.length && windows.every(({ resetsAt }) => at < resetsAt))
      return windows
    account.windows = own.map((limit, i) => {
      const last = windows[i]
      if (last !== undefined && at < last.resetsAt) return last
      const isOpen = limit.kind === 'concurrency'
      return { used: 0, resetsAt: isOpen ? Infinity : spanAt(limit.windows, owner, at).end }
    })
    return account.windows
  }

  function add(
    { figures, spender }: Account,
    windows: readonly ReplayedWindow[],
    i: number,
    amount: number,
    at: number,
  ): void {
    const window = windows[i] as ReplayedWindow
    window.used += amount
    const figure = figures[i] as SimulatedLimit
    if (window.used > figure.most) {
      Object.assign(figure, { most: window.used, mostBy: spender.user, mostAt: at })
    }
  }

  function begin(past: PastUsage): void {
    const account = accountOf(past.spender)
    const { unpaid, limits: own } = account
    if (unpaid !== undefined) refuse(past, unpaid)
    else if (past.answers !== undefined) addHour(account, past, past.answers)
    else {
      const windows = windowsAt(account, past.startedAt)
      const by = lastSpent(limitStates(own, windows, past.startedAt))
      if (by !== undefined) refuse(past, by.limit)
      else {
        admitted.set(past, windows)
        for (const [i, limit] of own.entries()) {
          if (isTaken(limit)) add(account, windows, i, 1, past.startedAt)
        }
      }
    }
  }

  function end(past: PastUsage): void {
    const begun = admitted.get(past)
    // Refused, or not begun yet: of a request that ends as it begins, `begin` comes first.
    if (begun === undefined) return
    admitted.delete(past)
    const account = accountOf(past.spender)
    const windows = account.chargesAdmission ? begun : windowsAt(account, past.endedAt)
    for (const [i, { kind }] of account.limits.entries()) {
      if (kind === 'tokens' && past.tokens > 0) add(account, windows, i, past.tokens, past.endedAt)
      if (kind === 'concurrency') add(account, begun, i, -1, past.endedAt)
    }
  }

  /** What of an hour's sums is beyond the limit that they exceed most is refused. */
  function addHour(account: Account, past: PastUsage, count: number): void {
    const { startedAt } = past
    const windows = windowsAt(account, startedAt)
    const states = limitStates(account.limits, windows, startedAt)
    const amountOf = ({ kind }: CountedLimit) => (kind === 'tokens' ? past.tokens : count)
    let refused = 0
    let by: CountedLimit | undefined
    for (const { limit, remaining } of states) {
      const beyond = isDecidedByHours(limit)
        ? 1 - Number(remaining) / Math.max(1, amountOf(limit))
        : 0
      if (beyond <= refused) continue
      refused = beyond
      by = limit
    }
    if (by !== undefined) refuse(past, by, refused)
    for (const [i, limit] of account.limits.entries()) {
      const amount = Math.round(amountOf(limit) * (1 - refused))
      if (isDecidedByHours(limit)) add(account, windows, i, amount, startedAt)
    }
  }

  const begins = usage.toSorted((a, b) => a.startedAt - b.startedAt)
  const ends = usage.toSorted((a, b) => a.endedAt - b.endedAt)
  let ended = 0
  for (const past of begins) {
    for (; (ends[ended]?.endedAt ?? Infinity) <= past.startedAt; ended += 1) {
      end(ends[ended] as PastUsage)
    }
    answers += past.answers ?? 1
    begin(past)
    if (past.endedAt <= past.startedAt) end(past)
  }
  for (; ended < ends.length; ended += 1) end(ends[ended] as PastUsage)
  return {
    answers,
    refusals: [...refusals.values()].flatMap((own) => [...own.values()]),
    limits: [...limits.values()],
  }
}
