/** Limits of a user or a key: which are selected, what is shown of one, and what its counter says. */

import { toEndTimestamp } from '../../formats/timestamp.ts'
import type { CompiledSubscription } from '../../models/rules/snapshot.ts'
import type { ResettableCounters } from '../../ratelimit/counters.ts'
import {
  type CountedLimit,
  type Counter,
  counterOf,
  type LimitState,
  limitStates,
} from '../../ratelimit/rules/counter.ts'
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
function byKindAndWindow(a: CountedLimit, b: CountedLimit): number {
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
export function toStateJson({ limit, used, remaining, resetsAt }: LimitState) {
  const { kind, scope, window } = limit
  return {
    kind,
    scope,
    window: window || null,
    limit: limit.limit,
    used,
    remaining,
    resetsAt: kind === 'concurrency' ? null : toEndTimestamp(resetsAt),
  }
}

export interface OwnLimit {
  readonly subscription: string
  /** null: all together. */
  readonly model: string | null
  readonly limit: CountedLimit
}

/** The most limits that one request looks at: reading a counter costs a shared store a key each. */
export const maxLimits = 1_000

/** Those of subscriptions, in order of subscription, model, kind and window; more than `maxLimits` are not all there. */
export function limitsIn(
  subscriptions: Iterable<CompiledSubscription>,
  only: { readonly model?: string; readonly window?: string },
  isShown: (model: string) => boolean = () => true,
): OwnLimit[] {
  const found: OwnLimit[] = []
  for (const { name: subscription, limits } of subscriptions) {
    const models = only.model === undefined ? [...limits.keys()].sort() : [only.model]
    for (const model of models.filter(isShown)) {
      for (const limit of [...(limits.get(model) ?? [])].sort(byKindAndWindow)) {
        if (limit.window === (only.window ?? limit.window))
          found.push({ subscription, model, limit })
      }
      if (found.length > maxLimits) return found
    }
  }
  return found
}

/** What is shown of these limits of a user, each with its counter and whether anything is counted there. */
export async function readLimits(
  {
    readCounters,
    clock,
  }: { readonly readCounters: ResettableCounters['readFresh']; readonly clock: () => number },
  user: string,
  own: readonly OwnLimit[],
) {
  const now = clock()
  const limits = own.map(({ limit }) => limit)
  const counters = limits.map((limit) => counterOf(limit, user))
  return limitStates(limits, await readCounters(counters, now), now).map((state, i) => {
    const { subscription, model } = own[i] as OwnLimit
    const shown = { subscription, model, ...toStateJson(state) }
    return { counter: counters[i] as Counter, isUsed: state.used > 0, shown }
  })
}
