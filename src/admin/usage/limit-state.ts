/** What is shown of a limit, wherever it is. */

import {
  type CountedLimit,
  type Counter,
  counterOf,
  type LimitState,
  limitStates,
} from '../../core/decision/counter.ts'
import { toEndTimestamp } from '../../core/formats/timestamp.ts'
import type { ExternalDeps } from '../deps.ts'
import { string } from '../http/schema.ts'
import { nullableTimestamp } from '../http/schemas.ts'

export const name = { type: 'string', minLength: 1, maxLength: 1_024 } as const
export const count = { type: 'integer', minimum: 0 } as const

export const filters = {
  subscription: { ...name, description: 'Only of this subscription.' },
  model: { ...name, description: 'Only of this model.', examples: ['llm/sim-small'] },
} as const

export const kindSchema = string('What it counts; concurrency: requests in progress.', {
  enum: ['tokens', 'requests', 'concurrency'],
})

export const windowSchema = {
  type: ['string', 'null'],
  description: 'null: of concurrency.',
  examples: ['1h'],
} as const

const kinds: readonly CountedLimit['kind'][] = ['tokens', 'requests', 'concurrency']

/** Tokens first, each kind by the length of its windows. */
export function byKindAndWindow(a: CountedLimit, b: CountedLimit): number {
  return kinds.indexOf(a.kind) - kinds.indexOf(b.kind) || a.windowMs - b.windowMs
}

export const limitFields = {
  subscription: { type: 'string' },
  model: {
    type: ['string', 'null'],
    description: 'null: all models together.',
    examples: ['llm/sim-small'],
  },
  kind: kindSchema,
  scope: { type: 'string', enum: ['user', 'key'], description: 'Whose use is counted.' },
  window: windowSchema,
  limit: { ...count, description: 'Tokens or requests in a window, or at a time.' },
  used: count,
  remaining: count,
  resetsAt: nullableTimestamp,
} as const

export interface OwnLimit {
  readonly subscription: string
  /** null: all together. */
  readonly model: string | null
  readonly limit: CountedLimit
}

/** What is shown of a limit. A counter of concurrency has no end. */
export function showState({ limit, used, remaining, resetsAt }: LimitState) {
  const { kind, scope, window } = limit
  return {
    ...{ kind, scope, window: window || null, limit: limit.limit, used, remaining },
    resetsAt: kind === 'concurrency' ? null : toEndTimestamp(resetsAt),
  }
}

/** What is shown of these limits of a user, each with its counter and whether anything is counted now. */
export async function readLimits(
  { readCounters, clock }: Pick<ExternalDeps, 'readCounters' | 'clock'>,
  user: string,
  own: readonly OwnLimit[],
) {
  const now = clock()
  const limits = own.map(({ limit }) => limit)
  const counters = limits.map((limit) => counterOf(limit, user))
  const windows = await readCounters(counters, now)
  return limitStates(limits, windows, now).map((state, i) => {
    const { subscription, model } = own[i] as OwnLimit
    const isOpen =
      windows[i] !== undefined && (state.limit.kind !== 'concurrency' || state.used > 0)
    const shown = { subscription, model, ...showState(state), ...(!isOpen && { resetsAt: null }) }
    return { counter: counters[i] as Counter, isOpen, shown }
  })
}
