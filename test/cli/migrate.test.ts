import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Test, test } from 'tap'
import { startEmbeddedPostgres } from '../../dev/postgres/embedded-postgres.ts'
import { hashOfKey } from '../../src/keys/rules/api-key.ts'
import { packageRoot } from '../../src/runtime/package-root.ts'
import type { Pool } from '../../src/store/postgres/postgres.ts'
import { runAt } from '../support/command.ts'
import { createDatabase } from '../support/database.ts'
import { createKeyApi } from '../support/key-api.ts'
import { createPool } from '../support/key-store.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { skipUnnamedUser, tollgateUnnamed } from '../support/unnamed-user.ts'

const main = join(packageRoot, 'src', 'cli', 'main.js')
const markers = { own: 'tg', accepted: new Set(['oai']) }
const total = 2_500
const columns =
  'id, username, name, description, key_hash, user_groups, status, created_at, expires_at, ephemeral, subscription'

/** The `i`th key of the original. */
function originalKey(i: number): string {
  return `sk-oai-abcdefghijkl${i}_secretsecretsecret${i}`
}

/** A database of the original with keys; `more` are the columns of a later version. */
async function createOriginal(t: Test, more: readonly string[] = []) {
  const url = await createDatabase(t)
  const sql = await createPool(t, url)
  await sql.unsafe(`
    create table api_keys (
      id text primary key, username text not null, name text not null, description text,
      key_hash text not null, user_groups text[] not null,
      status text not null default 'active' check (status in ('active', 'revoked', 'expired')),
      created_at timestamptz not null default now(), expires_at timestamptz,
      last_used_at timestamptz, ephemeral boolean not null default false,
      subscription text not null ${more.map((column) => `, ${column}`).join('')});
    create index idx_username_created on api_keys (username, created_at desc);
    create unique index idx_hash on api_keys (key_hash);
    create index idx_last_used on api_keys (last_used_at) where last_used_at is not null;
    create index idx_groups on api_keys using gin (user_groups);
    create index idx_ephemeral on api_keys (status, expires_at) where ephemeral;`)
  const rows = Array.from({ length: total }, (_, i) => ({
    id: `00000000-0000-4000-8000-${String(i).padStart(12, '0')}`,
    username: i % 2 === 0 ? 'alice' : 'bob',
    name: `key "${i}" \\ ü {a,b}`,
    description: i % 3 === 0 ? null : "it's",
    key_hash: hashOfKey(originalKey(i), markers) ?? '',
    user_groups: ['team-a', 'with "quote", comma'],
    status: ['active', 'active', 'revoked', 'expired'][i % 4] as string,
    created_at: '2025-12-31T23:59:59.123456Z',
    expires_at: i % 5 === 0 ? null : '2027-01-01T00:00:00+05:00',
    ephemeral: i % 10 === 0,
    subscription: 'premium',
  }))
  await sql`
    insert into api_keys (${sql.unsafe(columns)})
    select ${sql.unsafe(columns)} from json_populate_recordset(null::api_keys, ${JSON.stringify(rows)})`
  return { url, sql }
}

/** Runs the command; returns its exit status and its output. */
async function run(args: readonly string[], env: NodeJS.ProcessEnv) {
  const { status, out, err } = await runAt(
    { env: { AUDIT_LOG: 'off', ...env } },
    'migrate',
    ...args,
  )
  return { status, text: [out, err].filter(Boolean).join('\n') }
}

async function fingerprint(sql: Pool): Promise<string> {
  const [row] = await sql<{ digest: string }[]>`
    select md5(string_agg(concat_ws('|', id, username, name, description, key_hash, status,
      user_groups::text, subscription, ephemeral, created_at, expires_at, last_used_at), ''
      order by id)) as digest from api_keys`
  return row?.digest ?? ''
}

const migrations = readdirSync(
  new URL('../../src/store/postgres/migrations', import.meta.url),
).sort()

test('without arguments it migrates the schema', async (t) => {
  const url = await createDatabase(t)
  const env = { DATABASE_URL: url }
  t.strictSame(await run([], env), {
    status: 0,
    text: `Applied ${migrations.join(', ')}.`,
  })
  t.strictSame(await run([], env), { status: 0, text: 'The schema is up to date.' })
  t.notMatch(await run(['--dry-run'], env), { text: /Applied/ })
})

