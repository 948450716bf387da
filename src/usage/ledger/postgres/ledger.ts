/** The usage ledger in Postgres: its sums, and its position in each journal. */

import { cutName, digest128 } from '../../../formats/bounded-text.ts'
import { getOrAdd } from '../../../formats/lists.ts'
import { parsePrice } from '../../../formats/money.ts'
import { parsePayer } from '../../../models/rules/payer.ts'
import { inSlices } from '../../../runtime/slices.ts'
import { withLongDeadline } from '../../../store/postgres/postgres.ts'
import type { Fragment, Sql } from '../../../store/postgres/sql.ts'
import {
  type ArchiveHead,
  type ArchiveHeads,
  type LedgerPosition,
  type LimitRow,
  type UsageGroup,
  type UsageLedger,
  type UsageRow,
  type UsageSums,
  usageFigures,
} from '../../store.ts'
import { addCharge, addUsage, figureNames, mergeRow } from '../merge.ts'

/** Every method throws `store_unavailable` if the database is unavailable. */
export function createUsageLedger(sql: Sql): UsageLedger {
  return {
    async open(journal) {
      const [found] = await withLongDeadline(sql<LedgerPosition[]>`
        insert into tollgate_usage_journals as kept (journal) values (${journal})
        on conflict (journal) do update set seen_at = now(), closed_at = null
        returning revision::float8 as revision, places`)
      return found as LedgerPosition
    },
    async feed({ journal, revision, places, rows, limits = [], gaps, closes }) {
      const usage = await inSlices(textOf(rowsInSteps(rows)))
      const charges = await inSlices(textOf(limitRowsInSteps(limits)))
      const moved = await withLongDeadline(sql`
        with moved as (
          update tollgate_usage_journals set
            revision = revision + 1,
            places = ${JSON.stringify(places)}::jsonb,
            seen_at = now(),
            closed_at = case when ${closes} then now() end
          where journal = ${journal} and revision = ${revision}::bigint
          returning journal
        ), lost as (
          insert into tollgate_usage_gaps (journal, from_time, to_time)
          select journal, to_timestamp("from" / 1000), to_timestamp("to" / 1000)
          from moved, json_to_recordset(${JSON.stringify(gaps)}::json)
            as gap ("from" float8, "to" float8)
          on conflict do nothing
        ), added as (
          ${addRows(sql, usage, [...Object.values(usageFigures), 'cost_nano'], sql`exists (select from moved)`)}
        ), charged as (
          insert into tollgate_usage_limits as kept
          select each.* from moved,
            json_populate_recordset(null::tollgate_usage_limits, ${charges}::json) each
          order by begins_at, id
          on conflict (begins_at, id) do update set amount = kept.amount + excluded.amount,
            first_at = least(kept.first_at, excluded.first_at),
            last_at = greatest(kept.last_at, excluded.last_at)
        )
        select 1 from moved`)
      return moved.length === 1
    },
    async addRefusals(refusals) {
      if (refusals.length === 0) return
      const rows = await inSlices(textOf(rowsInSteps(refusals)))
      await withLongDeadline(addRows(sql, rows, ['refusals'], sql`true`))
    },
  }
}

const maxSum = Number.MAX_SAFE_INTEGER

/** Adds these figures of the rows (a JSON text) to the sums of their hours, if the condition is true. */
function addRows(
  sql: Sql,
  rows: string,
  figures: readonly string[],
  condition: Fragment,
): Fragment {
  const columns = sql.unsafe(`hour, id, ${groupColumns}, ${figures.join(', ')}`)
  const sums = figures.map((each) => {
    // As numeric, since sums that earlier versions did not cap may be near the column's end.
    const sum = `kept.${each}::numeric + excluded.${each}`
    return `${each} = ${each === 'cost_nano' ? sum : `greatest(-${maxSum}, least(${maxSum}, ${sum}))`}`
  })
  return sql`
    insert into tollgate_usage_hours as kept (${columns})
    select ${columns}
    from json_populate_recordset(null::tollgate_usage_hours, ${rows}::json)
    where ${condition}
    -- All writers lock rows in the same order, so that they do not deadlock.
    order by hour, id
    on conflict (hour, id) do update set ${sql.unsafe(sums.join(', '))}`
}

const groupColumns =
  'username, subscription, model, key_id, organization, cost_center, rate, prices'
