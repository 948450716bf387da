/** Today, this week and this month, each with the previous one. Days, weeks and months are in UTC. */

import { now as serviceTime } from '../clock.ts'
import type { Session } from '../session.tsx'
import { readPages, type UsageRow } from '../usage/read-usage.ts'

export interface Sum {
  readonly answers: number
  readonly tokens: number
  readonly refusals: number
  /** Undefined if no usage had a rate. */
  readonly cost: number | undefined
}

export type Amount = Pick<Sum, 'answers' | 'tokens'>

export interface Period {
  readonly name: string
  readonly before: string
  readonly now: Sum
  /** Up to the current hour: this period, and the previous one to the same point. */
  readonly full: { readonly now: Amount; readonly before: Amount }
  /** The whole previous period. */
  readonly whole: Sum
}

export interface Periods {
  readonly periods: readonly Period[]
  readonly currency: string | undefined
  /** The last days, in milliseconds since the epoch. */
  readonly starts: readonly number[]
  /** Usage of these days, by day and model; if there are too many models, only by day. */
  readonly days: readonly UsageRow[]
  readonly isByModel: boolean
  /** Usage of these days by model, the highest first. */
  readonly models: readonly UsageRow[]
  /** Whether there are further models. */
  readonly hasMoreModels: boolean
}

const hourMs = 3_600_000
const dayMs = 24 * hourMs
/** Number of days shown, today included. */
export const shownDays = 14

/** The starts of the current and the previous periods. */
function spansAt(now: number) {
  const date = new Date(now)
  const today = Math.floor(now / dayMs) * dayMs
  // 1 January 1970 was a Thursday.
  const monday = today - ((today / dayMs + 3) % 7) * dayMs
  const [year, month] = [date.getUTCFullYear(), date.getUTCMonth()]
  return [
    { name: 'Today', before: 'Yesterday', start: today, last: today - dayMs },
    { name: 'This week', before: 'Last week', start: monday, last: monday - 7 * dayMs },
    {
      ...{ name: 'This month', before: 'Last month' },
      ...{ start: Date.UTC(year, month), last: Date.UTC(year, month - 1) },
    },
  ] as const
}

/**
 * For administrators all users if `user` is undefined. Resolves with undefined without a ledger. Rejects with an
 * ApiError.
 */
export async function readPeriods(
  { call, me }: Session,
  user: string | undefined,
  now = serviceTime(),
): Promise<Periods | undefined> {
  if (!me.ledger) return undefined
  const spans = spansAt(now)
  const today = spans[0].start
  const starts = Array.from({ length: shownDays }, (_, i) => today - (shownDays - 1 - i) * dayMs)
  const read = (from: number, to: number, groups: string) => {
    const query = new URLSearchParams({ from: time(from), to: time(to), group_by: groups })
    if (user !== undefined) query.set('user', user)
    return readPages(`/v1/usage?${query}`, call)
  }
  const [firstShown = today] = starts
  const first = Math.min(firstShown, ...spans.map(({ last }) => last))
  const hour = Math.floor(now / hourMs) * hourMs
  const end = hour + hourMs
  // The periods need no models, of which there may be more than can be read.
  const [all, shown, current, parts] = await Promise.all([
    read(first, end, 'day'),
    read(firstShown, end, 'day,model'),
    read(hour, end, 'hour'),
    Promise.all(
      spans.map(({ start, last }) =>
        hour === start ? undefined : read(last, Math.min(start, last + (hour - start)), 'month'),
      ),
    ),
  ])
  const models = shown.has_more ? await read(firstShown, end, 'model') : undefined
  const between = (from: number, to: number) =>
    all.data.filter(({ start = '' }) => Date.parse(start) >= from && Date.parse(start) < to)
  return {
    ...{ starts, currency: all.currency, isByModel: !shown.has_more },
    days: shown.has_more ? between(firstShown, end) : shown.data,
    models: byModel(models?.data ?? shown.data),
    hasMoreModels: models?.has_more ?? false,
    periods: spans.map(({ name, before, start, last }, i) => {
      const sum = sumOf(between(start, end))
      const full = { now: minus(sum, sumOf(current.data)), before: sumOf(parts[i]?.data ?? []) }
      return { ...{ name, before, full }, now: sum, whole: sumOf(between(last, start)) }
    }),
  }
}

function time(at: number): string {
  return new Date(at).toISOString()
}

export function sumOf(rows: readonly UsageRow[]): Sum {
  const sum = (read: (row: UsageRow) => number) => rows.reduce((all, row) => all + read(row), 0)
  return {
    answers: sum(({ answers }) => answers),
    tokens: sum(({ total_tokens }) => total_tokens),
    refusals: sum(({ refusals_approximate }) => refusals_approximate),
    cost: rows.some(({ cost }) => cost !== undefined)
      ? sum(({ cost = '0' }) => Number(cost))
      : undefined,
  }
}

/** A response may be counted between the reads of both. */
function minus(one: Amount, other: Amount): Amount {
  return {
    answers: Math.max(0, one.answers - other.answers),
    tokens: Math.max(0, one.tokens - other.tokens),
  }
}

function byModel(days: readonly UsageRow[]): readonly UsageRow[] {
  const models = new Map<string, UsageRow>()
  for (const row of days) {
    const before = models.get(row.model ?? '')
    models.set(row.model ?? '', before === undefined ? row : add(before, row))
  }
  return [...models.values()].sort((a, b) => b.total_tokens - a.total_tokens)
}

function add(a: UsageRow, b: UsageRow): UsageRow {
  const cost = a.cost ?? b.cost
  return {
    ...a,
    answers: a.answers + b.answers,
    total_tokens: a.total_tokens + b.total_tokens,
    ...(cost !== undefined && { cost: String(Number(a.cost ?? 0) + Number(b.cost ?? 0)) }),
  }
}
