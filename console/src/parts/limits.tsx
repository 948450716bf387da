import { Text } from '@mantine/core'
import { Fragment } from 'react'
import { count, some } from './numbers.ts'
import { Time } from './time.tsx'

interface Rate {
  readonly limit: number
  readonly window: string
}

/** Limits as a subscription states them for a model. */
export interface StatedLimits {
  readonly token_rate_limits?: readonly Rate[]
  readonly request_rate_limits?: readonly Rate[]
  readonly concurrency?: number
}

export interface Limit {
  readonly kind: 'tokens' | 'requests' | 'concurrency'
  /** null: of concurrency. */
  readonly window: string | null
  readonly limit: number
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

/** Limits without what is used of them. */
export function LimitList(stated: StatedLimits) {
  return <>{limitsIn(stated).map(whole).join(', ')}</>
}

export interface LimitState extends Limit {
  readonly used: number
  readonly remaining: number
  /** null: it has no window. */
  readonly resetsAt: string | null
}

const units: Readonly<Record<string, string>> = { s: 'second', m: 'minute', h: 'hour', d: 'day' }

/** `hour`, `24 hours`; a window that is a word stays it. */
export function windowIn(window: string): string {
  const [, number, unit = ''] = /^(\d+)([smhd])$/.exec(window) ?? []
  if (number === undefined) return window
  return number === '1' ? (units[unit] ?? '') : `${number} ${units[unit]}s`
}

/** `100,000 tokens per hour`. */
export function whole({ kind, limit, window }: Limit): string {
  const number = some(limit, kind === 'tokens' ? 'token' : 'request')
  return window === null ? `${number} at a time` : `${number} per ${windowIn(window)}`
}

/** Below this part of it a limit is soon used up. */
const little = 0.2

/** What is left of each limit, and when it is whole again. */
export function LimitBars({
  limits,
  of,
}: {
  readonly limits: readonly LimitState[]
  readonly of: string
}) {
  if (limits.length === 0) return <Text size="sm">No limit.</Text>
  return (
    <div className="limits">
      {limits.map((state) => {
        const { kind, window, limit, used, remaining, resetsAt } = state
        const left = Math.min(1, remaining / limit)
        return (
          <div key={`${kind} ${window} ${limit}`}>
            <p>
              <span>
                <b>{remaining === 0 ? 'Nothing' : count(remaining)}</b> left of {whole(state)}
              </span>
              {used > 0 && resetsAt !== null && (
                <span className="note">
                  resets <Time at={resetsAt} isDistance />
                </span>
              )}
            </p>
            <div
              className="bar"
              role="progressbar"
              aria-label={`Left of ${whole(state)} of ${of}`}
              aria-valuemin={0}
              aria-valuemax={limit}
              aria-valuenow={remaining}
              data-left={remaining === 0 ? 'none' : left < little ? 'little' : 'enough'}
            >
              <i style={{ width: `${left * 100}%` }} />
            </div>
          </div>
        )
      })}
    </div>
  )
}

/** The models that a subscription pays for. */
export function Gives({
  models,
}: {
  readonly models: readonly (StatedLimits & { readonly name: string })[]
}) {
  return (
    <dl className="gives">
      {models.map(({ name, ...stated }) => (
        <Fragment key={name}>
          <dt>{name}</dt>
          <dd>
            <LimitList {...stated} />
          </dd>
        </Fragment>
      ))}
    </dl>
  )
}