test('without DATABASE_URL it uses the database of tollgate up, also while that runs', async (t) => {
  const DATA_DIR = join(temporaryFolder(t), 'data')
  const { url: from } = await createOriginal(t)
  for (const [args, said] of [
    [['--plan'], /^The database is empty\.[\s\S]*Nothing was written\.$/],
    [['--dry-run'], /^The database is empty\.[\s\S]*Nothing was written\.$/],
    [['--dry-run', '--from', from], /Nothing was written: the target is empty/],
  ] as const) {
    t.match(await run(args, { DATA_DIR }), { status: 0, text: said })
    t.notOk(existsSync(DATA_DIR), `${args[0]} creates nothing`)
  }

  const directory = join(DATA_DIR, 'postgres')
  mkdirSync(DATA_DIR)
  const server = await startEmbeddedPostgres({ directory, log() {} })
  t.teardown(() => server.stop())
  t.match(await run([], { DATA_DIR }), { status: 0, text: /^Applied 0001/ })
  for (const args of [['--plan'], ['--dry-run']]) {
    t.match(await run(args, { DATA_DIR }), { status: 0, text: /The schema is up to date/ })
  }
  t.match(await run(['--from', from], { DATA_DIR }), { status: 0, text: / 2500 copied/ })
  await server.stop()
  t.match(await run(['--plan'], { DATA_DIR }), { status: 0, text: /The schema is up to date/ })
})

