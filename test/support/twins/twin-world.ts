/** The target of random requests: resources with all that a decision depends on, and how they may change. */

import type { WrittenDocument } from '../documents.ts'
import { accessPolicy, modelRef, subscription } from '../documents.ts'
import { meter } from '../gateway.ts'
import type { Random } from '../random.ts'

const team = { groups: ['team'] }

/** ModelRefs by name, and their relevant properties. */
const refs: Readonly<Record<string, object>> = {
  sim: {},
  other: { modelIds: ['nick', 'fürst', 'a b'] },
  named: { modelIds: ['sim-large'], timeouts: { idle: '10s', answer: '20s' }, retries: 0 },
  renamed: { upstreamModel: 'sim-small' },
  unasked: { output: { streamUsage: 'unasked', maxTokensField: 'max_tokens' } },
  chatty: { output: { usageInEveryChunk: true, maxTokens: 50 } },
  opened: { modelFields: ['models'], modelIds: ['opened', 'sim-small'] },
  all: { paths: 'all' },
  credited: { credential: { file: 'secret' } },
}

export const modelNames = Object.keys(refs)
const keys = modelNames.map((name) => `llm/${name}`)

type Limits = readonly (readonly [number, string])[]

const hour = [1_000_000_000, '1h'] as const

/** Subscriptions by name: their limits, and what else they have. */
const paying: Readonly<Record<string, readonly [Limits, object?]>> = {
  plenty: [[hour]],
  short: [[[300, '2s'], [20_000, '1m'], hour]],
  small: [[[700, '5s']]],
  six: [[[500, '3s'], [900, '4s'], [2_500, '11s'], [30_000, '1m'], hour, [1e9, '24h']]],
  seven: [
    [[500, '3s'], [900, '4s'], [2_500, '11s'], [30_000, '1m'], hour, [1e9, '24h'], [1e9, '48h']],
  ],
  calls: [[hour], { ofModels: { requestRateLimits: [{ limit: 5, window: '4s' }] } }],
  busy: [[hour], { ofModels: { concurrency: 1 } }],
  priced: [[hour], { ofModels: { billingRate: { perToken: '0.001' } } }],
}

export const subscriptionNames = Object.keys(paying)

/** Windows of its limits that end while requests run. */
export function shortWindowsOf(name: string): readonly string[] {
  const windows = paying[name]?.[0].map(([, window]) => window) ?? []
  return [...windows, ...(name === 'calls' ? ['4s'] : [])].filter((window) => !/h$/.test(window))
}

/** For a key that has `tokenRateLimits` of its own. */
export const cappedWindow = '2s'

/** Which choices of the world differ from the initial ones. */
export interface Choices {
  readonly closed: ReadonlySet<string>
  readonly tighter: ReadonlySet<string>
  readonly gone: ReadonlySet<string>
  readonly idle: string
  readonly attributed: boolean
}

export const first: Choices = {
  ...{ closed: new Set(), tighter: new Set(), gone: new Set(), idle: '10s', attributed: false },
}

/** The documents for these choices. */
export function documentsOf(backendUrl: string, choices: Choices): readonly WrittenDocument[] {
  const { closed, tighter, gone, idle, attributed } = choices
  const open = keys.filter((key) => !closed.has(key))
  return [
    ...Object.entries(refs).map(([name, spec]) =>
      modelRef(name, {
        ...{ backendUrl, ...spec },
        ...(name === 'sim' && { timeouts: { idle } }),
      }),
    ),
    accessPolicy('open', open.length > 0 ? open : ['llm/none'], team),
    ...Object.entries(paying)
      .filter(([name]) => !gone.has(name))
      .map(([name, [limits, more = {}]]) => {
        const factor = tighter.has(name) ? 0.5 : 1
        const own = limits.map(([limit, window]) => [Math.ceil(limit * factor), window] as const)
        const written = subscription(
          name,
          team,
          Object.fromEntries(keys.map((key) => [key, own])),
          more,
        )
        if (!attributed) return written
        const tokenMetadata = { organizationId: 'o"\\\n&=ö', costCenter: name }
        return { ...written, spec: { ...written.spec, tokenMetadata } }
      }),
    meter,
  ]
}

/** These choices with one of them changed. */
export function change(random: Random, choices: Choices): Choices {
  const toggle = (set: ReadonlySet<string>, one: string) => {
    const next = new Set(set)
    // The resources in force serve most requests.
    const oldest = [...next][0]
    if (next.delete(one)) return next
    next.add(one)
    if (next.size > 2 && oldest !== undefined) next.delete(oldest)
    return next
  }
  const of = <T>(list: readonly T[]) => list[random.below(list.length)] as T
  // The target of most requests is not closed for long.
  if (choices.closed.has('llm/sim') || choices.gone.size > 1) {
    return { ...choices, closed: new Set(), gone: new Set() }
  }
  switch (random.below(5)) {
    case 0:
      return { ...choices, closed: toggle(choices.closed, of(keys)) }
    case 1:
      return { ...choices, tighter: toggle(choices.tighter, of(subscriptionNames)) }
    case 2:
      return { ...choices, gone: toggle(choices.gone, of(subscriptionNames)) }
    case 3:
      return { ...choices, idle: of(['10s', '30s', '1m', '5m']) }
    default:
      return { ...choices, attributed: !choices.attributed }
  }
}
