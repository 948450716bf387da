/** API keys in Postgres: one tagged query per method. */

import { ServiceError } from '../formats/errors.ts'
import { acquireLock, advisoryLocks, lockDeadlineMs } from '../store/postgres/advisory-locks.ts'
import {
  inTransaction,
  type Pool,
  requestDeadlineMs,
  withDeadline,
  withLongDeadline,
} from '../store/postgres/postgres.ts'
import { earlierNow, type Fragment, type Query, type Sql } from '../store/postgres/sql.ts'
import { type Attempt, recordSecret } from './idempotency.ts'
import {
  type FoundRow,
  foundColumns,
  type KeyRow,
  type RevokedRecordRow,
  toApiKeyRecord,
  toFoundKey,
  toRevokedRecord,
  toStoredJson,
} from './key-rows.ts'
import { isReplaceable, recordFirstUses, recordUses } from './key-uses.ts'
import type { RevokedKey } from './revocations/revocation-log.ts'
import type { ApiKeyRecord } from './rules/api-key.ts'
import { closedCaps } from './rules/key-caps.ts'
import type { ApiKeySearch, ApiKeyTable, KeyScope } from './store.ts'

/** How long an expired ephemeral key is retained (contract, 3.13). */
const ephemeralGraceMs = 1_800_000
/** Maximum number of rows that one statement revokes or deletes, so that it meets its deadline. */
const batchRows = 2_000

/** The table of keys over a pool; the database must be migrated. */
export function createPostgresApiKeys(sql: Pool): ApiKeyTable {
  return {
    async insert(record, attempt, most) {
      if (most === undefined)
        return await withDeadline(insertOne(sql, record, attempt)).then(requireOne)
      const inserted = await inTransaction(
        sql,
        async (transaction) =>
          (await hasRoom(transaction, record.user, most, record.createdAt))
            ? await insertOne(transaction, record, attempt)
            : 'full',
        requestDeadlineMs,
      )
      if (inserted === 'full') throw tooMany(most)
      requireOne(inserted)
    },
    async findByHashes(hashes) {
      const rows = await withDeadline(sql<FoundRow[]>`
        select ${foundColumns(sql)}, false as is_previous, ${isReplaceable(sql)} as is_replaceable
        from api_keys where key_hash = any(${hashes}::text[])
        union all
        select id, username, previous_hash, status, user_groups, subscription, created_at,
          least(expires_at, previous_ends_at), revoked_at, caps, true, false from api_keys
        where previous_hash = any(${hashes}::text[])`)
      const first = rows.flatMap((row) => (row.is_replaceable ? row.key_hash : []))
      const used = new Set(first.length === 0 ? [] : await recordFirstUses(sql, first))
      return rows.map((row) =>
        !row.is_replaceable || used.has(row.key_hash)
          ? toFoundKey(row)
          : { hash: row.key_hash, lockedId: row.id },
      )
    },
    async findLastUsed(limit, now) {
      const query = sql<FoundRow[]>`
        select ${foundColumns(sql)} from api_keys
        where ${isActiveAt(sql, now)} and last_used_at is not null
        order by last_used_at desc
        limit ${limit}`
      return (await withLongDeadline(query)).map(toFoundKey)
    },
    noteUses: (uses) => recordUses(sql, uses),
    async findById(id) {
      const [row] = await withDeadline(sql<KeyRow[]>`select * from api_keys where id = ${id}`)
      return row && toApiKeyRecord(row)
    },
    async change(id, owner, { name, description, labels, caps }, now, from) {
      const isSame = sql`caps is not distinct from ${toStoredJson(from)}::text::jsonb`
      const query = sql<RevokedRecordRow[]>`
        update api_keys set
          name = coalesce(${name ?? null}, name),
          description = case when ${description !== undefined} then ${description || null} else description end,
          labels = case when ${labels !== undefined} then ${toStoredJson(labels)}::text::jsonb else labels end,
          caps = case when ${caps !== undefined} then ${toStoredJson(caps)}::text::jsonb else caps end
        where ${isOwn(sql, id, owner, now)}
          ${from === undefined || from === closedCaps ? sql`` : sql`and ${isSame}`}
        returning *, pg_current_xact_id()::text as transaction`
      const [row] = await withDeadline(query)
      return row && toRevokedRecord(row)
    },
    async revoke(id, owner, now, hash) {
      const [row] = await withDeadline(sql<RevokedRecordRow[]>`
        update api_keys set status = 'revoked' where ${isOwn(sql, id, owner, now)}
          ${hash === undefined ? sql`` : sql`and key_hash = ${hash}`}
        returning *, pg_current_xact_id()::text as transaction`)
      return row && toRevokedRecord(row)
    },
    rotate: (...asked) => rotate(sql, ...asked),
    async endPrevious(hash, now) {
      const [row] = await withDeadline(sql<RevokedRecordRow[]>`
        update api_keys set previous_hash = null, previous_prefix = null, previous_ends_at = null,
          previous_last_used_at = null, previous_end_after = null
        where previous_hash = ${hash} and previous_ends_at > ${earlierNow(sql, now)}
          and status = 'active' and ${lockBound(sql)}
        returning *, pg_current_xact_id()::text as transaction`)
      return row && { ...toRevokedRecord(row), hash }
    },
    async countEndingSoon(now) {
      const instant = sql`${new Date(now)}::timestamptz`
      const query = sql<{ count: number }[]>`
        select count(*)::int as count from api_keys
        where status = 'active' and not ephemeral and expires_at > ${instant}
          and expires_at <= ${instant} + interval '7 days'
          and ${instant} >= expires_at - (expires_at - greatest(created_at, '0100-01-01')) / 10`
      const [row] = await withLongDeadline(query)
      return row?.count ?? 0
    },
    async countActive(scope, now) {
      const query = sql<{ count: number }[]>`
        select count(*)::int as count from api_keys where ${isActive(sql, scope, now)}`
      const [row] = await withLongDeadline(query)
      return row?.count ?? 0
    },
    async search(search) {
      return (await withLongDeadline(searchQuery(sql, search))).map(toApiKeyRecord)
    },
    revokeAll: (scope, now) => revokeAll(sql, scope, now),
    async deleteExpiredEphemeral(now) {
      // And by the database's clock: the clock of one process may be ahead.
      const expiredBefore = new Date(now - ephemeralGraceMs)
      let deleted = 0
      for (;;) {
        const query = sql`
          delete from api_keys where id = any(array(
            select id from api_keys
            where ephemeral and expires_at < least(${expiredBefore}::timestamptz,
                now() - ${ephemeralGraceMs}::float8 * interval '1 millisecond')
              and (select pg_try_advisory_xact_lock(${advisoryLocks.keyCleanup}))
            limit ${batchRows}
            for update skip locked
          ))`
        const { count } = await withLongDeadline(query)
        deleted += count
        if (count < batchRows) return deleted
      }
    },
  }
}

