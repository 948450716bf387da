import { randomUUID } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { test } from 'tap'
import { ServiceError } from '../../../src/formats/errors.ts'
import { createPostgresApiKeys } from '../../../src/keys/postgres-api-keys.ts'
import {
  findUnlogged,
  followLog,
  logRevocations,
  purgeRevocations,
  type ReplicaReport,
  type RevokedKey,
  readAcknowledgements,
  revocationTriggers,
} from '../../../src/keys/revocations/revocation-log.ts'
import type { Pool } from '../../../src/store/postgres/postgres.ts'
import { countReads } from '../../support/database.ts'
import { createKeyDatabase, receiveNotifications } from '../../support/followers.ts'
import { createMigrated, createPool, createRecord, now } from '../../support/key-store.ts'
import { poll } from '../../support/poll.ts'

function createReplica(fields: Partial<ReplicaReport> = {}): ReplicaReport {
  return {
    id: randomUUID(),
    name: 'one',
    place: fields.name ?? 'one',
    servesMs: 60_000,
    unseenMs: 5_000,
    ...fields,
  }
}

/** All logged hashes, in order. */
async function logged(sql: Pool): Promise<readonly string[]> {
  const rows = await sql<{ hash: string }[]>`
    select key_hash as hash from tollgate_revocations where sequence > 1 order by sequence`
  return rows.map(({ hash }) => hash)
}

function fill(sql: Pool, count: number, user = 'alice', name = 'k') {
  return sql`
    insert into api_keys (id, username, name, key_hash, user_groups, subscription)
    select gen_random_uuid()::text, ${user}, ${name}, ${`${user}-`} || i, array['a'], 'premium'
    from generate_series(1, ${count}::int) i`
}

test('every change of a key logs its hash, whoever makes it', async (t) => {
  const sql = await createMigrated(t)
  const keys = createPostgresApiKeys(sql)
  const record = createRecord({ hash: 'h' })
  const change = async (name: string, query: PromiseLike<unknown>, expected: readonly string[]) => {
    await query
    t.strictSame(await logged(sql), expected, name)
    await sql`delete from tollgate_revocations where sequence > 1`
  }
  await change('created', keys.insert(record), [])
  await change('used', sql`update api_keys set last_used_at = now()`, [])
  await change(
    'written as it was',
    sql`update api_keys set status = 'active', username = 'alice'`,
    [],
  )
  await change('renamed', sql`update api_keys set name = 'other', description = 'd'`, [])
  await change('groups', sql`update api_keys set user_groups = '{}'`, ['h'])
  await change('owner', sql`update api_keys set username = 'bob'`, ['h'])
  await change('subscription', sql`update api_keys set subscription = 'basic'`, ['h'])
  await change('expiry', sql`update api_keys set expires_at = null`, ['h'])
  await change('revoked', keys.revoke(record.id, undefined, now), ['h'])
  await change('hash', sql`update api_keys set key_hash = 'new'`, ['h'])
  await change('deleted', sql`delete from api_keys`, ['new'])
  await change('emptied', sql`truncate api_keys`, ['*'])
})

test('bulk revocation and cleanup log every key', async (t) => {
  const sql = await createMigrated(t)
  const keys = createPostgresApiKeys(sql)
  await fill(sql, 5_000)
  const revoked = await keys.revokeAll({ user: 'alice' }, now)
  t.equal(revoked.length, 5_000)
  t.same(new Set(await logged(sql)), new Set(revoked.map(({ hash }) => hash)))
  const before = (await logged(sql)).length
  await sql`update api_keys set ephemeral = true, expires_at = '2026-01-01'`
  t.equal(await keys.deleteExpiredEphemeral(now), 5_000)
  t.equal((await logged(sql)).length, before + 10_000)
})

test('one statement notifies once', async (t) => {
  const { url, sql } = await createKeyDatabase(t)
  const received = await receiveNotifications(t, url, ['tollgate_revocations', 'done'])
  await fill(sql, 500)
  await createPostgresApiKeys(sql).revokeAll({ user: 'alice' }, now)
  // Notifications arrive in order: this one comes last.
  await sql`select pg_notify('done', '')`
  await poll(() => received.includes('done'), 'the later notification')
  t.strictSame(received, ['tollgate_revocations', 'done'])
})

