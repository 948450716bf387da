/** The sums that estimators have learned, in Postgres. */

import { withLongDeadline } from '../../store/postgres/postgres.ts'
import type { Sql } from '../../store/postgres/sql.ts'
import type { SumsDelta } from '../rules/estimates/decaying-sums.ts'

/** A part of an estimator; `model` is `<namespace>/<name>`. The owner's column is named `subscription`. */
export interface LearnedPart {
  readonly owner: string
  readonly model: string
  readonly part: number
}

export interface LearnedRow extends LearnedPart {
  readonly sums: readonly number[]
  /** A timestamp as text, in the database's own precision. */
  readonly at: string
}

/** Maximum number of rows in one page, and in the whole table, beyond which the oldest are deleted. */
export const learnedPageRows = 500
const maxRows = 20_000
const keptFor = '30 days'
/** Smaller factors are taken as 0: Postgres refuses a statement with a product that it cannot represent. */
const negligible = 1e-100

/** Adds to the rows of all processes. After a failure they may have been added nevertheless. */
export async function addLearnedSums(
  sql: Sql,
  deltas: readonly (LearnedPart & { readonly delta: SumsDelta })[],
): Promise<void> {
  const rows = deltas.map(({ delta, owner, ...part }) => {
    return {
      subscription: owner,
      ...part,
      kept: delta.kept < negligible ? 0 : delta.kept,
      sums: short(delta.sums),
      whole: short(delta.whole),
    }
  })
  await withLongDeadline(sql`
    with added as (
      select * from json_to_recordset(${JSON.stringify(rows)}::json) as row (
        subscription text, model text, part smallint, kept float8, sums float8[], whole float8[]))
    insert into tollgate_learned as known (subscription, model, part, sums, updated_at)
    select subscription, model, part, whole, now() from added
    -- All processes lock rows in the same order, so that they do not deadlock.
    order by subscription, model, part
    on conflict (subscription, model, part) do update set updated_at = excluded.updated_at, sums = (
      select case when cardinality(known.sums) <> cardinality(added.sums) then added.whole
        else array(
          select case when before < ${negligible} then 0 else added.kept * before end + own
          from unnest(known.sums, added.sums)
            with ordinality as pair (before, own, at) order by at)
        end
      from added
      where (added.subscription, added.model, added.part)
        = (known.subscription, known.model, known.part))`)
}

/**
 * Reads up to `learnedPageRows` rows that changed after this one, or up to `overlapMs` before it, earliest first; from the
 * beginning if it is undefined.
 */
export async function readLearnedSums(
  sql: Sql,
  after: Omit<LearnedRow, 'sums'> | undefined,
  overlapMs: number,
): Promise<readonly LearnedRow[]> {
  const { owner = '', model = '', part = 0, at = '-infinity' } = after ?? {}
  return withLongDeadline(sql<LearnedRow[]>`
    select subscription as owner, model, part, sums, updated_at::text as at from tollgate_learned
    where (updated_at, subscription, model, part)
      > (${at}::timestamptz - make_interval(secs => ${overlapMs / 1_000}::float8),
        ${owner}::text, ${model}::text, ${part}::smallint)
    order by updated_at, subscription, model, part limit ${learnedPageRows}`)
}

/** Deletes rows that have not changed for a month, and the oldest rows of a table that is too large. */
export async function purgeLearnedSums(sql: Sql, max = maxRows): Promise<void> {
  await withLongDeadline(sql`
    delete from tollgate_learned where updated_at < now() - ${keptFor}::interval
      or (subscription, model, part) in (
        select subscription, model, part from tollgate_learned
        order by updated_at desc offset ${max})`)
}

/** Rounds to four decimals, so that rows are short. */
function short(sums: Float64Array): readonly number[] {
  return Array.from(sums, (sum) => Math.round(sum * 1e4) / 1e4)
}