async function rotate(
  sql: Sql,
  ...[id, owner, rotation, now]: Parameters<ApiKeyTable['rotate']>
): ReturnType<ApiKeyTable['rotate']> {
  const { hash, prefix, overlapMs, endAfterFirstUseMs, unused, attempt } = rotation
  const instant = new Date(now)
  const overlap = sql`${overlapMs}::float8 * interval '1 millisecond'`
  const endAfter = sql`${endAfterFirstUseMs ?? null}::float8 * interval '1 millisecond'`
  const hasOverlap = overlapMs > 0
  // A repeated rotation leaves the previous secret as the first attempt did.
  const previous = (value: Fragment, column: string) =>
    unused === undefined
      ? sql`case when ${hasOverlap} then ${value} end`
      : sql`api_keys.${sql.identifier(column)}`
  const [row] = await withDeadline(sql<RotatedRow[]>`
    with replaced as (
      select * from api_keys
      where ${isOwn(sql, id, owner, now)}
        ${unused === undefined ? sql`` : sql`and key_hash = ${unused} and last_used_at is null`}
      for update
    ),
    made as (
      ${recordSecret(sql, attempt, { keyId: id, hash }, sql`exists (select from replaced)`)}
    )
    update api_keys set
      key_hash = ${hash}, key_prefix = ${prefix}, last_used_at = null,
      previous_hash = ${previous(sql`replaced.key_hash`, 'previous_hash')},
      previous_prefix = ${previous(sql`replaced.key_prefix`, 'previous_prefix')},
      previous_ends_at = ${previous(sql`least(replaced.expires_at, ${instant}::timestamptz + ${overlap})`, 'previous_ends_at')},
      previous_last_used_at = ${previous(sql`replaced.last_used_at`, 'previous_last_used_at')},
      previous_end_after = ${previous(endAfter, 'previous_end_after')}
    from replaced, made
    where api_keys.id = replaced.id
    returning api_keys.*, replaced.key_hash as replaced_hash,
      replaced.previous_hash as replaced_previous_hash,
      pg_current_xact_id()::text as transaction`)
  if (row === undefined) return undefined
  const record = toApiKeyRecord(row)
  const { expiresAt } = record
  const { transaction, replaced_hash: replaced, replaced_previous_hash: older } = row
  const secret = { id, hash: replaced, expiresAt, transaction }
  if (unused !== undefined) return { record, replaced: secret }
  return {
    record,
    replaced: {
      ...secret,
      ...(record.previous && { endsAt: record.previous.endsAt }),
      ...(older !== null && { previousHash: older }),
    },
  }
}