test('a role without rights on the log writes to it nevertheless', async (t) => {
  const sql = await createMigrated(t)
  const role = `clerk_${randomUUID().slice(0, 8)}`
  await fill(sql, 1)
  await sql.unsafe(`
    create role ${role};
    grant select, update on api_keys to ${role};
    create schema elsewhere;
    grant usage on schema elsewhere, public to ${role}`)
  try {
    const [database] = await sql<{ name: string }[]>`select current_database() as name`
    await sql.unsafe(`
      set role ${role};
      set search_path to elsewhere;
      update public.api_keys set status = 'revoked';
      reset role;
      reset search_path`)
    t.ok(database)
    t.strictSame(await logged(sql), ['alice-1'])
  } finally {
    await sql.unsafe(`drop owned by ${role}; drop role ${role}`)
  }
})

/** Tries again while the key store is too busy, as its refusals advise: on a busy machine it may be for long. */
async function insist<T>(work: () => Promise<T>): Promise<T> {
  for (;;) {
    try {
      return await work()
    } catch (error) {
      const isBusy =
        error instanceof ServiceError && ['store_locked', 'store_slow'].includes(error.code)
      if (!isBusy) throw error
    }
  }
}

test('no concurrent revocation is missed', async (t) => {
  const { url, sql } = await createKeyDatabase(t)
  const keys = createPostgresApiKeys(await createPool(t, url))
  const users = ['a', 'b', 'c', 'd']
  for (const user of users) await fill(sql, 2_500, user)
  await fill(sql, 1, 'person')
  const ids = await sql<{ id: string }[]>`
    select id from api_keys where username <> 'person' order by random() limit 300`
  // More at a time would wait for each other, on a slow machine for too long.
  const lanes = 20
  const revokeEach = async (lane: number) => {
    const records: RevokedKey[] = []
    for (let at = lane; at < ids.length; at += lanes) {
      const record = await insist(() => keys.revoke(ids[at]?.id ?? '', undefined, now))
      if (record !== undefined) records.push(record)
    }
    return records
  }
  const replica = createReplica()
  let { position } = await followLog(sql, replica, undefined)
  const read: string[] = []
  let isOver = false
  const reading = (async () => {
    for (let last = false; ; last = isOver) {
      const from = position
      const answer = await insist(() => followLog(sql, replica, from))
      t.ok(answer.isSame)
      read.push(...answer.hashes)
      position = answer.position
      if (last && answer.hashes.length === 0) return
    }
  })()
  // A transaction that stays open delays nobody, and is read once it is committed.
  const found = await sql.begin(async (person) => {
    await person`update api_keys set status = 'revoked' where username = 'person'`
    const revoked = await Promise.all([
      ...users.map((user) => insist(() => keys.revokeAll({ user }, now))),
      ...users.map((user) => insist(() => keys.revokeAll({ user }, now))),
      ...Array.from({ length: lanes }, (_, lane) => revokeEach(lane)),
    ])
    await poll(() => read.length === 10_000, 'all are read', 60_000)
    return revoked.flat().map(({ hash }) => hash)
  })
  isOver = true
  await reading
  t.equal(found.length, 10_000)
  t.equal(read.length, 10_001, 'each once')
  t.same(new Set(read), new Set([...found, 'person-1']))
})

test('a poll reads nothing again, however long a transaction stays open', async (t) => {
  const { url, sql } = await createKeyDatabase(t)
  const own = await createPool(t, url, 1)
  const replica = createReplica()
  await sql.begin(async (person) => {
    await person`select pg_current_xact_id()`
    const first = await followLog(own, replica, undefined)
    const logged = Array.from({ length: 8_000 }, (_, i) => `k${i}`)
    await logRevocations(own, logged)
    await own`analyze tollgate_revocations`
    let { hashes, position } = await followLog(own, replica, first.position)
    t.equal(hashes.length, logged.length)
    const before = await countReads(own, 'tollgate_revocations')
    for (let i = 0; i < 3; i += 1) {
      ;({ hashes, position } = await followLog(own, replica, position))
      t.strictSame(hashes, [])
    }
    t.ok((await countReads(own, 'tollgate_revocations')) - before < 100)
  })
})

