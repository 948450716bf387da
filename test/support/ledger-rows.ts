import { toTimestamp } from '../../src/formats/time.ts'
import type { Pool } from '../../src/store/postgres/postgres.ts'
import { usageQuery } from '../../src/usage/ledger/postgres/reader.ts'
import type { UsageQuery } from '../../src/usage/store.ts'

const hourMs = 3_600_000
/** The year of the rows. */
export const [yearFrom, yearTo] = [Date.UTC(2025, 0), Date.UTC(2026, 0)]

/**
 * Fills the ledger with a year of usage, spread evenly: by `user-<n>`, two keys each, 20 models, each
 * user of one of `organization-<n>`. A month's rows get their indexes when it joins the table, which
 * takes a fraction of the time of adding each row to them.
 */
export async function fillLedger(
  sql: Pool,
  rows: number,
  { users, organizations }: { readonly users: number; readonly organizations: number },
): Promise<void> {
  const hours = (yearTo - yearFrom) / hourMs
  const firstOf = (time: number): number => Math.ceil(((time - yearFrom) / hourMs / hours) * rows)
  for (let month = 0; month < 12; month += 1) {
    const [from, to] = [Date.UTC(2025, month), Date.UTC(2025, month + 1)]
    const name = `tollgate_usage_hours_2025_${String(month + 1).padStart(2, '0')}`
    const partition = sql.identifier(name)
    // Created in the same transaction as its rows, so that Postgres need not log them.
    await sql.begin(async (transaction) => {
      await transaction`set local statement_timeout = 0`
      await transaction`create table ${partition} (like tollgate_usage_hours including defaults)`
      await transaction`
        insert into ${partition} (hour, id, username, subscription, model, key_id, organization,
          cost_center, rate, answers, input_tokens, output_tokens, total_tokens)
        select ${new Date(yearFrom)}::timestamptz
            + make_interval(hours => (i * ${hours}::bigint / ${rows}::bigint)::int),
          gen_random_uuid(), 'user-' || u, 'subscription-' || u % 10, 'llm/model-' || i % 20,
          'key-' || u || '-' || i % 2, 'organization-' || u % ${organizations}::int,
          'center-' || u % 50, 0.000002, 10, 1000, 500, 1500
        from (select i, floor(random() * ${users}::int)::int as u
          from generate_series(${firstOf(from)}::bigint, ${firstOf(to) - 1}::bigint) i) as rows`
      await transaction.unsafe(
        `alter table tollgate_usage_hours attach partition ${name}
          for values from ('${toTimestamp(from)}') to ('${toTimestamp(to)}')`,
      )
    })
  }
  await sql.begin(async (transaction) => {
    await transaction`set local statement_timeout = 0`
    await transaction`analyze tollgate_usage_hours`
  })
}

/** A user's use of March by day and model, and an organization's by month. */
export const heaviest: Readonly<Record<string, UsageQuery>> = {
  'a month of one user': {
    ...{ from: Date.UTC(2025, 2), to: Date.UTC(2025, 3), unit: 'day', by: ['model'] },
    ...{ only: { user: 'user-7' }, after: undefined, limit: 1_001 },
  },
  "an organization's year by month": {
    ...{ from: yearFrom, to: yearTo, unit: 'month', by: [] },
    ...{ only: { organization: 'organization-7' }, after: undefined, limit: 1_001 },
  },
}

export interface Plan {
  readonly 'Node Type': string
  readonly 'Relation Name'?: string
  readonly 'Index Name'?: string
  readonly Plans?: readonly Plan[]
}

/** Postgres' plan after its execution, and the milliseconds that it reports. */
export async function explainUsage(
  sql: Pool,
  query: UsageQuery,
): Promise<{ readonly nodes: readonly Plan[]; readonly ms: number }> {
  const [row] = await sql<Record<'QUERY PLAN', [Record<string, unknown>]>[]>`
    explain (analyze, timing off, format json) ${usageQuery(sql, query)}`
  const [explained] = row?.['QUERY PLAN'] ?? [{}]
  const nodesOf = (plan: Plan): readonly Plan[] => [plan, ...(plan.Plans ?? []).flatMap(nodesOf)]
  return {
    nodes: nodesOf(explained.Plan as Plan),
    ms: Number(explained['Planning Time']) + Number(explained['Execution Time']),
  }
}
