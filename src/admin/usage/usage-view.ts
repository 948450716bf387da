/** A page of usage in the response of `GET /v1/usage`: its schema, as JSON, as CSV. */

import type { CsvRow } from '../../formats/csv.ts'
import { toTimestamp } from '../../formats/time.ts'
import type { NamedGap, UsageColumn, UsageQuery, UsageTotal } from '../../usage/store.ts'
import { boolean, object, optional, string, timestamp } from '../http/schema.ts'
import { countSchema } from './limit-state.ts'

/** The name of a dimension in a row. */
function nameOf(dimension: UsageColumn): string {
  return dimension === 'key' || dimension === 'organization' ? `${dimension}_id` : dimension
}

const usageRow = object('Usage', {
  start: optional({
    ...timestamp,
    description: 'Start of the hour, day or month, if grouped by one.',
  }),
  subscription: optional({ type: 'string' }),
  model: optional({ type: 'string', examples: ['llm/sim-small'] }),
  user: optional({ type: 'string' }),
  key_id: optional(string('Empty for an identity token, or if unknown.')),
  organization_id: optional(string('Empty if there is none; likewise cost_center.')),
  cost_center: optional({ type: 'string' }),
  label: optional(
    string('Value of the label that the key has; empty if it has none with that name.'),
  ),
  answers: { ...countSchema, description: 'Successful responses.' },
  refusals_approximate: {
    ...countSchema,
    description: 'Requests refused because a limit was used up; a killed process loses some.',
  },
  input_tokens: countSchema,
  output_tokens: countSchema,
  cached_tokens: { ...countSchema, description: 'Part of the input.' },
  reasoning_tokens: { ...countSchema, description: 'Part of the output.' },
  total_tokens: { ...countSchema, description: 'All tokens that were counted, without weights.' },
  estimated_tokens: { ...countSchema, description: 'Part of the total that is an estimate.' },
  cache_write_tokens: {
    ...countSchema,
    description: 'Part of the input: tokens written to a cache, for any lifetime.',
  },
  counted_tokens: {
    ...countSchema,
    description: 'The total as token limits count it, with the weights that were in force.',
  },
  cost: optional(
    string(
      'The charge at the prices that were in force, a decimal number. Absent without prices.',
      { examples: ['0.000034'] },
    ),
  ),
})

export const usageGapSchema = object('UsageGap', {
  journal: string('The name of the journal.'),
  from: timestamp,
  to: { ...timestamp, type: ['string', 'null'], description: 'null if unknown.' },
})

export const usagePageSchema = object('UsagePage', {
  object: { type: 'string', const: 'list' },
  from: timestamp,
  to: { ...timestamp, description: 'Excluded.' },
  data: { type: 'array', items: usageRow },
  gaps: {
    type: 'array',
    description: 'Times for which some usage was lost before it was read; usually none.',
    items: usageGapSchema,
  },
  currency: optional(string('Currency of the costs, ISO 4217; absent if no row has one.')),
  has_more: boolean('Whether a further page has rows.'),
  next_cursor: optional(string('The cursor of that page.')),
})

/** A row of the response, in JSON and CSV alike. */
export function toUsageRow(total: UsageTotal, { by }: UsageQuery): CsvRow {
  const { start, group, answers, refusals, cost } = total
  return {
    ...(start !== undefined && { start: toTimestamp(start) }),
    ...Object.fromEntries(by.map((dimension, i) => [nameOf(dimension), group[i] ?? ''])),
    answers,
    refusals_approximate: refusals,
    input_tokens: total.input,
    output_tokens: total.output,
    cached_tokens: total.cached,
    cache_write_tokens: total.cacheWrite,
    reasoning_tokens: total.reasoning,
    total_tokens: total.total,
    // Both sums are capped.
    counted_tokens: Math.max(0, Math.min(Number.MAX_SAFE_INTEGER, total.total + total.weight)),
    estimated_tokens: total.estimated,
    ...(cost !== null && { cost }),
  }
}

export function toGapJson({ journal, from, to }: NamedGap) {
  return { journal, from: toTimestamp(from), to: to === null ? null : toTimestamp(to) }
}

/** The columns of a query's CSV: its groups, then what a row has. */
export function csvColumns({ unit, by }: UsageQuery): readonly string[] {
  const groups = by.map(nameOf)
  return [...(unit === undefined ? [] : ['start']), ...groups, ...usageRow.required, 'cost']
}