test('a deadlock with a transaction counts as an outage', async (t) => {
  const sql = await createMigrated(t)
  const keys = createPostgresApiKeys(sql)
  await fill(sql, 2)
  let revoking: Promise<unknown> | undefined
  const person = sql.begin(async (transaction) => {
    await transaction`update api_keys set status = 'revoked' where key_hash = 'alice-1'`
    revoking = keys.revokeAll({ user: 'alice' }, now).catch((error: unknown) => error)
    await poll(
      async () =>
        (await sql`select 1 from pg_locks where not granted and pid <> pg_backend_pid()`).length >
        0,
      'the revocation waits',
    )
    // Now both wait for each other, and the database ends one of them.
    await transaction`update api_keys set status = 'revoked' where key_hash = 'alice-2'`
    throw new Error('rolled back')
  })
  await person.catch(() => {})
  const result = await revoking
  if (result instanceof Error) t.match(result, { code: 'store_unavailable' })
  else t.equal((result as readonly string[]).length, 2)
})

test('a replica is recorded, waited for and removed', async (t) => {
  const sql = await createMigrated(t)
  const keys = createPostgresApiKeys(sql)
  const [one, two] = [createReplica(), createReplica({ name: 'two' })]
  const { position, others, hashes } = await followLog(sql, one, undefined)
  t.strictSame([others, hashes], [[], []])
  t.strictSame((await followLog(sql, two, undefined)).others, ['one'])
  await fill(sql, 3)
  const revoked = await keys.revokeAll({ user: 'alice' }, now)
  const transactions = [revoked[0]?.transaction ?? '']
  await followLog(sql, two, position)
  const read = await followLog(sql, one, position)
  t.strictSame(new Set(read.hashes), new Set(revoked.map(({ hash }) => hash)))
  await followLog(sql, one, read.position)
  t.strictSame(
    [...(await readAcknowledgements(sql, transactions))],
    [
      { id: one.id, name: 'one', missing: [], knows: 33 },
      { id: two.id, name: 'two', missing: transactions, knows: 33 },
    ],
  )
  await sql`update tollgate_replicas set serves_until = now() where id = ${two.id}`
  t.equal((await readAcknowledgements(sql, [])).length, 1, 'it has stopped serving')
})

test('revocations that the triggers did not log are found and can be logged', async (t) => {
  const sql = await createMigrated(t)
  const keys = createPostgresApiKeys(sql)
  const replica = createReplica()
  await fill(sql, 3)
  // A row of an earlier change of the same key is not that of its revocation.
  await sql`update api_keys set user_groups = '{}'`
  const { position, source } = await followLog(sql, replica, undefined)
  await sql`alter table api_keys disable trigger tollgate_key_changed`
  t.equal((await followLog(sql, replica, position)).source, null)
  const revoked = await keys.revokeAll({ user: 'alice' }, now)
  await sql`alter table api_keys enable always trigger tollgate_key_changed`
  const after = await followLog(sql, replica, position)
  t.strictSame(after.hashes, [])
  t.not(after.source, source, 'shows that the triggers were off')
  t.strictSame(await findUnlogged(sql, revoked), revoked)
  await logRevocations(
    sql,
    revoked.map(({ hash }) => hash),
  )
  const { hashes } = await followLog(sql, replica, after.position)
  t.strictSame(new Set(hashes), new Set(['alice-1', 'alice-2', 'alice-3']))
  t.strictSame(await findUnlogged(sql, revoked), revoked, 'as another transaction')
  await fill(sql, 1, 'bob')
  t.strictSame(await findUnlogged(sql, await keys.revokeAll({ user: 'bob' }, now)), [])
})

test('triggers that were dropped come back as the runbook says', async (t) => {
  const sql = await createMigrated(t)
  const root = new URL('../../../', import.meta.url)
  const runbook = readFileSync(new URL('docs/runbook.md', root), 'utf8')
  const files = [...runbook.matchAll(/\(\.\.\/(src\/store\/postgres\/migrations\/[^)]+)\)/g)]
  const text = files.map(([, path = '']) => readFileSync(new URL(path, root), 'utf8')).join('')
  const { position } = await followLog(sql, createReplica(), undefined)
  for (const name of revocationTriggers) {
    const [create] = new RegExp(`create trigger ${name}\\s[^;]+`).exec(text) ?? []
    const run = (statement: string) => sql.unsafe(statement)
    await run(`drop trigger ${name} on api_keys`)
    t.equal((await followLog(sql, createReplica(), position)).source, null)
    await run(create ?? '')
    await run(`alter table api_keys enable always trigger ${name}`)
  }
  t.ok((await followLog(sql, createReplica(), position)).source)
  const before = await logged(sql)
  await fill(sql, 1)
  await sql`update api_keys set caps = '{}'`
  t.equal((await logged(sql)).length, before.length + 1, 'a change of caps is logged')
})

