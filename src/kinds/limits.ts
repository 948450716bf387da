/** Limits by name (`spec.limits[]`), the calendar of their windows, prices and weights, as plain data. */

import type { Exact } from '../formats/exact.ts'

/** Whose use one counter of a limit adds up. */
export const limitScopes = [
  'user',
  'key',
  'group',
  'subscription',
  'model',
  'organization',
  'installation',
] as const
export type Per = (typeof limitScopes)[number]

/** What a limit counts: tokens of all or one sort, requests or money in a window, or requests in progress. */
export const limitKinds = ['tokens', 'input', 'output', 'requests', 'concurrency', 'cost'] as const
export type LimitKind = (typeof limitKinds)[number]

export interface NamedLimit {
  /** Unique in its resource. */
  readonly name: string
  readonly per: Per
  readonly of: LimitKind
  /** Tokens, requests, or nano-units: 10⁻⁹ of BILLING_CURRENCY. */
  readonly limit: Exact
  /** As written: `1h`, `day`; empty of concurrency. */
  readonly window: string
  /** Of a duration; 0: of a calendar, or of concurrency. */
  readonly windowMs: number
  /** undefined: all that its resource is about. */
  readonly models: readonly { readonly namespace: string; readonly name: string }[] | undefined
  /** Whether it refuses; else it is only counted, shown and notified. */
  readonly enforce: boolean
}

/** Whether it is on money and refuses: under such a limit nothing is free. */
export function isCostLimit({ of, enforce }: Pick<NamedLimit, 'of' | 'enforce'>): boolean {
  return of === 'cost' && enforce
}

export type CalendarWindow = 'day' | 'week' | 'month'

/** `spec.calendar`, as far as it is written. */
export interface WrittenCalendar {
  /** IANA's name. */
  readonly timeZone?: string | undefined
  /** 0 (Sunday) to 6. */
  readonly weekStartsOn?: number | undefined
  /** 1 to 28. */
  readonly monthStartsOn?: number | undefined
}

/** Decimal numbers without exponent (formats/money.ts), in BILLING_CURRENCY. A kind without a price costs its parent's. */
export interface Prices {
  readonly perToken?: string | undefined
  readonly perInputToken?: string | undefined
  readonly perOutputToken?: string | undefined
  readonly perCachedToken?: string | undefined
  readonly perCacheWriteToken?: string | undefined
  readonly perRequest?: string | undefined
}

/** In thousandths: how much a token of this kind counts in limits of `tokens`. */
export interface Weights {
  readonly cached: number
  readonly cacheWrite: number
  readonly output: number
}
