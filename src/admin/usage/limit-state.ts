/** What is shown of a limit, wherever it is. */

import { toEndTimestamp } from '../../formats/timestamp.ts'
import type { CountedLimit, LimitState } from '../../ratelimit/rules/counter.ts'
import { nullableTimestamp, string } from '../http/schema.ts'

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

/** What is shown of a limit. A counter of concurrency has no end. */
export function showState({ limit, used, remaining, resetsAt }: LimitState) {
  const { kind, scope, window } = limit
  return {
    ...{ kind, scope, window: window || null, limit: limit.limit, used, remaining },
    resetsAt: kind === 'concurrency' ? null : toEndTimestamp(resetsAt),
  }
}
