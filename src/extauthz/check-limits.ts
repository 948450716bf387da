/**
 * Enforces the limits of a grant: reads their counters or, if the request holds or counts something, asks the store of
 * holds. The step `limits` (decide/steps/limits.ts) decides by the result.
 */

import { randomUUID } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import type { AccessRequest } from '../decide/access-request.ts'
import type { Decision, Grant } from '../decide/decision.ts'
import {
  estimatorOf,
  holdOf,
  isSizeReadFromBody,
  reservesTokens,
  withEstimate,
} from '../decide/request-hold.ts'
import {
  enforceBeforeBody,
  enforceHold,
  enforceLimits,
  refuseOversizedRequest,
} from '../decide/steps/limits.ts'
import { ServiceError } from '../formats/errors.ts'
import type { CounterStore } from '../ratelimit/counters.ts'
import type { HoldStore } from '../ratelimit/holds.ts'
import type { ActiveIncreases } from '../ratelimit/increases/active-increases.ts'
import { countersOf } from '../ratelimit/rules/counter-cache.ts'
import type { Estimators } from '../ratelimit/rules/estimates/estimators.ts'
import type { Hold, HoldResult } from '../ratelimit/rules/hold.ts'
import { type CountedLimit, isRequestLimit } from '../ratelimit/rules/limit.ts'

interface LimitsDeps {
  readonly counters: Pick<CounterStore, 'read'>
  /** None by default. */
  readonly increases?: Pick<ActiveIncreases, 'raiseOf'> | undefined
  /**
   * Reserves room for requests, and counts them in each limit on requests. Without it, all limits are compared with
   * their counters.
   */
  readonly holding?: HoldingDeps | undefined
  /** Estimates the minimum charge if nothing is held and the model reports less; without it, there is none. */
  readonly charging?: ChargingDeps | undefined
}

interface ChargingDeps {
  readonly estimators: Estimators
  /** Whether it always does; else only under a limit on money, where nothing is free. */
  readonly isAlways: boolean
}

interface HoldingDeps {
  readonly holds: HoldStore
  readonly estimators: Estimators
  /**
   * What to do while the hold store is unreachable: with `allow` this process decides alone, with `deny` nothing is
   * admitted. Either way, requests that reserve are refused for the first `briefOutageMs` of an outage.
   */
  readonly onLoss: 'allow' | 'deny'
  /** Only decides, and holds nothing. */
  readonly isDry?: boolean
  /** A monotonic clock in milliseconds; `performance.now` by default. */
  readonly monotonic?: () => number
  /** Resolves after this many milliseconds. */
  readonly pause?: (ms: number) => Promise<unknown>
}

/** The call of a Check. */
export interface CheckCall {
  /** Calls `undo` if the gateway cannot read the decision, or resets the call without having read it, because its client has gone. */
  whenReset(undo: () => void): void
  /** Calls it now: the decision is not sent. */
  takeBack?(): void
}

/** Decides a grant by its limits. Returns without a promise if all counters are in memory. */
export type LimitEnforcer = (
  grant: Grant,
  request: AccessRequest,
  now: number,
  call?: CheckCall,
) => Decision | Promise<Decision>

/**
 * Outages of up to this length, such as pauses and usual failovers, do not loosen the bound of requests that reserve,
 * whatever the setting. Milliseconds.
 */
export const briefOutageMs = 10_000

/** A lost connection is usually back within a second: Checks in that time ask again. Milliseconds. */
const blipMs = 1_000
const blipPausesMs = [100, 300, 600]
/** A partition that was not asked for this long may have been available: the next failure begins an outage. Milliseconds. */
const unaskedMs = 60_000

/** Waits for the line of a request that may have ended, in milliseconds; lines usually take less than ten. */
const waitsMs = [10, 20, 30, 40]
/** With more requests in progress the client does not wait for each response. */
const fewOpen = 2

/** With the number of the Check, a unique name for each asker. */
const ownName = randomUUID().slice(0, 13)
let checks = 0

