/** Limits by name (`spec.limits[]`), the calendar of their windows, prices and weights, as plain data. */

import type { ExactInt } from '../formats/exact.ts'

/** Whose usage one counter of a limit sums. */
export const limitScopes = [
  'user',
  'key',
  'group',
  'subscription',
  'model',
  'organization',
  'installation',
] as const
export type LimitScope = (typeof limitScopes)[number]

/** The unit of a limit: all tokens or one sort, requests or money in a window, or requests in progress. */
export const limitKinds = ['tokens', 'input', 'output', 'requests', 'concurrency', 'cost'] as const
export type LimitKind = (typeof limitKinds)[number]

export interface NamedLimit {
  /** Unique in its resource. */
  readonly name: string
  readonly per: LimitScope
  readonly of: LimitKind
  /** Tokens, requests, or nano-units: 10⁻⁹ of BILLING_CURRENCY. */
  readonly limit: ExactInt
  /** As written: `1h`, `day`; empty for concurrency. */
  readonly window: string
  /** For a duration; 0 for a calendar window and for concurrency. */
  readonly windowMs: number
  /** All models of its resource if undefined. */
  readonly models: readonly { readonly namespace: string; readonly name: string }[] | undefined
  /** Whether it refuses; otherwise it is only counted, shown and notified. */
  readonly enforce: boolean
}

/** Whether it limits money and refuses: under such a limit nothing is free. */
export function isCostLimit({ of, enforce }: Pick<NamedLimit, 'of' | 'enforce'>): boolean {
  return of === 'cost' && enforce
}

export type CalendarWindow = 'day' | 'week' | 'month'

/** The written fields of `spec.calendar`. */
export interface WrittenCalendar {
  /** IANA name. */
  readonly timeZone?: string | undefined
  /** 0 (Sunday) to 6. */
  readonly weekStartsOn?: number | undefined
  /** 1 to 28. */
  readonly monthStartsOn?: number | undefined
}

/**
 * Decimal numbers without exponent (formats/money.ts), in BILLING_CURRENCY. A kind without a price has its parent's.
 */
export interface Prices {
  readonly perToken?: string | undefined
  readonly perInputToken?: string | undefined
  readonly perOutputToken?: string | undefined
  readonly perCachedToken?: string | undefined
  readonly perCacheWriteToken?: string | undefined
  readonly perRequest?: string | undefined
}

/** How much a token of each kind counts in limits of `tokens`, in thousandths. */
export interface Weights {
  readonly cached: number
  readonly cacheWrite: number
  readonly output: number
}
