/** What is shown of a limit, wherever it is. */

import type { CountedLimit } from '../../core/decision/counter.ts'
import { toEndTimestamp } from '../../core/formats/timestamp.ts'
import { string } from '../http/schema.ts'

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

/** When its window ends; null: it has none. */
export function endOf({ kind }: CountedLimit, resetsAt: number): string | null {
  return kind === 'concurrency' ? null : toEndTimestamp(resetsAt)
}
