/** `envoy.service.auth.v3.Authorization/Check`: the request path, top to bottom. */

import type { Caller } from '../core/caller.ts'
import { counterOf } from '../core/counter.ts'
import { authorize, type Decision, enforceLimits } from '../core/decide.ts'
import { type Dialect, dialectOf } from '../core/dialect.ts'
import { ServiceError } from '../core/errors.ts'
import type { Snapshot } from '../core/snapshot.ts'
import { type MeteredPaths, readTarget, type Target } from '../core/target.ts'
import type { Authenticate } from '../identity/authenticate.ts'
import type { CounterStore } from '../store/counters.ts'
import { type CheckRequest, readCheckRequest } from './check-request.ts'
import { toCheckResponse } from './check-response.ts'

export interface CheckDeps {
  readonly authenticate: Authenticate
  readonly snapshot: () => Snapshot
  readonly counters: CounterStore
  readonly metered: MeteredPaths
  /** Milliseconds since the epoch. */
  readonly clock: () => number
  /** Told of each decision, once. */
  readonly onDecided?: (decision: Decision) => void
  /** Told of faults that are ours; the caller is told nothing of them. */
  readonly onFault: (error: unknown) => void
}

/** Answers one CheckRequest; at once, without a promise, when nothing has to be fetched. */
export type Check = (bytes: Buffer) => Buffer | Promise<Buffer>

/**
 * Check as a function from bytes to bytes. With the key and its counters known nothing is
 * awaited. It throws only for bytes that are no CheckRequest; every other failure is a denial.
 */
export function createCheck(deps: CheckDeps): Check {
  const { authenticate, snapshot, counters, metered, clock } = deps

  function decideFor(
    request: CheckRequest,
    target: Target | undefined,
    caller: Caller | null,
  ): Decision | Promise<Decision> {
    if (target === undefined) return { allowed: false, code: 'not_found' }
    const decision = authorize(
      {
        caller,
        target,
        bodyModel: request.model,
        requestedSubscription: lastValue(request.subscription),
      },
      snapshot(),
      metered,
    )
    if (!decision.allowed || decision.limits.length === 0) return decision
    const { user } = decision.caller
    const states = counters.read(
      decision.limits.map((limit) => counterOf(limit, user)),
      clock(),
    )
    if (states instanceof Promise)
      return states.then((known) => enforceLimits(decision, known, clock()))
    return enforceLimits(decision, states, clock())
  }

  function toResponse(decision: Decision, caller: Caller | null, dialect: Dialect): Buffer {
    const age = caller?.by === 'key' ? caller.keyAgeMs : undefined
    const response = toCheckResponse(decision, clock(), dialect, age)
    deps.onDecided?.(decision)
    return response
  }

  function answerTo(
    caller: Caller | null,
    request: CheckRequest,
    target: Target | undefined,
    dialect: Dialect,
  ): Buffer | Promise<Buffer> {
    const decision = decideFor(request, target, caller)
    if (!(decision instanceof Promise)) return toResponse(decision, caller, dialect)
    return decision.then((known) => toResponse(known, caller, dialect))
  }

  function refuse(error: unknown, dialect: Dialect): Buffer {
    const known = error instanceof ServiceError
    if (!known || error.cause !== undefined) deps.onFault(error)
    const code = known ? error.code : 'internal'
    const decision = { allowed: false, code } as const
    deps.onDecided?.(decision)
    return toCheckResponse(decision, clock(), dialect)
  }

  return function check(bytes) {
    const request = readCheckRequest(bytes)
    const target = readTarget(request.path)
    const dialect = dialectOf(target?.operation)
    try {
      const caller = authenticate(request.authorization, clock(), request.source)
      const answer =
        caller instanceof Promise
          ? caller.then((known) => answerTo(known, request, target, dialect))
          : answerTo(caller, request, target, dialect)
      return answer instanceof Promise
        ? answer.catch((error: unknown) => refuse(error, dialect))
        : answer
    } catch (error) {
      return refuse(error, dialect)
    }
  }
}

/** The last value that is not blank (contract, 1.2); Envoy joins repeated headers with commas. */
function lastValue(header: string | undefined): string | undefined {
  return header
    ?.split(',')
    .findLast((value) => value.trim() !== '')
    ?.trim()
}
