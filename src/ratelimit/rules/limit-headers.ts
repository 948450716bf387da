/**
 * The response headers with a caller's limits: the fields of draft-ietf-httpapi-ratelimit-headers for all limits except
 * limits on cost, and for the binding limit the headers of the caller's dialect or, for cost, our own. Limits of a
 * model or the Tenant are in none of them, because they would reveal the use of others.
 *
 * The figures are from the decision. They do not include the use of the request's own response.
 */

import type { ExactInt } from '../../formats/exact.ts'
import { formatMoney } from '../../formats/money.ts'
import { toEndTimestamp } from '../../formats/time.ts'
import type { Dialect } from '../../operations/dialect.ts'
import type { CountedLimit, LimitState } from './limit.ts'

/** Receives one header; names are lower-case. */
export type PutHeader = (name: string, value: string) => void

/** Puts the headers of these limits, or none without limits. */
export function putLimitHeaders(
  dialect: Dialect,
  states: readonly LimitState[],
  now: number,
  put: PutHeader,
): void {
  putBindingHeaders(dialect, states, now, put)
  const policies = toPolicyField(states.map(({ limit }) => limit))
  if (policies === '') return
  put('ratelimit-policy', policies)
  put('ratelimit', toRateLimitField(states, now))
}

/**
 * Puts the headers of the binding limit on tokens and of the binding limit on requests, which each dialect has
 * separately, and of the binding limit on cost, if there are any. Limits on input, output and concurrency have none.
 */
export function putBindingHeaders(
  dialect: Dialect,
  states: readonly LimitState[],
  now: number,
  put: PutHeader,
): void {
  let tokens: LimitState | undefined
  let requests: LimitState | undefined
  let budget: LimitState | undefined
  for (const state of states) {
    const { kind, policy } = state.limit
    if (kind === 'cost' ? !showsFigures(state.limit) : policy === '') continue
    if (kind === 'tokens') tokens = tighter(tokens, state)
    else if (kind === 'requests') requests = tighter(requests, state)
    else if (kind === 'cost') budget = tighter(budget, state)
  }
  for (const kind of ['tokens', 'requests'] as const) {
    const binding = kind === 'tokens' ? tokens : requests
    if (binding === undefined) continue
    const { limit, remaining, reset } = names[dialect][kind]
    put(limit, String(binding.limit.limit))
    put(remaining, String(binding.remaining))
    const at = binding.resetsAt
    put(reset, dialect === 'openai' ? toResetDuration(at - now) : toEndTimestamp(at))
  }
  if (budget === undefined) return
  put('x-tollgate-budget-limit', formatMoney(budget.limit.limit))
  put('x-tollgate-budget-remaining', formatMoney(budget.remaining))
  put('x-tollgate-budget-reset', toEndTimestamp(budget.resetsAt))
}

/** Whether callers see the limit's figures: only those of their Subscription's and their key's limits. */
export function showsFigures({ origin }: Pick<CountedLimit, 'origin'>): boolean {
  return origin === 'subscription' || origin === 'key'
}

/** Literals, because each response has three of them. */
const names = {
  openai: {
    tokens: {
      limit: 'x-ratelimit-limit-tokens',
      remaining: 'x-ratelimit-remaining-tokens',
      reset: 'x-ratelimit-reset-tokens',
    },
    requests: {
      limit: 'x-ratelimit-limit-requests',
      remaining: 'x-ratelimit-remaining-requests',
      reset: 'x-ratelimit-reset-requests',
    },
  },
  anthropic: {
    tokens: {
      limit: 'anthropic-ratelimit-tokens-limit',
      remaining: 'anthropic-ratelimit-tokens-remaining',
      reset: 'anthropic-ratelimit-tokens-reset',
    },
    requests: {
      limit: 'anthropic-ratelimit-requests-limit',
      remaining: 'anthropic-ratelimit-requests-remaining',
      reset: 'anthropic-ratelimit-requests-reset',
    },
  },
} as const

/** The field `RateLimit-Policy`: the limits. */
export function toPolicyField(limits: readonly CountedLimit[]): string {
  return limits.flatMap(({ policy }) => policy || []).join(', ')
}

/** Integers of structured fields have at most 15 digits (RFC 9651, 3.3.1), one less than the highest limit. */
export function toFieldInteger(amount: ExactInt): ExactInt {
  return amount < maxFieldInteger ? amount : maxFieldInteger
}

const maxFieldInteger = 999_999_999_999_999

/** The field `RateLimit`: the state of each limit. */
export function toRateLimitField(states: readonly LimitState[], now: number): string {
  let items = ''
  for (const { limit, remaining, resetsAt } of states) {
    if (limit.policy === '') continue
    items += `${items === '' ? '"' : ', "'}${limit.name}";r=${toFieldInteger(remaining)}`
    if (limit.kind !== 'concurrency') items += `;t=${secondsUntil(resetsAt, now)}`
  }
  return items
}

/**
 * The binding one of two limits: the one with the smaller share left or, if the shares are equal, the one that resets
 * last, which is the one to wait for if both are spent. Between scopes, such as user and key, equal shares are compared
 * by the amount left.
 */
function tighter(binding: LimitState | undefined, state: LimitState): LimitState {
  return binding === undefined || bindsMore(state, binding) ? state : binding
}

/** Whole seconds, rounded up, at least one: after that wait the next window has begun. */
export function secondsUntil(instant: number, now: number): number {
  return Math.max(1, Math.ceil((instant - now) / 1_000))
}

/** A wait in OpenAI's format, which is Go's: `250ms`, `1s`, `6m0s`, `1h2m3s`; rounded up. */
export function toResetDuration(waitMs: number): string {
  if (waitMs <= 999) return `${Math.max(1, Math.ceil(waitMs))}ms`
  const seconds = Math.ceil(waitMs / 1_000)
  if (seconds < 60) return `${seconds}s`
  const minutes = Math.floor(seconds / 60)
  if (minutes < 60) return `${minutes}m${seconds % 60}s`
  return `${Math.floor(minutes / 60)}h${minutes % 60}m${seconds % 60}s`
}

/** The share of a limit that is left. */
function shareLeft({ remaining, limit }: LimitState): number {
  return Number(remaining) / Number(limit.limit)
}

function bindsMore(a: LimitState, b: LimitState): boolean {
  const share = shareLeft(a) - shareLeft(b)
  if (share !== 0) return share < 0
  const isOther = a.limit.scope !== b.limit.scope && a.remaining !== b.remaining
  return isOther ? a.remaining < b.remaining : a.resetsAt > b.resetsAt
}
