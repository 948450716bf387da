/** Reads the usage ledger from Postgres. */

import { cutName } from '../../../formats/bounded-text.ts'
import { ServiceError } from '../../../formats/errors.ts'
import { withLongDeadline } from '../../../store/postgres/postgres.ts'
import { epochMs, type Fragment, type Query, type Sql } from '../../../store/postgres/sql.ts'
import {
  type NamedGap,
  type UsageColumn,
  type UsageDimension,
  type UsageQuery,
  type UsageReader,
  type UsageTotal,
  usageFigures,
} from '../../store.ts'

const columns: Readonly<Record<UsageColumn, string>> = {
  subscription: 'subscription',
  model: 'model',
  user: 'username',
  key: 'key_id',
  organization: 'organization',
  cost_center: 'cost_center',
  label: "coalesce(label, '')",
  rate: "coalesce(trim_scale(rate)::text, '')",
  prices: 'prices',
}

/** A journal that was not read for this long counts as lost with its volume. */
const silentFor = '15 minutes'
const maxGaps = 100

/** The statement of a query; `bench/ledger.bench.ts` explains it. */
export function usageQuery(sql: Sql, query: UsageQuery): Query<Row[]> {
  const { from, to, unit, by, only, label, labels, onlyReal, after, limit } = query
  const start = `date_trunc('${unit}', hour, 'UTC')`
  // Ordered by bytes, whatever the database's collation.
  const names = by.map((each) => `${columns[each]} collate "C"`)
  const groups = sql.unsafe([...(unit === undefined ? [] : [start]), ...names].join(', '))
  let conditions = onlyReal ? sql`and not demo` : sql``
  for (const [name, value] of Object.entries(only)) {
    const column = sql.unsafe(columns[name as UsageDimension])
    conditions = sql`${conditions} and ${column} = ${cutName(value)}`
  }
  if (labels !== undefined) {
    const held = sql`select id from api_keys where labels @> ${JSON.stringify(labels)}::text::jsonb`
    conditions = sql`${conditions} and key_id in (${held})`
  }
  const labelled =
    label === undefined
      ? sql``
      : sql`left join (select id as labelled_id, labels ->> ${label}::text as label from api_keys) labelled
          on labelled_id = key_id`
  const values = after?.map((value) =>
    typeof value === 'number' ? sql`to_timestamp(${value}::float8 / 1000)` : sql`${value}::text`,
  )
  // Rows before the page need not be summed.
  const since = unit !== undefined && after ? Math.max(from, Number(after[0])) : from
  return sql<Row[]>`
    select (extract(epoch from ${sql.unsafe(unit === undefined ? 'null::timestamptz' : start)}) * 1000)::float8 as start,
      array[${sql.unsafe(names.join(', '))}]::text[] as "group",
      ${sumColumns(sql, { ...usageFigures, refusals: 'refusals' })},
      trim_scale(sum(coalesce(cost_nano * 0.000000001, total_tokens * rate)))::text as cost
    from tollgate_usage_hours ${labelled}
    where hour >= ${new Date(since)} and hour < ${new Date(to)} ${conditions}
    group by ${groups}
    ${values === undefined ? sql`` : sql`having (${groups}) > (${values.reduce((some, value) => sql`${some}, ${value}`)})`}
    order by ${groups}
    limit ${limit}`
}

/** Every method throws `store_unavailable` if the database is unavailable. */
export function createUsageReader(sql: Sql): UsageReader {
  return {
    async read(query) {
      const rows = await withLongDeadline(usageQuery(sql, query)).catch(rethrowTimeout)
      return rows.map(({ start, ...row }) => ({ ...row, start: start ?? undefined }))
    },
    async gaps(from, to) {
      return await withLongDeadline(sql<NamedGap[]>`
        select journal, ${epochMs(sql, 'from_time')} as "from",
          ${epochMs(sql, 'to_time')} as "to"
        from tollgate_usage_gaps
        where from_time < ${new Date(to)} and to_time >= ${new Date(from)}
        union all
        select journal, ${epochMs(sql, 'seen_at')}, null
        from tollgate_usage_journals
        where closed_at is null and seen_at < now() - ${silentFor}::interval
          and seen_at >= ${new Date(from)} and seen_at < ${new Date(to)}
        order by 2, 1 limit ${maxGaps}`)
    },
  }
}

/** The sums of these figures, by their names. */
export function sumColumns(sql: Sql, figures: Readonly<Record<string, string>>): Fragment {
  const most = Number.MAX_SAFE_INTEGER
  const sums = Object.entries(figures).map(
    ([name, column]) => `greatest(-${most}, least(sum(${column}), ${most}))::float8 as "${name}"`,
  )
  return sql.unsafe(sums.join(', '))
}

interface Row extends Omit<UsageTotal, 'start'> {
  readonly start: number | null
}

/** A slow query does not mean that the store is slow. */
export function rethrowTimeout(error: unknown): never {
  if (!(error instanceof ServiceError) || error.code !== 'store_slow') throw error
  throw new ServiceError('usage_timeout', { cause: error.cause })
}
