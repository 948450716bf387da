/** Compiles limits with or without a name: their names in headers, their scope, and their counters. */

import type { ExactInt } from '../../formats/exact.ts'
import type { CalendarWindow, NamedLimit, WrittenCalendar } from '../../kinds/limits.ts'
import type { BilledModel, Limit } from '../../kinds/resources.ts'
import { chargedCounter, counterKeyPrefixOf, type RequestOwner } from './charged-limits.ts'
import { userInLines } from './counter-key.ts'
import type { CountedLimit } from './limit.ts'
import { toFieldInteger } from './limit-headers.ts'
import { parseWindowText, type Window } from './windows.ts'

/** The resource of a limit, and the facts about its counters that are known without a request. */
export interface LimitSource {
  readonly resource: string
  readonly origin: CountedLimit['origin']
  readonly whose: Pick<RequestOwner, 'subscription' | 'organization'> & Partial<RequestOwner>
}

/** Compiles a limit for enforcement. `window`: in its calendar. An empty name: none. */
export function toCountedLimit(
  limit: Omit<NamedLimit, 'enforce'>,
  window: Window,
  { resource, origin, whose }: LimitSource,
): CountedLimit {
  const { name, per, of: kind, windowMs } = limit
  const charged = { resource, name, kind, per, window }
  const isShared = per !== 'user' && per !== 'group'
  const all = { user: '', keyId: '', pool: '', ...whose }
  const compiled = {
    kind,
    limit: limit.limit,
    window: limit.window,
    windowMs,
    scope: per,
    origin,
    limitName: name || undefined,
    models: limit.models,
    parsedWindow: window,
    name: nameIn(limit, origin),
    counter: isShared ? { ...chargedCounter(charged, all), limit: limit.limit } : undefined,
    keyPrefix: counterKeyPrefixOf(charged, all),
  }
  return { ...compiled, policy: policyOf(compiled) }
}

/** All limits without a name of one subscription on one model: of tokens, of requests, of concurrency. */
export function limitsOfModel(
  subscription: string,
  model: string,
  { tokenRateLimits, requestRateLimits, concurrency }: BilledModel,
): readonly CountedLimit[] {
  const written = concurrency === undefined ? [] : [{ limit: concurrency, window: '', windowMs: 0 }]
  return [
    ...toCountedLimits(subscription, model, tokenRateLimits),
    ...toCountedLimits(subscription, model, requestRateLimits, { kind: 'requests' }),
    ...toCountedLimits(subscription, model, written, { kind: 'concurrency' }),
  ]
}

/** Kind and scope of limits; `key`: the key that they apply to, if they are of one. */
type Sort = {
  readonly kind?: 'tokens' | 'requests' | 'concurrency'
  readonly scope?: 'user' | 'key'
  readonly key?: { readonly id: string; readonly user: string }
}

/**
 * Limits without a name of one subscription on one model, or of a key. Of limits on equally long windows (`1m`, `60s`)
 * only the lowest is used: they would share a counter and charge it once each, and the lowest implies the others.
 */
export function toCountedLimits(
  subscription: string,
  model: string,
  limits: readonly Limit[],
  { kind = 'tokens', scope = 'user', key }: Sort = {},
): readonly CountedLimit[] {
  const lowest = new Map<number, Limit>()
  for (const limit of limits) {
    const earlier = lowest.get(limit.windowMs)
    if (earlier === undefined || limit.limit < earlier.limit) lowest.set(limit.windowMs, limit)
  }
  const ofKey = key && { keyId: key.id, user: userInLines(key.user) }
  const whose = { subscription, model, organization: '', ...ofKey }
  const origin = scope === 'key' ? 'key' : 'subscription'
  const source = { resource: subscription, origin, whose } as const
  const unnamed = { name: '', per: scope, of: kind, models: undefined }
  return [...lowest.values()].map((limit) =>
    toCountedLimit({ ...unnamed, ...limit }, { ms: limit.windowMs }, source),
  )
}

/** A copy with a higher limit until this time, for the same counters. */
export function raiseLimit(limit: CountedLimit, to: ExactInt, until: number): CountedLimit {
  const { counter } = limit
  return {
    ...limit,
    limit: to,
    counter: counter && { ...counter, limit: to },
    policy: policyOf({ ...limit, limit: to }),
    increasedUntil: until,
  }
}

const utc: Window = { every: 'day', zone: 'UTC' }

/** The window of a limit; the same object for equal calendars. */
export function limitWindow(
  { window, windowMs }: Pick<NamedLimit, 'window' | 'windowMs'>,
  { timeZone = 'UTC', weekStartsOn = 1, monthStartsOn = 1 }: WrittenCalendar = {},
): Window {
  const every = window as CalendarWindow | ''
  if (windowMs > 0 || every === '') return { ms: windowMs }
  const first = { day: '', week: weekStartsOn, month: monthStartsOn }[every]
  return parseWindowText(`${every}${first}@${timeZone}`) ?? utc
}

/**
 * The item of `RateLimit-Policy`. Empty for limits that also concern other Subscriptions, whose figures callers must
 * not see, and for money, which has its own headers.
 */
function policyOf(named: Omit<CountedLimit, 'policy'>): string {
  const { name, kind, limit, windowMs, origin } = named
  if (kind === 'cost' || origin === 'model' || origin === 'tenant') return ''
  const seconds = windowMs > 0 ? `;w=${windowMs / 1_000}` : ''
  return `"${name}";q=${toFieldInteger(limit)}${seconds};qu="${units[kind]}"`
}

/**
 * Names in the `RateLimit` fields of limits without a name and of limits of a key, and names derived from one of these.
 */
const taken = /^(limit-)*(key-.*|concurrency|(requests-)?\d+[smh])$/

/** The name of a limit in the `RateLimit` fields, where a key's limits follow its Subscription's. Names are unique. */
function nameIn(
  { name, of, window }: Pick<NamedLimit, 'name' | 'of' | 'window'>,
  origin: CountedLimit['origin'],
): string {
  const plain = [of === 'tokens' ? '' : of, window].filter(Boolean).join('-')
  const own = taken.test(name) ? `limit-${name}` : name || plain
  return origin === 'key' ? `key-${own}` : own
}

const units = {
  tokens: 'tokens',
  input: 'input-tokens',
  output: 'output-tokens',
  requests: 'requests',
  concurrency: 'concurrent-requests',
} as const