export function createLimitEnforcer({
  counters,
  increases,
  holding,
  charging,
}: LimitsDeps): LimitEnforcer {
  const reserve = holding && createReserve(holding, counters)
  const reserveDry = holding && createReserve({ ...holding, isDry: true }, counters)
  const statesOf = (limits: readonly CountedLimit[], { caller, pool }: Grant, now: number) =>
    counters.read(countersOf(limits, caller.user, pool), now)

  function enforce(grant: Grant, request: AccessRequest, now: number, call: CheckCall | undefined) {
    const isReserving = reserve !== undefined && reservesTokens(grant)
    if (grant.isUnread || (isReserving && request.isUnread && isSizeReadFromBody(request))) {
      const limits = grant.limits.filter((limit) => !isRequestLimit(limit))
      const states = statesOf(limits, grant, now)
      return thenOrNow(states, (read) => {
        const decision = enforceBeforeBody(grant, limits, read, now)
        if (decision.allowed || !grant.countsRequests || reserveDry === undefined) return decision
        // A limit on requests may end later, and the refusal shows all limits. Nothing is admitted here.
        const complete = reserveDry(grant, request, now)
        const chosen = thenOrNow(complete, (all) =>
          all.allowed || all.states === undefined ? decision : all,
        )
        // A store that is away does not take this refusal back.
        return chosen instanceof Promise ? chosen.catch(() => decision) : chosen
      })
    }
    if (isReserving || (reserve !== undefined && grant.countsRequests)) {
      return reserve(grant, request, now, call)
    }
    const states = statesOf(grant.limits, grant, now)
    return thenOrNow(states, (read) => enforceLimits(grant, read, now))
  }

  function charge(decision: Decision, request: AccessRequest): Decision {
    if (charging === undefined || !decision.allowed) return decision
    const { estimators, isAlways } = charging
    const isDue = isAlways || (decision.isByTariff && hasCostLimit(decision))
    return isDue ? withEstimate(decision, request, estimators) : decision
  }

  return (granted, request, now, call) => {
    if (granted.limits.length === 0) return granted
    const grant = increases?.raiseOf(granted, now) ?? granted
    return thenOrNow(enforce(grant, request, now, call), (decision) => charge(decision, request))
  }
}

/** Continues with the value: at once if it is there. */
export function thenOrNow<Value, Result>(
  value: Value | Promise<Value>,
  act: (value: Value) => Result | Promise<Result>,
): Result | Promise<Result> {
  return value instanceof Promise ? value.then(act) : act(value)
}

type Ask = HoldStore['hold']
type Asked = ReturnType<Ask>