test('a replica that was not seen for long is forgotten', async (t) => {
  const sql = await createMigrated(t)
  const [old, crashed, other, living] = [
    createReplica(),
    createReplica({ name: 'crashed' }),
    createReplica({ name: 'other' }),
    createReplica({ name: 'crashed' }),
  ]
  for (const replica of [old, crashed, other]) await followLog(sql, replica, undefined)
  await sql`
    update tollgate_replicas set serves_until = now() - interval '61 minutes' where id = ${old.id}`
  t.strictSame((await followLog(sql, living, undefined)).others, ['crashed', 'other'])
  await sql`
    update tollgate_replicas set seen_at = now() - interval '6 seconds'
    where id in (${crashed.id}, ${other.id})`
  t.strictSame((await followLog(sql, living, undefined)).others, ['other'], 'its name is taken')
  const rows = await sql<{ id: string }[]>`select id from tollgate_replicas`
  t.same(new Set(rows.map(({ id }) => id)), new Set([other.id, living.id]))
})

test('of the old log the newest row stays', async (t) => {
  const { url, sql } = await createKeyDatabase(t)
  t.equal(await purgeRevocations(sql), 0)
  await sql`insert into tollgate_revocations (key_hash) select i::text from generate_series(1, 50000) i`
  await sql`update tollgate_revocations set at = now() - interval '3 days' where sequence <= 45001`
  const pools = await Promise.all([sql, createPool(t, url)])
  const deleted = await Promise.all(pools.map((pool) => purgeRevocations(pool)))
  const rest = (await purgeRevocations(sql)) + (deleted[0] ?? 0) + (deleted[1] ?? 0)
  t.equal(rest, 45_000)
  const [first] = await sql`select min(sequence)::int as min from tollgate_revocations`
  t.equal(first?.min, 45_001)
})

test('rows of a server with higher transaction numbers do not stay new forever', async (t) => {
  const { sql } = await createKeyDatabase(t)
  const replica = { id: randomUUID(), name: 'one', place: 'one', servesMs: 60_000, unseenMs: 5_000 }
  const { position } = await followLog(sql, replica, undefined)
  await sql`insert into tollgate_revocations (key_hash, transaction) values ('x', '9000000000'::xid8)`
  t.strictSame((await followLog(sql, replica, position)).hashes, [])
})

test('nothing is acknowledged at a server that was read at another one', async (t) => {
  const { sql } = await createKeyDatabase(t)
  const [polls, isCutOff] = [createReplica({ name: 'polls' }), createReplica({ name: 'cut off' })]
  const { position } = await followLog(sql, polls, undefined)
  await followLog(sql, isCutOff, undefined)
  // As restored from a dump of a server with higher numbers.
  await sql`update tollgate_replicas set snapshot = '9000000000:9000000000:'`
  const transactions = [await logRevocations(sql, ['h'])]
  const missing = async () =>
    (await readAcknowledgements(sql, transactions)).map(({ name, missing }) => [name, ...missing])
  const neither = [
    ['cut off', ...transactions],
    ['polls', ...transactions],
  ]
  t.strictSame(await missing(), neither)
  // As read at a server that ran at another time.
  const elsewhere = { ...position, server: '978307200.000001 5' }
  const now = (await followLog(sql, polls, undefined)).position
  const here = await followLog(sql, polls, { ...elsewhere, snapshot: now.snapshot })
  t.strictSame(await missing(), neither)
  await followLog(sql, polls, here.position)
  t.strictSame(await missing(), [['cut off', ...transactions], ['polls']])
})

test('what a poll has read survives a crash, also without synchronous commits', async (t) => {
  const { url, sql } = await createKeyDatabase(t)
  const database = new URL(url).pathname.slice(1)
  await sql`alter database ${sql.identifier(database)} set synchronous_commit = off`
  const own = await createPool(t, url, 1)
  const replica = createReplica()
  let { position } = await followLog(own, replica, undefined)
  let unwritten = 0
  for (let i = 0; i < 20; i += 1) {
    await logRevocations(own, ['h'])
    const [before] = await own<{ lsn: string }[]>`select pg_current_wal_insert_lsn()::text as lsn`
    ;({ position } = await followLog(own, replica, position))
    const [after] = await own<{ isWritten: boolean }[]>`
      select pg_current_wal_flush_lsn() >= ${before?.lsn ?? ''}::pg_lsn as "isWritten"`
    if (after?.isWritten !== true) unwritten += 1
  }
  t.equal(unwritten, 0)
})
