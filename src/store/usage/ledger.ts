/** The usage ledger in Postgres: its sums, and up to where each journal has been added to them. */

import { readPayer } from '../../core/decision/payer.ts'
import { cutName } from '../../core/formats/names.ts'
import { digestOf } from '../postgres/digest.ts'
import { patiently } from '../postgres/postgres.ts'
import type { Sql } from '../postgres/sql.ts'
import type { LedgerPosition, UsageGroup, UsageLedger } from '../usage.ts'

/** Every method throws `store_unavailable` if the database is unavailable. */
export function createUsageLedger(sql: Sql): UsageLedger {
  return {
    async open(journal) {
      const [found] = await patiently(sql<LedgerPosition[]>`
        insert into tollgate_usage_journals as kept (journal) values (${journal})
        on conflict (journal) do update set seen_at = now(), closed_at = null
        returning revision::float8 as revision, places`)
      return found as LedgerPosition
    },
    async feed({ journal, revision, places, rows, gaps, closes }) {
      const moved = await patiently(sql`
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
          insert into tollgate_usage_hours as kept (hour, id, username, subscription, model, key_id,
            organization, cost_center, rate, answers, input_tokens, output_tokens, cached_tokens,
            reasoning_tokens, total_tokens, estimated_tokens)
          select to_timestamp(hour / 1000), id, "user", subscription, model, "keyId", organization,
            "costCenter", rate, answers, input, output, cached, reasoning, total, estimated
          from moved, json_to_recordset(${JSON.stringify(toColumns(rows))}::json) as row (
            hour float8, id uuid, "user" text, subscription text, model text, "keyId" text,
            organization text, "costCenter" text, rate numeric, answers bigint, input bigint,
            output bigint, cached bigint, reasoning bigint, total bigint, estimated bigint)
          -- Readers that add to the same rows then never wait for one another in a circle.
          order by hour, id
          on conflict (hour, id) do update set
            answers = least(${largest}::bigint, kept.answers + excluded.answers),
            input_tokens = least(${largest}::bigint, kept.input_tokens + excluded.input_tokens),
            output_tokens = least(${largest}::bigint, kept.output_tokens + excluded.output_tokens),
            cached_tokens = least(${largest}::bigint, kept.cached_tokens + excluded.cached_tokens),
            reasoning_tokens =
              least(${largest}::bigint, kept.reasoning_tokens + excluded.reasoning_tokens),
            total_tokens = least(${largest}::bigint, kept.total_tokens + excluded.total_tokens),
            estimated_tokens =
              least(${largest}::bigint, kept.estimated_tokens + excluded.estimated_tokens)
        )
        select 1 from moved`)
      return moved.length === 1
    },
    async addRefusals(refusals) {
      if (refusals.length === 0) return
      await patiently(sql`
        insert into tollgate_usage_hours as kept (hour, id, username, subscription, model, key_id,
          organization, cost_center, rate, refusals)
        select to_timestamp(hour / 1000), id, "user", subscription, model, "keyId", organization,
          "costCenter", rate, refusals
        from json_to_recordset(${JSON.stringify(toColumns(refusals))}::json) as row (
          hour float8, id uuid, "user" text, subscription text, model text, "keyId" text,
          organization text, "costCenter" text, rate numeric, refusals bigint)
        order by hour, id
        on conflict (hour, id) do update set
          refusals = least(${largest}::bigint, kept.refusals + excluded.refusals)`)
    },
  }
}

const largest = Number.MAX_SAFE_INTEGER

/**
 * The columns of each row: names in bounded form, the payer in its parts. Names that become the same are
 * one row, because a statement cannot add to a row twice.
 */
function toColumns<Row extends UsageGroup>(rows: readonly Row[]) {
  const merged = new Map<string, Record<string, unknown>>()
  // Thousands of rows have few payers.
  const payers = new Map<string, ReturnType<typeof toPayerColumns>>()
  for (const { hour, user, subscription, model, keyId, payer, ...sums } of rows) {
    const columns = payers.get(payer) ?? toPayerColumns(payer)
    payers.set(payer, columns)
    const group = {
      user: cutName(user),
      subscription: cutName(subscription),
      model: cutName(model),
      keyId: cutName(keyId),
      ...columns,
    }
    const id = digestOf(JSON.stringify(Object.values(group)))
    const row: Record<string, unknown> = merged.get(`${hour} ${id}`) ?? { hour, id, ...group }
    for (const [name, sum] of Object.entries(sums)) {
      row[name] = Math.min(largest, Number(row[name] ?? 0) + Number(sum))
    }
    merged.set(`${hour} ${id}`, row)
  }
  return [...merged.values()]
}

function toPayerColumns(payer: string) {
  const { organization, costCenter, rate } = readPayer(payer)
  return {
    organization: cutName(organization),
    costCenter: cutName(costCenter),
    rate: isDecimal.test(rate) ? rate : null,
  }
}

const isDecimal = /^\d{1,12}(\.\d{1,24})?$/
