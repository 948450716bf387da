/** Reads the usage ledger from Postgres. */

import { ServiceError } from '../../core/decision/errors.ts'
import { cutName } from '../../core/formats/names.ts'
import { patiently } from '../postgres/postgres.ts'
import type { Fragment, Query, Sql } from '../postgres/sql.ts'
import type {
  NamedGap,
  UsageColumn,
  UsageDimension,
  UsageQuery,
  UsageReader,
  UsageTotal,
} from '../usage.ts'

const columns: Readonly<Record<UsageDimension, string>> = {
  subscription: 'subscription',
  model: 'model',
  user: 'username',
  key: 'key_id',
  organization: 'organization',
  cost_center: 'cost_center',
}

/** A journal that nobody has read for this long was lost with its volume, as far as is known. */
const silentFor = '15 minutes'
const maxGaps = 100

/** The statement of a query; `bench/ledger.bench.ts` explains it. */
export function usageQuery(sql: Sql, query: UsageQuery): Query<Row[]> {
  const { from, to, unit, by, only, after, limit } = query
  const sum = (name: string): Fragment =>
    sql`least(sum(${sql.identifier(name)}), ${largest})::float8`
  const largest = sql.unsafe(String(Number.MAX_SAFE_INTEGER))
  const columnOf = (name: UsageColumn): Fragment =>
    name === 'rate' ? sql`coalesce(trim_scale(rate)::text, '')` : sql.identifier(columns[name])
  const all = (parts: readonly Fragment[]): Fragment =>
    parts.reduce((some, part) => sql`${some}, ${part}`)
  const start = sql.unsafe(`date_trunc('${unit}', hour, 'UTC')`)
  // By bytes, whatever the collation of the database.
  const names = by.map((each) => sql`${columnOf(each)} collate "C"`)
  const groups = unit === undefined ? names : [start, ...names]
  const places = all(groups.map((_, i) => sql.unsafe(String(i + 1))))
  let conditions = sql``
  for (const [name, value] of Object.entries(only)) {
    const column = sql.identifier(columns[name as UsageDimension])
    conditions = sql`${conditions} and ${column} = ${cutName(value)}`
  }
  const values = after?.map((value) =>
    typeof value === 'number' ? sql`to_timestamp(${value}::float8 / 1000)` : sql`${value}::text`,
  )
  // Rows before the page need not be summed.
  const since = unit !== undefined && after ? Math.max(from, Number(after[0])) : from
  return sql<Row[]>`
    select ${all(groups)},
      ${unit === undefined ? sql`null` : sql`(extract(epoch from ${start}) * 1000)::float8`} as start,
      array[${names.length === 0 ? sql`` : all(names)}]::text[] as "group",
      ${sum('answers')} as answers, ${sum('refusals')} as refusals,
      ${sum('input_tokens')} as input, ${sum('output_tokens')} as output,
      ${sum('cached_tokens')} as cached, ${sum('reasoning_tokens')} as reasoning,
      ${sum('total_tokens')} as total, ${sum('estimated_tokens')} as estimated,
      trim_scale(sum(total_tokens * rate))::text as cost
    from tollgate_usage_hours
    where hour >= ${new Date(since)} and hour < ${new Date(to)} ${conditions}
    group by ${places}
    ${values === undefined ? sql`` : sql`having (${all(groups)}) > (${all(values)})`}
    order by ${places}
    limit ${limit}`
}

/** Every method throws `store_unavailable` if the database is unavailable. */
export function createUsageReader(sql: Sql): UsageReader {
  return {
    async read(query) {
      const rows = await patiently(usageQuery(sql, query)).catch(toTimeout)
      return rows.map(({ start, group, answers, refusals, cost, ...tokens }) => {
        const { input, output, cached, reasoning, total, estimated } = tokens
        const sums = { answers, refusals, input, output, cached, reasoning, total, estimated }
        return { ...sums, start: start ?? undefined, group, cost }
      })
    },
    async gaps(from, to) {
      return await patiently(sql<NamedGap[]>`
        select journal, (extract(epoch from from_time) * 1000)::float8 as "from",
          (extract(epoch from to_time) * 1000)::float8 as "to"
        from tollgate_usage_gaps
        where from_time < ${new Date(to)} and to_time >= ${new Date(from)}
        union all
        select journal, (extract(epoch from seen_at) * 1000)::float8, null
        from tollgate_usage_journals
        where closed_at is null and seen_at < now() - ${silentFor}::interval
          and seen_at >= ${new Date(from)} and seen_at < ${new Date(to)}
        order by 2, 1 limit ${maxGaps}`)
    },
  }
}

interface Row extends Omit<UsageTotal, 'start'> {
  readonly start: number | null
}

/** A slow query does not mean that the store is slow. */
export function toTimeout(error: unknown): never {
  if (!(error instanceof ServiceError) || error.code !== 'store_slow') throw error
  throw new ServiceError('usage_timeout', { cause: error.cause })
}