const figureColumns = { ...usageFigures, refusals: 'refusals' } as const

/** Returns the rows as JSON. Steps for `inSlices`, because there may be thousands of rows. */
function* textOf(
  steps: Generator<undefined, readonly Record<string, unknown>[]>,
): Generator<undefined, string> {
  const texts: string[] = []
  for (const row of yield* steps) {
    texts.push(JSON.stringify(row))
    yield
  }
  return `[${texts.join()}]`
}

type LedgerRow = UsageGroup &
  Partial<UsageSums & Pick<UsageRow, 'prices' | 'cost'> & { readonly refusals: number }>

/**
 * Rows of the table of usage: names are cut, and the payer is split into its parts. Rows whose names become equal are
 * merged, because a statement cannot add to a row twice. Steps for `inSlices`.
 */
export function* rowsInSteps(
  rows: readonly LedgerRow[],
): Generator<undefined, Record<string, unknown>[]> {
  const merged = new Map<string, { readonly columns: object; readonly row: LedgerRow }>()
  // Cached, because thousands of rows have few payers.
  const payers = new Map<string, ReturnType<typeof toPayerColumns>>()
  for (const row of rows) {
    const { hour, user, subscription, model, keyId, payer, prices = '' } = row
    const payerColumns = getOrAdd(payers, payer, () => toPayerColumns(payer))
    const group = {
      username: cutName(user),
      subscription: cutName(subscription),
      model: cutName(model),
      key_id: cutName(keyId),
      ...payerColumns,
    }
    // Without prices, as in the previous version, which has none and adds to the same rows.
    const names = Object.values(group)
    const id = digest128(JSON.stringify(prices === '' ? names : [...names, prices]))
    const columns = { hour: new Date(hour), id, ...group, prices }
    mergeRow(merged, `${hour} ${id}`, { columns, row }, (one, other) => {
      return { ...one, row: addUsage(one.row, other.row) }
    })
    yield
  }
  const written: Record<string, unknown>[] = []
  for (const { columns, row } of merged.values()) {
    const figures = figureNames.map((name) => [figureColumns[name], row[name]])
    written.push({ ...columns, ...Object.fromEntries(figures), cost_nano: row.cost?.toString() })
    yield
  }
  return written
}

/** Rows of the table of limits: names are cut, and rows whose names become equal are merged. */
function* limitRowsInSteps(
  rows: readonly LimitRow[],
): Generator<undefined, readonly Record<string, unknown>[]> {
  const merged = new Map<string, LimitRow>()
  for (const row of rows) {
    const cut = { ...row, resource: cutName(row.resource), whom: cutName(row.whom) }
    const { resource, name, kind, per, whom, window } = cut
    const id = digest128(JSON.stringify([resource, name, kind, per, whom, window]))
    mergeRow(merged, `${row.begin} ${id}`, cut, addCharge)
    yield
  }
  return [...merged].map(([key, { begin, window, amount, first, last, ...group }]) => ({
    ...group,
    id: key.slice(key.indexOf(' ') + 1),
    begins_at: new Date(begin),
    window_text: window,
    amount: `${amount}`,
    first_at: new Date(first),
    last_at: new Date(last),
  }))
}

function toPayerColumns(payer: string) {
  const { organization, costCenter, rate } = parsePayer(payer)
  return {
    organization: cutName(organization),
    cost_center: cutName(costCenter),
    // Earlier versions wrote it in the resource's form.
    rate: parsePrice(rate) ?? null,
  }
}

/** Every method throws `store_unavailable` if the database is unavailable. */
export function createArchiveHeads(sql: Sql): ArchiveHeads {
  return {
    async open(journal) {
      const [found] = await withLongDeadline(sql<ArchiveHead[]>`
        insert into tollgate_usage_archives as kept (journal) values (${journal})
        on conflict (journal) do update set journal = kept.journal
        returning piece::float8 as piece, hash, places`)
      return found as ArchiveHead
    },
    async move(journal, { piece, hash, places }) {
      const moved = await withLongDeadline(sql`
        update tollgate_usage_archives set piece = ${piece}::bigint, hash = ${hash},
          places = ${JSON.stringify(places)}::jsonb, archived_at = now()
        where journal = ${journal} and piece = ${piece - 1}::bigint
        returning 1`)
      return moved.length === 1
    },
  }
}
