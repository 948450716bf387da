/**
 * What is left of a caller's limits, as response headers: the fields of
 * draft-ietf-httpapi-ratelimit-headers for all limits, and those of the caller's dialect for the
 * binding limit.
 *
 * The figures are those of the moment when a request is allowed or refused. They do not include
 * what its own response will use.
 */

import { toEndTimestamp } from '../../formats/timestamp.ts'
import type { LimitKind } from '../../kinds/limits.ts'
import type { Dialect } from '../../operations/dialect.ts'
import type { CountedLimit, LimitState } from './counter.ts'

/** Receives one header; names are lower-case. */
export type PutHeader = (name: string, value: string) => void

/** Puts the headers of these limits, or none without limits. */
export function putLimitHeaders(
  dialect: Dialect,
  states: readonly LimitState[],
  now: number,
  put: PutHeader,
): void {
  const policies = toPolicies(states.map(({ limit }) => limit))
  if (policies === '') return
  putBindingHeaders(dialect, states, now, put)
  put('ratelimit-policy', policies)
  put('ratelimit', toItems(states, now))
}

/**
 * Puts a dialect's own headers for the binding limit on tokens and the one on requests, if there are
 * any. It has none for concurrency.
 */
export function putBindingHeaders(
  dialect: Dialect,
  states: readonly LimitState[],
  now: number,
  put: PutHeader,
): void {
  for (const kind of ['tokens', 'requests'] as const) {
    const binding = bindingOf(states, kind, isShown)
    if (binding === undefined) continue
    const { limit, remaining, reset } = names[dialect][kind]
    put(limit, String(binding.limit.limit))
    put(remaining, String(binding.remaining))
    const at = binding.resetsAt
    put(reset, dialect === 'openai' ? toResetDuration(at - now) : toEndTimestamp(at))
  }
}

/** Written out, because each response has three of them. */
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
export function toPolicies(limits: readonly CountedLimit[]): string {
  return limits.flatMap(({ policy }) => policy || []).join(', ')
}

/** The field `RateLimit`: their states. */
export function toItems(states: readonly LimitState[], now: number): string {
  let items = ''
  for (const { limit, remaining, resetsAt } of states) {
    if (limit.policy === '') continue
    const comma = items === '' ? '' : ', '
    const reset = limit.kind === 'concurrency' ? '' : `;t=${secondsUntil(resetsAt, now)}`
    items += `${comma}"${limit.name}";r=${remaining}${reset}`
  }
  return items
}

/**
 * The binding limit of a kind: the one with the smallest share left, and of several the one that resets last,
 * so that among used-up limits it is the one to wait for. Between a user and a key with equal shares it
 * is the one with less left.
 */
export function bindingOf(
  states: readonly LimitState[],
  kind: LimitKind,
  is: (limit: CountedLimit) => boolean = () => true,
): LimitState | undefined {
  let binding: LimitState | undefined
  for (const state of states) {
    if (state.limit.kind !== kind || !is(state.limit)) continue
    if (binding === undefined || bindsMore(state, binding)) binding = state
  }
  return binding
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

function isShown({ policy }: CountedLimit): boolean {
  return policy !== ''
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