async function revokeAll(sql: Sql, scope: KeyScope, now: number): Promise<readonly RevokedKey[]> {
  const all: RevokedKey[] = []
  // Rows that an open transaction has locked come last, so that the others are revoked first.
  for (const isLast of [false, true]) {
    // Otherwise each batch would read all rows of the earlier ones again.
    let oldest = 'infinity'
    for (;;) {
      const query = revokeBatch(sql, scope, now, oldest, isLast)
      const revoked = await withLongDeadline(query).catch((error: unknown) => {
        throw all.length > 0 ? toUnfinished(error) : error
      })
      for (const row of revoked) {
        const { id, hash, transaction, previous_hash: previousHash } = row
        const expiresAt = row.expires_at?.getTime() ?? null
        all.push({ id, hash, transaction, ...(previousHash && { previousHash }), expiresAt })
      }
      oldest = revoked[0]?.oldest ?? oldest
      if (revoked.length < batchRows) break
    }
  }
  return all
}

/**
 * Revokes the newest keys of the scope that are not newer than `oldest`. Locks rows in a fixed order, so that two
 * concurrent statements wait instead of deadlocking: in the order of the indexes on owner and subscription, which avoids
 * a scan of the table.
 */
function revokeBatch(
  sql: Sql,
  scope: KeyScope,
  now: number,
  oldest: string,
  waitsForLocks: boolean,
): Query<RevokedRow[]> {
  return sql<RevokedRow[]>`
    with revoked as (
      update api_keys set status = 'revoked'
      where status = 'active' and id = any(array(
        select id from api_keys
        where ${isActive(sql, scope, now)} and created_at <= ${oldest}::timestamptz
          and ${lockBound(sql)}
        order by created_at desc, id
        limit ${batchRows}
        for update ${waitsForLocks ? sql`` : sql`skip locked`}
      ))
      returning id, key_hash as hash, previous_hash, expires_at, created_at
    )
    select id, hash, previous_hash, expires_at, (min(created_at) over ())::text as oldest,
      pg_current_xact_id()::text as transaction
    from revoked`
}

/** The batches before this failure are revoked, even if the server has refused this one. */
function toUnfinished(error: unknown): unknown {
  if (!(error instanceof ServiceError)) return error
  const cause = new Error('only a part of the keys was revoked', { cause: error.cause })
  return new ServiceError(error.code, { cause })
}

type RevokedRow = Omit<RevokedKey, 'expiresAt' | 'previousHash'> &
  Pick<KeyRow, 'expires_at' | 'previous_hash'> & { readonly oldest: string }

type RotatedRow = RevokedRecordRow & {
  readonly replaced_hash: string
  readonly replaced_previous_hash: string | null
}

function insertOne(sql: Sql, record: ApiKeyRecord, attempt: Attempt | undefined): Query<object[]> {
  const { id, hash } = record
  return sql`
    with made as (${recordSecret(sql, attempt, { keyId: id, hash })})
    insert into api_keys (id, username, name, description, key_hash, status, user_groups,
      subscription, ephemeral, created_at, expires_at, key_prefix, labels,
      caps)
    select ${id}, ${record.user}, ${record.name}, ${record.description || null},
      ${hash}, ${record.status}, ${record.groups},
      ${record.subscription}, ${record.ephemeral}, ${new Date(record.createdAt)},
      ${record.expiresAt === null ? null : new Date(record.expiresAt)}, ${record.prefix},
      ${toStoredJson(record.labels)}::text::jsonb, ${toStoredJson(record.caps)}::text::jsonb
    from made`
}

function requireOne({ count }: { readonly count: number }): void {
  if (count === 0) throw new ServiceError('idempotency_busy')
}