test('copies keys, which still work', async (t) => {
  const original = await createOriginal(t)
  const before = await fingerprint(original.sql)
  const url = await createDatabase(t)
  const args = ['--from', original.url]

  const dry = await run([...args, '--dry-run'], { DATABASE_URL: url })
  t.match(dry, { status: 0, text: /Nothing was written: the target is empty/ })

  const { status, text } = await run(args, { DATABASE_URL: url })
  t.equal(status, 0)
  t.match(text, 'The source has keys: 1250 active, 625 expired, 625 revoked.')
  t.match(text, /Of 2500 keys: 2500 copied, 0 revoked or expired since, 0 here already, 0 in conf/)
  t.notMatch(text, /postgres:\/\//)
  const target = await createPool(t, url)
  t.equal(await fingerprint(target), before)
  t.equal(await fingerprint(original.sql), before)

  const api = await createKeyApi(t, { url })
  const validate = async (i: number) =>
    (await api.ask('POST /internal/v1/api-keys/validate', { body: { key: originalKey(i) } })).json()
  t.match(await validate(0), { valid: true, username: 'alice', subscription: 'premium' })
  t.match(await validate(2), { valid: false, reason: 'key revoked or expired' })
  t.match(await validate(3), { valid: false })
  const list = await api.ask('POST /v1/api-keys/search', { as: originalKey(0) })
  t.equal(list.json().data.length, 50)
})

test('a second run continues where the first ended', async (t) => {
  const original = await createOriginal(t)
  const url = await createDatabase(t)
  const args = ['--from', original.url]
  await run(args, { DATABASE_URL: url })
  const target = await createPool(t, url)
  const half = `00000000-0000-4000-8000-${String(total / 2).padStart(12, '0')}`
  await target`delete from api_keys where id >= ${half}`
  // One key was revoked in the source since, another in the target.
  const [there, here] = [0, 4].map((i) => `00000000-0000-4000-8000-${String(i).padStart(12, '0')}`)
  await original.sql`update api_keys set status = 'revoked' where id = ${there!}`
  await target`update api_keys set status = 'revoked' where id = ${here!}`

  const dry = await run([...args, '--dry-run'], { DATABASE_URL: url })
  t.match(dry.text, /Of 2500 keys: 1250 would be copied, 1 revoked or expired since, 1249 here al/)
  const [{ count } = { count: 0 }] = await target<{ count: number }[]>`
    select count(*)::int as count from api_keys`
  t.equal(count, 1_250)

  const again = await run(args, { DATABASE_URL: url })
  t.equal(again.status, 0)
  t.match(again.text, /Of 2500 keys: 1250 copied, 1 revoked or expired since, 1249 here already, 0/)
  const statuses = await target<{ status: string }[]>`
    select status from api_keys where id = any(${[there!, here!]})`
  t.strictSame(
    statuses.map(({ status }) => status),
    ['revoked', 'revoked'],
  )
  const third = await run(args, { DATABASE_URL: url })
  t.match(third.text, /0 copied, 0 revoked or expired since, 2500 here already/)
})

test('leaves out conflicting keys (exit 1)', async (t) => {
  const original = await createOriginal(t)
  const url = await createDatabase(t)
  await run([], { DATABASE_URL: url })
  const target = await createPool(t, url)
  await target`
    insert into api_keys (id, username, name, key_hash, user_groups, subscription) values
      ('00000000-0000-4000-8000-000000000001', 'x', 'x', 'another hash', '{}', 'x'),
      ('another id', 'x', 'x', ${hashOfKey(originalKey(2), markers) ?? ''}, '{}', 'x')`
  const { status, text } = await run(['--from', original.url], { DATABASE_URL: url })
  t.equal(status, 1)
  t.match(text, /2498 copied, 0 revoked or expired since, 0 here already, 2 in conflict/)
  t.match(text, /Left out/)
  const [row] = await target`select count(*)::int as x from api_keys where username = 'x'`
  t.equal(row?.x, 2)
})

test('a tenant must be chosen if there are several', async (t) => {
  const columns = [
    ...["tenant text not null default 'one'", "labels jsonb not null default '{}'", 'caps jsonb'],
  ]
  const original = await createOriginal(t, columns)
  const url = await createDatabase(t)
  const env = { DATABASE_URL: url }
  await original.sql`update api_keys set tenant = 'two' where username = 'bob'`
  t.match(await run(['--from', original.url], env), {
    status: 1,
    text: /choose by --tenant: one, two/,
  })
  t.match(await run(['--from', original.url, '--tenant', 'three'], env), {
    status: 1,
    text: /no keys of a tenant "three"/,
  })
  await original.sql`update api_keys set labels = '{"team":"a"}' where id like '%1'`
  await original.sql`update api_keys set caps = '{"allowedAddresses":["::1"]}' where id like '%1'`
  const { text } = await run(['--from', original.url, '--tenant', 'two'], env)
  t.match(text, /Of 1250 keys: 1250 copied/)
  const target = await createPool(t, url)
  const [labelled] =
    await target`select count(*)::int as n from api_keys where labels ->> 'team' = 'a'`
  t.equal(labelled?.n, 250)
  const capped = await target`select from api_keys where caps ->> 'allowedAddresses' = '["::1"]'`
  t.equal(capped.length, 250, 'caps of a table of ours')
  const inPlace = await run(['--from', original.url, '--in-place'], env)
  t.match(inPlace, { status: 1, text: /several tenants/ })
})

test('the empty name is a tenant, too', async (t) => {
  const original = await createOriginal(t, ['tenant text'])
  const env = { DATABASE_URL: await createDatabase(t) }
  await original.sql`update api_keys set tenant = 'two' where username = 'bob'`
  t.match((await run(['--from', original.url], env)).text, /choose by --tenant: '', two$/)
  const { status, text } = await run(['--from', original.url, '--tenant', ''], env)
  t.match({ status, text }, { status: 0, text: /Of 1250 keys: 1250 copied/ })
})

test('takes over a table in place', async (t) => {
  const original = await createOriginal(t, ["tenant text not null default 'one'", 'labels jsonb'])
  await original.sql`update api_keys set labels = '{}'`
  await original.sql`alter table api_keys alter column labels set not null`
  const before = await fingerprint(original.sql)

  const counted = () => run(['--in-place', '--dry-run'], { DATABASE_URL: original.url })
  const dry = await counted()
  t.match(dry, { status: 0, text: /Nothing was written/ })
  const [, active, expired] = /(\d+) active, (\d+) expired/.exec(dry.text) ?? []
  // Its row stays active.
  await original.sql`update api_keys set expires_at = now() where status = 'active' and id like '%0'`
  const later = /(\d+) active, (\d+) expired/.exec((await counted()).text) ?? []
  const more = Number(later[2]) - Number(expired)
  t.ok(more > 0)
  t.equal(Number(later[1]), Number(active) - more, 'a key past its expiry counts as expired')
  await original.sql`update api_keys set expires_at = null where expires_at <= now()`
  t.match((await original.sql`select to_regclass('tollgate_migrations') as r`)[0], { r: null })

  const { status, text } = await run(['--in-place', '--from', original.url], {})
  t.equal(status, 0)
  t.match(text, /Applied 0001-api-keys.sql, 0002-search.sql/)
  t.equal(await fingerprint(original.sql), before)
  t.match(await run(['--in-place'], { DATABASE_URL: original.url }), { status: 0 })

  const api = await createKeyApi(t, { url: original.url })
  const { key } = await api.createKey('alice')
  for (const as of [key, originalKey(0)]) {
    t.equal((await api.ask('POST /v1/api-keys/search', { as })).statusCode, 200)
  }
})

test('rejects tables that are not the original’s', async (t) => {
  const url = await createDatabase(t)
  const sql = await createPool(t, url)
  const target = { DATABASE_URL: await createDatabase(t) }
  t.match(await run(['--from', url], target), { status: 1, text: /There is no table api_keys/ })
  await sql`create table api_keys (id text, username text, name text, key_hash text)`
  t.match(await run(['--from', url], target), {
    status: 1,
    text: /not one of v3.4 or later: it has no column description, status,/,
  })
  t.match(await run(['--in-place'], { DATABASE_URL: url }), { status: 1, text: /no column/ })
})

test('invalid arguments say where help is (exit 2)', async (t) => {
  const wrong = [['--what'], ['x'], ['--from', 'mysql://x'], ['--tenant', 'a'], ['--from']]
  for (const args of wrong) {
    const { status, text } = await run(args, {})
    t.equal(status, 2, args.join(' '))
    t.match(text, / See tollgate migrate --help\.$/)
  }
  t.match(await run(['--in-place'], {}), { status: 1, text: /--from or DATABASE_URL/ })
})

test('never writes to the source', async (t) => {
  const original = await createOriginal(t)
  await original.sql`create sequence touched`
  // A view in place of the table, which would write when it is read.
  await original.sql`alter table api_keys rename to kept_keys`
  await original.sql`
    create view api_keys as select * from kept_keys where nextval('touched') > 0`
  const target = { DATABASE_URL: await createDatabase(t) }
  t.match(await run(['--from', original.url], target), { status: 1, text: /read-only transaction/ })
  const [row] = await original.sql`select is_called from touched`
  t.equal(row?.is_called, false)
})

test('a take-over is in the audit trail, except for a dry run', async (t) => {
  const original = await createOriginal(t)
  const target = await createDatabase(t)
  const path = join(temporaryFolder(t), 'audit.jsonl')
  const env = { DATABASE_URL: target, AUDIT_LOG: path }
  await run(['--from', original.url, '--dry-run'], env)
  t.equal(existsSync(path), false)
  await run(['--from', original.url], env)
  const lines = readFileSync(path, 'utf8').trimEnd().split('\n')
  const event = { kind: 'audit', action: 'key.take_over', actor: { source: 'cli' } }
  t.match(
    lines.map((line) => JSON.parse(line)),
    [
      { ...event, outcome: 'intent' },
      { ...event, outcome: 'success', count: total },
    ],
  )
})

test('--json prints nothing but its JSON, the audit trail to standard error', async (t) => {
  const { url } = await createOriginal(t)
  const DATABASE_URL = await createDatabase(t)
  const run = (args: readonly string[], env: NodeJS.ProcessEnv) =>
    spawnSync(process.execPath, [main, 'migrate', ...args, '--json'], { env, encoding: 'utf8' })
  for (const [args, target] of [
    [['--from', url], DATABASE_URL],
    [['--in-place'], url],
  ] as const) {
    const { stdout, stderr, status } = run(args, { PATH: process.env.PATH, DATABASE_URL: target })
    t.equal(status, 0)
    t.type(JSON.parse(stdout), 'object')
    t.equal(stderr.split('"action":"key.take_over"').length, 3)
  }
})

test('takes over for a user without a name', { skip: skipUnnamedUser }, async (t) => {
  const { url } = await createOriginal(t)
  const env = { DATABASE_URL: await createDatabase(t) }
  const { status, stdout, stderr } = tollgateUnnamed(['migrate', '--from', url], env)
  t.match({ status, stderr }, { status: 0, stderr: '' })
  t.match(stdout, /"actor":{"user":"54321","source":"cli"}/)
})

test('takes nothing over if a required audit line cannot be written', async (t) => {
  const original = await createOriginal(t)
  const target = await createDatabase(t)
  const env = { DATABASE_URL: target, AUDIT_LOG: '/dev/full', AUDIT_REQUIRED: 'true' }
  const refused = await run(['--from', original.url], env)
  t.match(refused, { status: 1, text: /The audit trail cannot be written, so nothing was done/ })
  const sql = await createPool(t, target)
  t.match(await sql`select count(*)::int as keys from api_keys`, [{ keys: 0 }])
})
