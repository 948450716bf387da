/**
 * Takes over the `api_keys` table of the original service, v3.4 or later (contract, 4): copies it
 * from another database, or uses it in place. Both store keys in the same form, so keys keep
 * working. Of the columns of later versions only labels are read, and of a table of ours also caps.
 */

import type { Pool } from '../store/postgres/postgres.ts'
import type { Sql } from '../store/postgres/sql.ts'

export type KeyTable = Awaited<ReturnType<typeof inspectKeyTable>>

export type CopyCounts = Awaited<ReturnType<typeof copyKeys>>

interface CopyOptions {
  readonly source: Pool
  readonly target: Sql
  /** Only this tenant's keys. */
  readonly tenant: { readonly column: string; readonly name: string } | undefined
  /** As in the table of the source. */
  readonly later: readonly string[]
  /** Only counts what would be copied. */
  readonly dryRun: boolean
  readonly onProgress: (read: number) => void
}

const columns = [
  ...['id', 'username', 'name', 'description', 'key_hash', 'status', 'user_groups'],
  ...['subscription', 'ephemeral', 'created_at', 'expires_at', 'last_used_at'],
] as const
/** Columns of later versions and of ours; null in a table without them. */
const laterColumns = ['labels', 'caps']
const columnList = [...columns, ...laterColumns].join(', ')
const batchRows = 1_000

/**
 * Reads what the table contains, and whether we can use it; throws an Error with a readable message if it is not the
 * original's.
 */
export async function inspectKeyTable(sql: Sql) {
  const found = await sql<{ name: string; demanding: boolean }[]>`
    select attname as name, attnotnull and not atthasdef and attidentity = '' as demanding
    from pg_attribute
    where attrelid = to_regclass('api_keys') and attnum > 0 and not attisdropped`
  if (found.length === 0) throw new Error('There is no table api_keys in this database.')
  const names = new Set(found.map(({ name }) => name))
  const missing = columns.filter((name) => !names.has(name))
  if (missing.length > 0) {
    throw new Error(
      `The table api_keys is not one of v3.4 or later: it has no column ${missing.join(', ')}.`,
    )
  }
  const known: ReadonlySet<string> = new Set(columns)
  const tenantColumn = ['tenant', 'tenant_name', 'tenant_id'].find((name) => names.has(name))
  const tenants =
    tenantColumn === undefined
      ? []
      : await sql<{ name: string }[]>`
          select distinct coalesce(${sql.identifier(tenantColumn)}::text, '') as name from api_keys order by 1`
  const statuses = await sql<{ status: string; keys: number }[]>`
    select case when status = 'active' and expires_at <= now() then 'expired' else status end as status,
      count(*)::int as keys
    from api_keys group by 1 order by 1`
  return {
    /** Keys by effective status. */
    statuses: Object.fromEntries(statuses.map(({ status, keys }) => [status, keys])),
    /** The `laterColumns` that it has. */
    later: laterColumns.filter((name) => names.has(name)),
    /** The column for tenants, which later versions have, and their names. */
    tenantColumn,
    tenants: tenants.map(({ name }) => name),
    /** Unknown columns that are not null and have no default: we could not add rows. */
    demanding: found
      .filter(({ name, demanding }) => demanding && !known.has(name))
      .map(({ name }) => name),
  }
}

/**
 * Copies keys in batches, reading the source in one read-only transaction. It can be repeated:
 * existing keys stay, except that keys revoked or expired at the source since become so here. No
 * key that was revoked here becomes active again.
 */
export async function copyKeys(options: CopyOptions) {
  const { source, target, tenant, dryRun, onProgress } = options
  /** Every key read is in exactly one of the other counts. */
  const counts = {
    read: 0,
    copied: 0,
    /** Already present, and revoked or expired at the source since. */
    updated: 0,
    present: 0,
    /** Skipped: the id is present with another hash, or the hash under another id. */
    conflicting: 0,
  }
  const only = tenant
    ? source`where coalesce(${source.identifier(tenant.column)}::text, '') = ${tenant.name}`
    : source``
  const read = async (reading: Sql): Promise<void> => {
    await reading`set local statement_timeout = 0`
    await reading`
      declare batches no scroll cursor for
      select row_to_json(one)::text as row
      from (select ${reading.unsafe([...columns, ...options.later].join(', '))} from api_keys ${only} order by id) one`
    for (;;) {
      const batch = await reading<
        { row: string }[]
      >`fetch ${reading.unsafe(`${batchRows}`)} batches`
      if (batch.length === 0) return
      const incoming = `[${batch.map(({ row }) => row).join(',')}]`
      const { copied, updated, conflicting } = await addBatch(target, incoming, dryRun)
      counts.read += batch.length
      counts.copied += copied
      counts.updated += updated
      counts.conflicting += conflicting
      counts.present += batch.length - copied - updated - conflicting
      onProgress(counts.read)
    }
  }
  await source.begin(read, 'isolation level repeatable read read only')
  return counts
}

type BatchCounts = Pick<CopyCounts, 'copied' | 'updated' | 'conflicting'>

/** One atomic statement per batch; a dry run uses the same one without its writes. */
async function addBatch(target: Sql, incoming: string, dryRun: boolean): Promise<BatchCounts> {
  const writes = dryRun
    ? target`
        copied as (select id from fresh),
        updated as (select id from ended)`
    : target`
        copied as (
          insert into api_keys (${target.unsafe(columnList)}) select ${target.unsafe(columnList)} from fresh
          returning id
        ),
        updated as (
          update api_keys set status = ended.status from ended
          where api_keys.id = ended.id and api_keys.status = 'active'
          returning api_keys.id
        )`
  const [counts] = await target<BatchCounts[]>`
    with incoming as (
      select * from json_to_recordset(${incoming}::text::json) as one (
        id text, username text, name text, description text, key_hash text, status text,
        user_groups text[], subscription text, ephemeral boolean, created_at timestamptz,
        expires_at timestamptz, last_used_at timestamptz, labels jsonb, caps jsonb)
    ),
    conflicting as (
      select incoming.id from incoming
      where exists (
        select from api_keys here
        where (here.id = incoming.id) <> (here.key_hash = incoming.key_hash)
          and (here.id = incoming.id or here.key_hash = incoming.key_hash)
      )
    ),
    fresh as (
      select * from incoming
      where id not in (select id from conflicting)
        and not exists (select from api_keys here where here.id = incoming.id)
    ),
    ended as (
      select incoming.id, incoming.status from incoming
      join api_keys here on here.id = incoming.id and here.key_hash = incoming.key_hash
      where here.status = 'active' and incoming.status <> 'active'
    ),
    ${writes}
    select (select count(*)::int from copied) as copied,
      (select count(*)::int from updated) as updated,
      (select count(*)::int from conflicting) as conflicting`
  if (counts === undefined) throw new Error('expected exactly one row from the count')
  return counts
}

/** Changes the original's table so that we can add keys; the migrations do the rest. */
export async function alterKeyTable(sql: Sql, { demanding }: KeyTable): Promise<void> {
  for (const name of demanding) {
    await sql`alter table api_keys alter column ${sql.identifier(name)} drop not null`
  }
}
