import { Text } from '@mantine/core'
import type { ReactNode } from 'react'
import { count, money, some } from './numbers.ts'
import { Time } from './time.tsx'

interface Rate {
  readonly limit: number
  readonly window: string
}

/** The limits of a subscription for a model. */
export interface StatedLimits {
  readonly token_rate_limits?: readonly Rate[]
  readonly request_rate_limits?: readonly Rate[]
  readonly concurrency?: number
}

export interface Limit {
  /** Null or omitted if it has none. */
  readonly name?: string | null
  readonly kind: 'tokens' | 'input' | 'output' | 'requests' | 'concurrency' | 'cost'
  /** Null for concurrency. */
  readonly window: string | null
  /** Money is a decimal string; null if only administrators may see it. */
  readonly limit: number | string | null
}

export function limitsIn(stated: StatedLimits): readonly Limit[] {
  const { token_rate_limits = [], request_rate_limits = [], concurrency } = stated
  return [
    ...token_rate_limits.map((rate) => ({ kind: 'tokens', ...rate }) as const),
    ...request_rate_limits.map((rate) => ({ kind: 'requests', ...rate }) as const),
    ...(concurrency === undefined
      ? []
      : [{ kind: 'concurrency', window: null, limit: concurrency } as const]),
  ]
}

/** Limits without their usage. */
export function LimitList(stated: StatedLimits) {
  return (
    <>
      {limitsIn(stated)
        .map((limit) => whole(limit))
        .join(', ')}
    </>
  )
}

export interface LimitState extends Limit {
  readonly scope?: string
  /** Who shares it, by name. */
  readonly whom?: string
  readonly used: number | string | null
  readonly remaining: number | string | null
  readonly percentLeft: number
  /** Null if it has no window. */
  readonly resetsAt: string | null
  /** Omitted if it is not increased. */
  readonly increasedUntil?: string
  /** Whether it refuses the explained request. */
  readonly refuses?: boolean
}

const units: Readonly<Record<string, string>> = { s: 'second', m: 'minute', h: 'hour', d: 'day' }

/** `hour`, `24 hours`; a calendar window is unchanged. */
export function windowIn(window: string): string {
  const [, number, unit = ''] = /^(\d+)([smhd])$/.exec(window) ?? []
  if (number === undefined) return window
  return number === '1' ? (units[unit] ?? '') : `${number} ${units[unit]}s`
}

const counted: Readonly<Record<Limit['kind'], string>> = {
  tokens: 'token',
  input: 'input token',
  output: 'output token',
  requests: 'request',
  concurrency: 'request',
  cost: 'unit',
}

/** `100,000 tokens`; money in its currency. */
export function amount(kind: Limit['kind'], value: number | string, currency?: string): string {
  return kind === 'cost' ? money(Number(value), currency) : some(Number(value), counted[kind])
}

/** `100,000`; money in its currency. */
export function figure(kind: Limit['kind'], value: number | string, currency?: string): string {
  return kind === 'cost' ? money(Number(value), currency) : count(Number(value))
}

/** `per hour`, `at a time`. */
export function per({ window }: Pick<Limit, 'window'>): string {
  return window === null ? 'at a time' : `per ${windowIn(window)}`
}

/** `100,000 tokens per hour`; without a figure its name. */
export function whole({ name, kind, limit, window }: Limit, currency?: string): string {
  const what = limit === null ? (name ?? '') : amount(kind, limit, currency)
  return `${what} ${per({ window })}`
}

/** `monthly, shared by group team-a`; empty for a limit without a name that is not shared. */
export function nameIn({ name, ...names }: LimitState): string {
  return [name, sharersIn(names)].filter(Boolean).join(', ')
}

/** `shared by group team`; empty if it is not shared. */
export function sharersIn({ scope = 'user', whom }: Pick<LimitState, 'scope' | 'whom'>): string {
  if (scope === 'user' || scope === 'key') return ''
  return `shared by ${whom ? `${scope} ${whom}` : `the whole ${scope}`}`
}

/** The share that is left, from 0 to 1. */
export function partLeft({ limit, remaining, percentLeft }: LimitState): number {
  if (limit === null || remaining === null) return percentLeft / 100
  return Math.min(1, Number(remaining) / Number(limit))
}

/** Whether nothing is left. */
export function isSpent({ percentLeft }: Pick<LimitState, 'percentLeft'>): boolean {
  return percentLeft === 0
}

/** Below this share a limit counts as nearly used up. */
const little = 0.2

/** A bar of the share that is left; full at the start. */
export function LeftBar({ state, label }: { readonly state: LimitState; readonly label: string }) {
  const left = partLeft(state)
  return (
    <div
      className="bar"
      role="progressbar"
      aria-label={label}
      aria-valuemin={0}
      aria-valuemax={Number(state.limit ?? 100)}
      aria-valuenow={Number(state.remaining ?? state.percentLeft)}
      data-left={isSpent(state) ? 'none' : left < little ? 'little' : 'enough'}
    >
      <i style={{ width: `${left * 100}%` }} />
    </div>
  )
}

/** Limits, in the same places as `LimitBars`, while it is not known what is left of them. */
export function UnreadBars({ limits }: { readonly limits: readonly Limit[] }) {
  return (
    <div className="limits">
      {limits.map((limit) => (
        <div key={whole(limit)}>
          <p>{whole(limit)}</p>
          <div className="bar" />
        </div>
      ))}
    </div>
  )
}

/** The remaining share of each limit, and when it resets. */
export function LimitBars<State extends LimitState>({
  limits,
  of,
  currency,
  more,
}: {
  readonly limits: readonly State[]
  readonly of: string
  /** Links. */
  readonly more?: (state: State) => ReactNode
  /** For limits on cost. */
  readonly currency?: string | undefined
}) {
  if (limits.length === 0) return <Text size="sm">No limit.</Text>
  return (
    <div className="limits">
      {limits.map((state, at) => {
        const { kind, limit, used, remaining, percentLeft, resetsAt } = state
        const { increasedUntil, refuses } = state
        const left = remaining === null ? `${percentLeft}%` : figure(kind, remaining, currency)
        // Without a figure, the name already describes the limit.
        const about = nameIn(limit === null ? { ...state, name: null } : state)
        return (
          // biome-ignore lint/suspicious/noArrayIndexKey: limits of two resources may be equal, and a row has no state
          <div key={at}>
            <p>
              <span>
                <b>{isSpent(state) ? 'Nothing' : left}</b> left of {whole(state, currency)}
                {about && <span className="note"> {about}</span>}
                {refuses && <b> (refuses)</b>}
              </span>
              {used !== 0 && resetsAt !== null && (
                <span className="note">
                  resets <Time at={resetsAt} isDistance />
                </span>
              )}
            </p>
            <LeftBar state={state} label={`Left of ${whole(state, currency)} of ${of}`} />
            <div className="below">
              {increasedUntil !== undefined && (
                <span className="note">
                  raised, ends <Time at={increasedUntil} isDistance />
                </span>
              )}
              {more?.(state)}
            </div>
          </div>
        )
      })}
    </div>
  )
}
