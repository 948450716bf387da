/** Records the uses of keys in their table. */

import { withDeadline, withLongDeadline } from '../store/postgres/postgres.ts'
import type { Fragment, Query, Sql } from '../store/postgres/sql.ts'

/** A use is recorded again after this many seconds. */
const noteEverySeconds = 30

/** Whether a repeated request may replace the secret: no use of it is recorded. */
export function isReplaceable(sql: Sql): Fragment {
  return sql`(last_used_at is null and exists (
    select from tollgate_idempotency as made where made.key_hash = api_keys.key_hash))`
}

/**
 * Records first uses before their requests get a response, so that no secret in use is replaced. Returns
 * the secrets whose use is recorded, without those that were replaced meanwhile or whose rows are locked: one key's
 * lock must not delay the look-ups of others.
 */
export async function recordFirstUses(
  sql: Sql,
  hashes: readonly string[],
): Promise<readonly string[]> {
  const rows = await withDeadline(sql<{ key_hash: string }[]>`
    with mine as (
      select id from api_keys where key_hash = any(${hashes}::text[])
      for no key update skip locked
    )
    update api_keys set last_used_at = coalesce(last_used_at, now()),
      previous_ends_at = case when last_used_at is null
        then least(previous_ends_at, now() + previous_end_after) else previous_ends_at end
    from mine where api_keys.id = mine.id
    returning key_hash`)
  return rows.map(({ key_hash: hash }) => hash)
}

/** By hash, so that a use written after a rotation counts for the secret that was used. */
type Uses = ReadonlyMap<string, number>

/** Whether a row's recorded use is old enough to be updated. */
function isDue(sql: Sql, row: Fragment, use: Fragment): Fragment {
  return sql`(${row}.last_used_at is null
    or ${row}.last_used_at <= ${use}.at - make_interval(secs => ${noteEverySeconds}))`
}

/** The uses as rows; a clock that is ahead does not suppress the uses of others. */
function usesOf(sql: Sql, uses: Uses): Fragment {
  const instants = [...uses.values()].map((instant) => new Date(instant).toISOString())
  return sql`(
    select hash, least(at, now()) as at
    from unnest(${[...uses.keys()]}::text[], ${instants}::timestamptz[]) as noted (hash, at)
  ) as uses`
}

/** Records the last uses of secrets, current and replaced. */
export async function recordUses(sql: Sql, uses: Uses): Promise<void> {
  if (uses.size === 0) return
  await withLongDeadline(noteUses(sql, uses))
  await withLongDeadline(notePrevious(sql, uses))
}

/**
 * Locks rows in a fixed order and skips locked ones, which may be in the course of the same update.
 * Both conditions are needed, because a row may change before it is locked.
 */
function noteUses(sql: Sql, uses: Uses): Query<object[]> {
  return sql`
    update api_keys set last_used_at = used.at,
      previous_ends_at = case when last_used_at is null
        then least(previous_ends_at, used.at + previous_end_after) else previous_ends_at end
    from (
      select id, hash, at from ${usesOf(sql, uses)} join api_keys on key_hash = hash
      where ${isDue(sql, sql`api_keys`, sql`uses`)}
      order by id
      for no key update of api_keys skip locked
    ) as used
    where api_keys.id = used.id and key_hash = used.hash
      and ${isDue(sql, sql`api_keys`, sql`used`)}`
}

function notePrevious(sql: Sql, uses: Uses): Query<object[]> {
  return sql`
    update api_keys set previous_last_used_at = greatest(previous_last_used_at, used.at)
    from (
      select id, hash, at from ${usesOf(sql, uses)} join api_keys on previous_hash = hash
      order by id
      for no key update of api_keys skip locked
    ) as used
    where api_keys.id = used.id and previous_hash = used.hash`
}