/** Call it within a transaction: until that ends, no other such transaction counts the user's keys. */
async function hasRoom(sql: Sql, user: string, most: number, now: number): Promise<boolean> {
  await acquireLock(sql, advisoryLocks.userKeys, user)
  const [row] = await sql<{ count: number }[]>`
    select count(*)::int as count from (
      select from api_keys where username = ${user} and ${isActiveAt(sql, now)} limit ${most}
    ) as active`
  return (row?.count ?? 0) < most
}

function tooMany(most: number): ServiceError {
  const message = `You have ${most.toLocaleString('en')} active keys, the most that a user may have (MAX_KEYS_PER_USER); revoke some first.`
  return new ServiceError('too_many_keys', { message })
}

/**
 * A condition that is always true, and limits how long the statement waits for rows that an open
 * transaction has locked. Not a setting of the connection, because a pooler may refuse it.
 */
function lockBound(sql: Sql): Fragment {
  return sql`(select set_config('lock_timeout', ${`${lockDeadlineMs}ms`}, true)) is not null`
}

function isActiveAt(sql: Sql, now: number): Fragment {
  return sql`status = 'active' and (expires_at is null or expires_at > ${new Date(now)})`
}

/** As `isActiveAt`, but a process whose clock is ahead must not leave a key unrevoked that others accept. */
function isActiveByBoth(sql: Sql, now: number): Fragment {
  return sql`status = 'active' and (expires_at is null or expires_at > ${earlierNow(sql, now)})`
}

/** The key with this id, if it is active at `now` and belongs to `owner`, if given. */
function isOwn(sql: Sql, id: string, owner: string | undefined, now: number): Fragment {
  return sql`id = ${id} and ${isActiveByBoth(sql, now)} and ${lockBound(sql)}
    ${owner === undefined ? sql`` : sql`and username = ${owner}`}`
}

function isActive(sql: Sql, { user, subscription }: KeyScope, now: number): Fragment {
  if (user === undefined && subscription === undefined)
    throw new Error('a scope names a user or a subscription')
  return sql`
    ${isActiveByBoth(sql, now)}
    ${user === undefined ? sql`` : sql`and username = ${user}`}
    ${subscription === undefined ? sql`` : sql`and subscription = ${subscription}`}`
}

/** One query for every search; status conditions apply to the effective status. */
export function searchQuery(sql: Sql, search: ApiKeySearch): Query<KeyRow[]> {
  const { owner, only, subscription, includeEphemeral, prefix, labels, limit, offset } = search
  const labelled = toStoredJson(labels)
  return sql<KeyRow[]>`
    select * from api_keys
    where true
      ${owner === undefined ? sql`` : sql`and username = ${owner}`}
      ${only === undefined ? sql`` : sql`and id = ${only}`}
      ${subscription === undefined ? sql`` : sql`and subscription = ${subscription}`}
      ${includeEphemeral ? sql`` : sql`and not ephemeral`}
      ${prefix === undefined ? sql`` : sql`and key_prefix = ${prefix}`}
      ${labelled === null ? sql`` : sql`and labels @> ${labelled}::text::jsonb`}
      ${statusCondition(sql, search)}
    order by ${orderOf(sql, search)}
    limit ${limit} offset ${offset}`
}

function statusCondition(sql: Sql, { statuses, now }: ApiKeySearch): Fragment {
  if (statuses.size === 0 || statuses.size === 3) return sql``
  const instant = new Date(now)
  const conditions = {
    active: sql`(${isActiveAt(sql, now)})`,
    revoked: sql`status = 'revoked'`,
    expired: sql`(status = 'expired' or (status = 'active' and expires_at <= ${instant}))`,
  }
  const [first, second] = [...statuses].map((status) => conditions[status])
  return second === undefined ? sql`and ${first!}` : sql`and (${first!} or ${second})`
}

/**
 * `nulls last` only where nulls are possible: with it Postgres would not use an index created
 * without. Names are ordered by bytes: the same in every database.
 */
function orderOf(sql: Sql, { sortBy, descending }: ApiKeySearch): Fragment {
  const direction = descending ? sql`desc` : sql`asc`
  switch (sortBy) {
    case 'created_at':
      return sql`created_at ${direction}, id ${direction}`
    case 'expires_at':
      return sql`expires_at ${direction} nulls last, id ${direction}`
    case 'last_used_at':
      return sql`last_used_at ${direction} nulls last, id ${direction}`
    case 'name':
      return sql`name collate "C" ${direction}, id ${direction}`
  }
}
