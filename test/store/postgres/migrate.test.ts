import { execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { copyFileSync, writeFileSync } from 'node:fs'
import { setTimeout as delay } from 'node:timers/promises'
import { pathToFileURL } from 'node:url'
import { promisify } from 'node:util'
import { type Test, test } from 'tap'
import { createPostgresApiKeys } from '../../../src/keys/postgres-api-keys.ts'
import { migrate, planMigrations } from '../../../src/store/postgres/migrate.ts'
import { withDeadline } from '../../../src/store/postgres/postgres.ts'
import { createDatabase } from '../../support/database.ts'
import { createPool } from '../../support/key-store.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

const migrations = new URL('../../../src/store/postgres/migrations/', import.meta.url)
const all = [
  '0001-api-keys.sql',
  '0002-search.sql',
  '0003-revocations.sql',
  '0004-revocation-snapshots.sql',
  '0005-served-names.sql',
  '0006-revocations-kept.sql',
  '0007-revoked-at.sql',
  '0008-key-prefixes.sql',
  '0009-replica-pods.sql',
  '0010-in-force.sql',
  '0011-name-owners.sql',
  '0012-keys-by-subscription.sql',
  '0013-labels.sql',
  '0014-rotation.sql',
  '0015-usage-ledger.sql',
  '0016-counter-resets.sql',
  '0017-usage-archives.sql',
  '0018-idempotency.sql',
  '0019-caps.sql',
  '0020-learned.sql',
  '0021-expiring-keys.sql',
  '0022-notices.sql',
  '0023-secrets.sql',
  '0024-first-uses.sql',
  '0025-demo-usage.sql',
  '0026-window-sums.sql',
  '0027-no-served-names.sql',
  '0028-priced-usage.sql',
  '0029-replica-zones.sql',
  '0030-usage-limits.sql',
  '0031-increases.sql',
  '0032-limit-requests.sql',
  '0033-increases-logged.sql',
]

test('each migration is applied once', async (t) => {
  const sql = await createPool(t)
  t.strictSame(await migrate(sql), all)
  t.strictSame(await migrate(sql), [])
  const indexes = await sql<{ name: string }[]>`
    select indexname as name from pg_indexes where tablename = 'api_keys' order by 1`
  t.strictSame(
    indexes.map(({ name }) => name),
    [
      'api_keys_active_by_subscription',
      'api_keys_active_expires_at',
      'api_keys_created_at_id',
      'api_keys_ephemeral_expires_at',
      'api_keys_key_hash',
      'api_keys_key_prefix',
      'api_keys_labels',
      'api_keys_pkey',
      'api_keys_previous_hash',
      'api_keys_username_created_at',
    ],
  )
})

test('pools that start together migrate once', async (t) => {
  const url = await createDatabase(t)
  const pools = await Promise.all(Array.from({ length: 4 }, () => createPool(t, url)))
  const applied = await Promise.all(pools.map((sql) => migrate(sql)))
  t.strictSame(applied.flat().sort(), all)
})

test('processes that start together migrate once', async (t) => {
  const url = await createDatabase(t)
  const program = `
    import { migrate } from './src/store/postgres/migrate.ts'
    import { openPool } from './src/store/postgres/postgres.ts'
    const sql = openPool({ url: process.env.DATABASE_URL, connections: 1 })
    console.log(JSON.stringify(await migrate(sql)))
    await sql.end()`
  const run = () =>
    promisify(execFile)(process.execPath, ['--input-type=module', '-e', program], {
      cwd: new URL('../../..', import.meta.url),
      env: { DATABASE_URL: url },
    })
  const outputs = await Promise.all([run(), run()])
  t.strictSame(outputs.flatMap(({ stdout }) => JSON.parse(stdout)).sort(), all)
})

test('keys of each earlier schema work after an upgrade', async (t) => {
  const sql = await createPool(t)
  const folder = pathToFileURL(`${temporaryFolder(t)}/`)
  const names: string[] = []
  for (const name of all) {
    copyFileSync(new URL(name, migrations), new URL(name, folder))
    t.strictSame(await migrate(sql, folder), [name])
    names.push(name)
    await sql`
      insert into api_keys (id, username, name, key_hash, user_groups, subscription)
      values (${name}, 'ada', 'a key', ${`hash of ${name}`}, array['team'], 'team')`
  }
  const keys = createPostgresApiKeys(sql)
  const found = await keys.findByHashes(names.map((name) => `hash of ${name}`))
  t.equal(found.length, all.length)
  await sql`update api_keys set status = 'revoked'`
  const logged = await sql`select key_hash from tollgate_revocations where ended`
  t.equal(logged.length, all.length, 'revocations of each are logged')
})

test('a start does not wait for a backup that reads the tables', async (t) => {
  const url = await createDatabase(t)
  const [sql, other] = [await createPool(t, url), await createPool(t, url)]
  await migrate(sql)
  const ended = Promise.withResolvers<void>()
  const begun = Promise.withResolvers<void>()
  const backup = other.begin(async (reading) => {
    await reading`select from tollgate_migrations, api_keys`
    begun.resolve()
    await ended.promise
  })
  await begun.promise
  const migrated = await Promise.race([migrate(sql), delay(5_000, 'waits', { ref: false })])
  ended.resolve()
  await backup
  t.strictSame(migrated, [])
})

test('a migration that waits for a lock does not keep others waiting', async (t) => {
  const url = await createDatabase(t)
  const [sql, other, third] = [
    await createPool(t, url),
    await createPool(t, url),
    await createPool(t, url),
  ]
  await migrate(sql)
  const folder = pathToFileURL(`${temporaryFolder(t)}/`)
  for (const name of all) copyFileSync(new URL(name, migrations), new URL(name, folder))
  const next = '0099-next.sql'
  writeFileSync(new URL(next, folder), 'alter table api_keys add column next text;')
  const ended = Promise.withResolvers<void>()
  const begun = Promise.withResolvers<void>()
  const backup = other.begin(async (reading) => {
    await reading`select from api_keys`
    begun.resolve()
    await ended.promise
  })
  await begun.promise
  await t.rejects(migrate(sql, folder, 0), {
    message: /lock timeout, so end the transactions that use its tables, such as a backup\.$/,
  })
  const migrating = migrate(sql, folder)
  let waits = 0
  for (let i = 0; i < 20; i += 1) {
    await withDeadline(third`select from api_keys`).catch(() => {
      waits += 1
    })
    await delay(100)
  }
  t.equal(waits, 0, 'requests are answered meanwhile')
  ended.resolve()
  await backup
  t.strictSame(await migrating, [next])
})

test('a failed migration leaves nothing behind', async (t) => {
  const sql = await createPool(t)
  // The second migration needs a column that this table lacks.
  await sql`create table api_keys (id text primary key, username text, key_hash text)`
  await t.rejects(migrate(sql))
  const tables = await sql`select 1 from pg_tables where tablename = 'tollgate_migrations'`
  t.equal(tables.length, 0)
})

test('a database that refuses says what it needs', async (t) => {
  const url = await createDatabase(t)
  const refused = async (options: string, message: RegExp) => {
    const sql = await createPool(t, `${url}?options=${encodeURIComponent(options)}`)
    await t.rejects(migrate(sql), { message })
  }
  await refused(
    '-c default_transaction_read_only=on',
    /^The schema .* read-only.*, so name the primary/,
  )
  await refused('-c search_path=missing', /^The schema .* no schema .*, so create the schema/)
  await refused(
    '-c role=pg_monitor',
    /^The schema .* permission denied .*, so use the role that owns/,
  )
})

test('an encoding that lacks characters is refused', async (t) => {
  const url = await createDatabase(t)
  const sql = await createPool(t, url)
  const latin = `latin_${randomBytes(6).toString('hex')}`
  await sql.unsafe(
    `create database ${latin} encoding 'LATIN1' template template0 lc_collate 'C' lc_ctype 'C'`,
  )
  const inside = await createPool(t, url.replace(/[^/]+$/, latin))
  const message = /^The database has the encoding LATIN1, .* UTF8/
  await t.rejects(planMigrations(inside), { message })
  await t.rejects(migrate(inside), { message })
  await inside.end()
  await sql.unsafe(`drop database ${latin}`)
})

test('an applied migration must not change', async (t) => {
  const sql = await createPool(t)
  const folder = pathToFileURL(`${temporaryFolder(t)}/`)
  const write = (text: string) => writeFileSync(new URL('0001-first.sql', folder), text)
  write('create table one (a int);\n')
  t.strictSame(await migrate(sql, folder), ['0001-first.sql'])
  write('-- What it is for.\ncreate table one\n  (a int); -- a number\n')
  t.strictSame(await migrate(sql, folder), [], 'its comments may change')
  write('create table one (a bigint);\n')
  await t.rejects(migrate(sql, folder), { message: /another form of 0001-first\.sql/ })
  // As applied by a version without checksums.
  await sql`alter table tollgate_migrations drop column checksum`
  t.strictSame(await migrate(sql, folder), [])
  write('create table one (a int);\n')
  await t.rejects(migrate(sql, folder), { message: /another form/ })
})

/** A folder of migrations: `{ '0001-a': 'create table a ()' }`. */
function folderOf(t: Test, files: Record<string, string>): URL {
  const folder = pathToFileURL(`${temporaryFolder(t)}/`)
  for (const [name, text] of Object.entries(files))
    writeFileSync(new URL(`${name}.sql`, folder), text)
  return folder
}

test('a schema of a newer version is refused unless it says that this version works with it', async (t) => {
  const sql = await createPool(t)
  const old = { '0001-a': 'create table a ()', '0002-b': 'create table b ()' }
  const older = folderOf(t, old)
  await migrate(sql, folderOf(t, { ...old, '0003-c': '-- works-with: 0002\ncreate table c ()' }))
  t.strictSame(await migrate(sql, older), [], 'the way back')
  t.match(await planMigrations(sql, older), { newer: ['0003-c.sql'], pending: [] })
  await t.rejects(migrate(sql, folderOf(t, { '0001-a': old['0001-a'] })), {
    message: /newer version \(0002-b\.sql\)/,
  })
  await sql`insert into tollgate_migrations (name) values ('0009-x.sql')`
  const message = /newer version \(0009-x\.sql\), on which this one cannot/
  await t.rejects(migrate(sql, older), { message })
  await t.rejects(planMigrations(sql, older), { message })
})

test('a plan writes nothing', async (t) => {
  const sql = await createPool(t)
  const folder = folderOf(t, {
    '0001-a': 'create table a ()',
    '0002-b': '-- works-with: 0001\nselect 1',
  })
  const pending = [
    { name: '0001-a.sql', worksWith: '0001' },
    { name: '0002-b.sql', worksWith: '0001' },
  ]
  t.match(await planMigrations(sql, folder), { applied: [], pending, newer: [] })
  const tables = await sql`select from pg_tables where schemaname = 'public'`
  t.equal(tables.length, 0)
  // As left by versions without checksums.
  await sql`create table tollgate_migrations (name text primary key, applied_at timestamptz)`
  await sql`insert into tollgate_migrations (name) values ('0001-a.sql')`
  t.match(await planMigrations(sql, folder), { applied: ['0001-a.sql'], pending: [pending[1]] })
})