function createReserve(
  { holds, estimators, onLoss, isDry = false, pause = delay, ...deps }: HoldingDeps,
  counters: LimitsDeps['counters'],
): LimitEnforcer {
  const { monotonic = () => performance.now() } = deps
  const outages = createHoldOutages()

  async function retryWhileBusy(first: Asked, asked: Hold, attempt: () => Asked) {
    let result = await first
    // Only a shared store answers with a promise.
    if (first instanceof Promise) outages.end(() => holds.partitionsOf?.(asked) ?? [])
    for (const ms of waitsMs) {
      if (!mayHaveEnded(result, asked.id)) break
      await pause(ms)
      result = await attempt()
    }
    return result
  }

  return function reserve(grant, request, now, call) {
    const isReserving = reservesTokens(grant)
    const estimator = estimatorOf(estimators, grant)
    // A request without an id is counted, too, although its end cannot be recognized.
    const id = isDry
      ? undefined
      : (request.requestId ?? (grant.countsRequests ? randomUUID() : undefined))
    const hold = holdOf(grant, request, estimator, now, id)
    const oversized = refuseOversizedRequest(hold)
    if (oversized !== undefined) return oversized
    const { counters: tokens, requestCounters = [] } = hold
    let asker: string | undefined
    let retries = 0
    let firstFailedAt: number | undefined
    const begunAt = monotonic()

    function nameAsker(): string | undefined {
      return id === undefined || !call ? undefined : `${ownName}-${checks++}`
    }

    /** The result's windows are those of `tokens`, then those of `requestCounters`. */
    function conclude(result: HoldResult): Decision {
      const own = asker
      if (result.outcome === 'held' && id !== undefined && own !== undefined) {
        call?.whenReset(undoOf(holds, hold, id, own))
      }
      return enforceHold(grant, hold, result, estimator.defaultMs)
    }

    function ask(from: Ask, asked: Hold, then: (result: HoldResult) => Decision) {
      // A grant whose response is lost, and the granted part of a refusal, are released under the name of their asker.
      const attempt = () => {
        asker = nameAsker()
        return from({ ...asked, asker }, now)
      }
      const result = attempt()
      if (!(result instanceof Promise) && !mayHaveEnded(result, asked.id)) return then(result)
      return retryWhileBusy(result, asked, attempt).then(then, decideAlone)
    }

    /** Compares tokens with their counters, and counts the request in the other limits. */
    function decideByUse(from: Ask, used: HoldResult['windows']): Decision | Promise<Decision> {
      if (requestCounters.length === 0) return enforceLimits(grant, used, now)
      const isSpent = tokens.some(({ limit }, i) => (used[i]?.used ?? 0) >= limit)
      const asked = { ...hold, counters: [], ...(isSpent && { id: undefined }) }
      return ask(from, asked, (result) => {
        const windows = [...used, ...result.windows]
        return conclude({ ...result, windows, ...(isSpent && { outcome: 'spent' }) })
      })
    }

    async function decideAlone(error: unknown): Promise<Decision> {
      if (isBug(error)) throw error
      const at = monotonic()
      firstFailedAt ??= at
      const awayMs = firstFailedAt - outages.fail(holds.failedPartition?.(error), at)
      const isBlip = awayMs < blipMs && at - begunAt < blipMs
      const pauseMs = isBlip ? blipPausesMs[retries++] : undefined
      if (isReserving && asker !== undefined && pauseMs !== undefined) {
        await pause(pauseMs)
        return ask(holds.hold, hold, conclude)
      }
      const isBrief = isReserving && awayMs < briefOutageMs
      if (onLoss === 'deny' || isBrief) throw new ServiceError('counters_unavailable')
      const used = await counters.read(tokens, now)
      const { holdAlone } = holds
      if (isReserving && holdAlone !== undefined) return ask(holdAlone, hold, conclude)
      return decideByUse(holdAlone ?? holds.hold, used)
    }

    if (isReserving) return ask(holds.hold, hold, conclude)
    return thenOrNow(counters.read(tokens, now), (used) => decideByUse(holds.hold, used))
  }
}

/**
 * Not in `createReserve`, because connections keep thousands of these functions: one made there would retain its call,
 * with the message and the buffer that it was read into.
 */
function undoOf(
  holds: HoldStore,
  { counters, requestCounters = [] }: Hold,
  id: string,
  asker: string,
): () => void {
  return () => holds.undo([...counters, ...requestCounters], id, asker)
}

interface HoldOutage {
  readonly since: number
  readonly failedAt: number
}

/**
 * Outages of the store of holds: of all of it, and of single partitions, such as those on one node of a Redis Cluster.
 * Times are monotonic, in milliseconds.
 */
function createHoldOutages() {
  const open = new Map<string, HoldOutage>()

  function fail(partition: string, at: number): number {
    const last = open.get(partition)
    const since = last === undefined || at - last.failedAt >= unaskedMs ? at : last.since
    open.set(partition, { since, failedAt: at })
    return since
  }

  return {
    /** Notes that a partition, or an unknown one, has failed. Returns when the outage began: there, or everywhere. */
    fail: (partition: string | undefined, at: number): number =>
      Math.min(fail('', at), partition === undefined ? at : fail(partition, at)),
    /** Notes that these partitions respond, so the outage is not everywhere. `partitionsOf` is called during an outage. */
    end(partitionsOf: () => readonly string[]): void {
      if (open.size === 0) return
      for (const each of ['', ...partitionsOf()]) open.delete(each)
    },
  }
}

/** A store that does not respond rejects with other errors. */
function isBug(error: unknown): boolean {
  return [TypeError, RangeError, ReferenceError, SyntaxError].some((kind) => error instanceof kind)
}

function hasCostLimit({ limits }: Grant): boolean {
  return limits.some(({ kind }) => kind === 'cost')
}

/**
 * Whether the request in the way may have ended, so that only its line is missing: a client that sends one request
 * after another would be refused because of its own last one.
 */
function mayHaveEnded({ outcome, open = 0 }: HoldResult, id: string | undefined): boolean {
  return outcome === 'busy' && id !== undefined && open > 0 && open <= fewOpen
}
