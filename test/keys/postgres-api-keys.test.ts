import { test } from 'tap'
import { createPostgresApiKeys, searchQuery } from '../../src/keys/postgres-api-keys.ts'
import { readEndedKeys } from '../../src/keys/revocations/ended-keys.ts'
import type { ApiKeyRecord } from '../../src/keys/rules/api-key.ts'
import type { ApiKeySort, FoundKey } from '../../src/keys/store.ts'
import { advisoryLocks } from '../../src/store/postgres/advisory-locks.ts'
import { expiringKeys } from '../../src/usage/notices/postgres-notices.ts'
import { countReads, createMigratedDatabase } from '../support/database.ts'
import {
  createMigrated,
  createPool,
  createRecord,
  createSearch,
  knownOf,
  now,
} from '../support/key-store.ts'

const foundOf = (record: ApiKeyRecord) => ({ ...knownOf(record), hash: record.hash })

const sorts: readonly ApiKeySort[] = ['created_at', 'expires_at', 'last_used_at', 'name']

test('a record is read as it was written', async (t) => {
  const keys = createPostgresApiKeys(await createMigrated(t))
  const records = [
    createRecord(),
    createRecord({ description: 'ü "\\ {a,b}', groups: ['a "b"', 'c,d', '{}', '\\', 'ü', 'NULL'] }),
    createRecord({ groups: [], ephemeral: true, expiresAt: null, name: 'n'.repeat(100_000) }),
    createRecord({ createdAt: now + 1, expiresAt: now + 7 }),
  ]
  for (const record of records) {
    await keys.insert(record)
    t.strictSame(await keys.findById(record.id), record)
    t.strictSame(await keys.findByHashes([record.hash]), [foundOf(record)])
  }
  t.equal(await keys.findById('nowhere'), undefined)
  t.strictSame(await keys.findByHashes(['nothing']), [])
  t.strictSame(await keys.findByHashes([]), [])
})

test('no default of the database lets a user have more keys than the maximum', async (t) => {
  const url = await createMigratedDatabase(t)
  const owner = await createPool(t, url)
  const name = new URL(url).pathname.slice(1)
  await owner.unsafe(
    `alter database "${name}" set default_transaction_isolation = 'repeatable read'`,
  )
  const keys = createPostgresApiKeys(await createPool(t, url, 10))
  const adding = Array.from({ length: 10 }, () => keys.insert(createRecord(), undefined, 3))
  const refused = (await Promise.allSettled(adding)).filter(({ status }) => status === 'rejected')
  t.match(refused, Array(7).fill({ reason: { code: 'too_many_keys' } }))
})

test('many hashes are found with one query', async (t) => {
  const keys = createPostgresApiKeys(await createMigrated(t))
  const records = Array.from({ length: 20 }, () => createRecord())
  for (const record of records) await keys.insert(record)
  const hashes = records.map(({ hash }) => hash)
  const odd = ['a "b"', 'c,d', '{}', '\\', '', 'NULL']
  const found = await keys.findByHashes([...odd, ...hashes.slice(5)])
  t.strictSame(new Set(found.map(({ hash }) => hash)), new Set(hashes.slice(5)))
})

test('active keys that end soon are counted', async (t) => {
  const sql = await createMigrated(t)
  const keys = createPostgresApiKeys(sql)
  const day = 86_400_000
  const lives = [
    [1, 9],
    [9, 1],
    [8, 2],
    [358, 7],
    [357, 8],
    [10, 0],
  ] as const
  for (const [before, left] of lives) {
    const life = { createdAt: now - before * day, expiresAt: now + left * day }
    await keys.insert(createRecord(life))
    await keys.insert(createRecord({ ...life, ephemeral: true }))
    await keys.insert(createRecord({ ...life, status: 'revoked' }))
  }
  await keys.insert(createRecord({ expiresAt: null }))
  t.equal(await keys.countEndingSoon(now), 2)
})

test('a key of any time can be read, revoked and kept as revoked', async (t) => {
  const sql = await createMigrated(t)
  const keys = createPostgresApiKeys(sql)
  const { id } = createRecord()
  await keys.insert(createRecord({ id }))
  const [first, last] = ['0100-01-01T00:00:00Z', '9999-12-31T23:59:59Z'].map(Date.parse)
  for (const [createdAt, expiresAt] of [
    ['-infinity', 'infinity'],
    ['0044-03-15 BC', '290000-01-01'],
    ['0001-01-01', '10000-01-01'],
  ] as const) {
    await sql`
      update api_keys set status = 'active', revoked_at = null,
        created_at = ${createdAt}::timestamptz, expires_at = ${expiresAt}::timestamptz`
    const times = { createdAt: first, expiresAt: last }
    t.match(await keys.findById(id), times, expiresAt)
    t.equal(await keys.countEndingSoon(now), 0)
    t.strictSame(await expiringKeys(sql, 1).run(1_000), [])
    t.match(await keys.revoke(id, undefined, now), times)
    t.match(await readEndedKeys(sql, ''), [{ expiresAt: last }])
  }
  await sql`update api_keys set status = 'active', revoked_at = null, expires_at = now() + interval '1 day'`
  t.match(await expiringKeys(sql, 1).run(1_000), [{ id }])
  t.equal(await keys.countEndingSoon(Date.now()), 1)
})

test('the most recently used active keys are found in order', async (t) => {
  const sql = await createMigrated(t)
  const keys = createPostgresApiKeys(sql)
  const insert = async (usedAt: number | null, fields: Partial<ApiKeyRecord> = {}) => {
    const record = createRecord(fields)
    await keys.insert(record)
    if (usedAt !== null) {
      await sql`update api_keys set last_used_at = ${new Date(usedAt)} where id = ${record.id}`
    }
    return record
  }
  const old = await insert(now - 5_000)
  const recent = await insert(now, { expiresAt: null })
  await insert(null)
  await insert(now, { status: 'revoked' })
  await insert(now, { expiresAt: now })
  t.strictSame(await keys.findLastUsed(10, now), [foundOf(recent), foundOf(old)])
  t.strictSame(await keys.findLastUsed(1, now), [foundOf(recent)])
})

test('of concurrent revocations one gets the record', async (t) => {
  const keys = createPostgresApiKeys(await createMigrated(t))
  const record = createRecord()
  await keys.insert(record)
  t.equal(await keys.revoke(record.id, 'bob', now), undefined)
  const results = await Promise.all(
    Array.from({ length: 30 }, (_, i) => keys.revoke(record.id, i % 2 ? 'alice' : undefined, now)),
  )
  const revoked = results.filter((result) => result !== undefined)
  const { transaction, revokedAt } = revoked[0] ?? {}
  t.strictSame(revoked, [{ ...record, status: 'revoked', transaction, revokedAt }])
})

test('a revocation sets its instant, whoever makes it', async (t) => {
  const sql = await createMigrated(t)
  const keys = createPostgresApiKeys(sql)
  const [single, bulk, byHand, kept] = [{}, { user: 'bob' }, {}, {}].map(createRecord)
  for (const record of [single, bulk, byHand, kept]) await keys.insert(record!)
  const [{ before } = {}] = await sql<{ before: Date }[]>`select now() as before`
  await keys.revoke(single!.id, undefined, now)
  await keys.revokeAll({ user: 'bob' }, now)
  await sql`update api_keys set status = 'revoked' where id = ${byHand!.id}`
  await sql`update api_keys set name = 'other', last_used_at = now()`
  const found = await keys.findByHashes([single, bulk, byHand, kept].map((each) => each!.hash))
  for (const { id, revokedAt } of found as readonly FoundKey[]) {
    if (id === kept!.id) t.equal(revokedAt, undefined)
    else t.ok(revokedAt! >= before!.getTime() && revokedAt! <= before!.getTime() + 60_000)
  }
  await sql`update api_keys set status = 'active'`
  t.equal((await keys.findById(single!.id))?.revokedAt, undefined)
})

test('expired keys are not revoked', async (t) => {
  const keys = createPostgresApiKeys(await createMigrated(t))
  const past = createRecord({ expiresAt: now })
  const stored = createRecord({ status: 'expired' })
  const alive = createRecord({ expiresAt: now + 1 })
  for (const record of [past, stored, alive]) await keys.insert(record)
  t.equal(await keys.revoke(past.id, undefined, now), undefined)
  t.equal(await keys.revoke(stored.id, undefined, now), undefined)
  t.match(await keys.revokeAll({ user: 'alice' }, now), [{ hash: alive.hash }])
  t.equal((await keys.findById(past.id))?.status, 'active')
  t.equal((await keys.findById(stored.id))?.status, 'expired')
})

test('a process whose clock is ahead revokes keys that are valid', async (t) => {
  const keys = createPostgresApiKeys(await createMigrated(t))
  const ahead = Date.now() + 86_400_000
  const valid = { createdAt: Date.now(), expiresAt: Date.now() + 3_600_000 }
  const [one, two, replaced] = [0, 1, 2].map(() => createRecord(valid)) as [
    ApiKeyRecord,
    ApiKeyRecord,
    ApiKeyRecord,
  ]
  for (const record of [one, two, replaced]) await keys.insert(record)
  const rotation = { hash: 'new', prefix: null, overlapMs: 60_000, endAfterFirstUseMs: undefined }
  await keys.rotate(replaced.id, undefined, rotation, Date.now())
  t.match(await keys.endPrevious(replaced.hash, ahead), { hash: replaced.hash })
  t.match(await keys.revoke(one.id, undefined, ahead), { hash: one.hash, status: 'revoked' })
  t.equal(await keys.countActive({ user: 'alice' }, ahead), 2)
  const revoked = await keys.revokeAll({ user: 'alice' }, ahead)
  t.strictSame(new Set(revoked.map(({ hash }) => hash)), new Set([two.hash, 'new']))
})

test('concurrent bulk revocations share the keys', async (t) => {
  const sql = await createMigrated(t)
  const keys = createPostgresApiKeys(sql)
  const total = 5_000
  await sql`
    insert into api_keys (id, username, name, key_hash, user_groups, subscription)
    select gen_random_uuid()::text, 'alice', 'k', i::text, array['a'], 'premium'
    from generate_series(1, ${total}::int) i`
  const ids = await sql<{ id: string }[]>`select id from api_keys order by random() limit 50`
  const [one, two, ...single] = await Promise.all([
    keys.revokeAll({ user: 'alice' }, now),
    keys.revokeAll({ user: 'alice' }, now),
    ...ids.map(({ id }) => keys.revoke(id, undefined, now).then((record) => record?.hash)),
  ])
  const bulk = [...one, ...two].map(({ hash }) => hash)
  const hashes = [...bulk, ...single.filter((hash) => hash !== undefined)]
  t.equal(hashes.length, total)
  t.equal(new Set(hashes).size, total)
})

test('a bulk revocation reads no key once per batch', async (t) => {
  const sql = await createPool(t, await createMigratedDatabase(t), 1)
  const total = 16_000
  await sql`
    insert into api_keys (id, username, name, key_hash, user_groups, subscription, created_at)
    select gen_random_uuid()::text, 'alice', 'k', i::text, array['a'], 'premium',
      now() - i * interval '1 second'
    from generate_series(1, ${total}::int) i`
  await sql`analyze api_keys`
  const before = await countReads(sql, 'api_keys')
  const revoked = await createPostgresApiKeys(sql).revokeAll({ user: 'alice' }, now)
  t.equal(new Set(revoked.map(({ hash }) => hash)).size, total)
  t.ok(
    (await countReads(sql, 'api_keys')) - before < 5 * total,
    'three times: found, revoked, none left',
  )
})

test('a process whose clock is ahead deletes no key that is valid', async (t) => {
  const keys = createPostgresApiKeys(await createMigrated(t))
  const record = createRecord({ ephemeral: true, expiresAt: Date.now() + 1_000 })
  await keys.insert(record)
  t.equal(await keys.deleteExpiredEphemeral(Date.now() + 86_400_000), 0)
  t.ok(await keys.findById(record.id))
})

test('concurrent cleanups share the keys', async (t) => {
  const sql = await createMigrated(t)
  const keys = createPostgresApiKeys(sql)
  const halfHour = 1_800_000
  const kept = [
    createRecord({ ephemeral: true, expiresAt: now - halfHour }),
    createRecord({ ephemeral: true, expiresAt: null }),
    createRecord({ expiresAt: now - 90 * 86_400_000 }),
  ]
  for (const record of kept) await keys.insert(record)
  for (const status of ['active', 'revoked', 'expired'] as const) {
    await keys.insert(createRecord({ status, ephemeral: true, expiresAt: now - halfHour - 1 }))
  }
  await sql`
    insert into api_keys (id, username, name, key_hash, user_groups, subscription, ephemeral,
      expires_at)
    select gen_random_uuid()::text, 'u' || i % 9, 'k', i::text, array['a'], 'premium', true,
      '2026-01-01' from generate_series(1, 5000) i`
  const counts = await Promise.all(
    Array.from({ length: 4 }, () => keys.deleteExpiredEphemeral(now)),
  )
  t.equal(
    counts.reduce((sum, count) => sum + count),
    5_003,
    `${counts}`,
  )
  const rest = await sql<{ id: string }[]>`select id from api_keys`
  t.same(new Set(rest.map(({ id }) => id)), new Set(kept.map(({ id }) => id)))
})

/** 40 keys with few different dates and names, most of which only the id tells apart. */
function similarRecords(): readonly ApiKeyRecord[] {
  return Array.from({ length: 40 }, (_, i) =>
    createRecord({
      name: ['B', 'a', 'ä', 'b'][i % 4] as string,
      createdAt: now - (i % 3),
      expiresAt: i % 5 === 0 ? null : now + 1_000 * (i % 3),
    }),
  )
}

test('pages never overlap, in any order', async (t) => {
  const sql = await createMigrated(t)
  const keys = createPostgresApiKeys(sql)
  const records = similarRecords()
  for (const record of records) await keys.insert(record)
  await sql`update api_keys set last_used_at = created_at where id > '8'`
  for (const sortBy of sorts) {
    for (const descending of [true, false]) {
      const pages: string[] = []
      for (let offset = 0; offset < 45; offset += 7) {
        const search = createSearch({ sortBy, descending, limit: 7, offset })
        for (const { id } of await keys.search(search)) pages.push(id)
      }
      const whole = await keys.search(createSearch({ sortBy, descending }))
      t.strictSame(
        pages,
        whole.map(({ id }) => id),
      )
      t.equal(new Set(pages).size, 40)
    }
  }
})

test('the order is that of the field, nulls last', async (t) => {
  const sql = await createMigrated(t)
  const keys = createPostgresApiKeys(sql)
  for (const record of similarRecords()) await keys.insert(record)
  await sql`update api_keys set last_used_at = created_at where id > '8'`
  const bytes = (text: string) => Buffer.from(text).toString('hex')
  const fieldOf: Record<ApiKeySort, (record: ApiKeyRecord) => string | number | null> = {
    created_at: ({ createdAt }) => createdAt,
    expires_at: ({ expiresAt }) => expiresAt,
    last_used_at: ({ lastUsedAt }) => lastUsedAt,
    name: ({ name }) => bytes(name),
  }
  for (const sortBy of sorts) {
    for (const descending of [true, false]) {
      const found = await keys.search(createSearch({ sortBy, descending }))
      const order = descending ? -1 : 1
      const compare = (a: ApiKeyRecord, b: ApiKeyRecord): number => {
        const [x, y] = [fieldOf[sortBy](a), fieldOf[sortBy](b)]
        if (x === y) return a.id < b.id ? -order : order
        if (x === null || y === null) return x === null ? 1 : -1
        return x < y ? -order : order
      }
      t.strictSame(found, [...found].sort(compare), `${sortBy} ${descending}`)
    }
  }
})

test('a user’s page is found by an index', async (t) => {
  const sql = await createMigrated(t)
  await sql`
    insert into api_keys (id, username, name, key_hash, status, user_groups, subscription,
      ephemeral, created_at, expires_at, last_used_at)
    select gen_random_uuid()::text, 'user-' || i % 200, 'k' || i, i::text,
      case when i % 7 = 0 then 'revoked' else 'active' end, array['a'], 'premium', i % 11 = 0,
      now() - i * interval '1 minute', now() + (i % 900) * interval '1 hour',
      case when i % 2 = 0 then now() - i * interval '1 second' end
    from generate_series(1, 20000) i`
  await sql`analyze api_keys`
  const statuses = [new Set<never>(), new Set(['active'] as const), new Set(['expired'] as const)]
  for (const sortBy of sorts) {
    for (const descending of [true, false]) {
      for (const status of statuses) {
        const search = createSearch({ owner: 'user-7', sortBy, descending, statuses: status })
        const plan = await explain(searchQuery(sql, search))
        const about = `${sortBy} ${descending} ${[...status]}\n${plan}`
        t.match(
          plan,
          /(Index Scan|Bitmap Index Scan).* on api_keys_username_created_at|Index Scan( Backward)? using api_keys_username_created_at/,
          about,
        )
        t.notMatch(plan, /Seq Scan/, about)
        t.ok(rowsRead(plan) <= 100, about)
      }
    }
  }
  const everybody = await explain(searchQuery(sql, createSearch({ owner: undefined })))
  t.match(everybody, /Index Scan Backward using api_keys_created_at_id/, everybody)
  t.notMatch(everybody, /Sort/, everybody)

  async function explain(query: ReturnType<typeof searchQuery>): Promise<string> {
    const rows = await sql<{ 'QUERY PLAN': string }[]>`explain (analyze, timing off) ${query}`
    return rows.map((row) => row['QUERY PLAN']).join('\n')
  }
})

/** The largest number of rows that a step of an analyzed plan has read, including filtered ones. */
function rowsRead(plan: string): number {
  const counts = [...plan.matchAll(/actual rows=(\d+)|Removed by Filter: (\d+)/g)]
  return Math.max(...counts.map(([, rows, removed]) => Number(rows ?? removed)))
}

test('of two processes one cleans up', async (t) => {
  const sql = await createMigrated(t)
  const keys = createPostgresApiKeys(sql)
  await keys.insert(createRecord({ ephemeral: true, expiresAt: 0 }))
  await sql.begin(async (other) => {
    await other`select pg_advisory_xact_lock(${advisoryLocks.keyCleanup})`
    t.equal(await keys.deleteExpiredEphemeral(now), 0, 'the other one is cleaning up')
  })
  await sql.begin(async (other) => {
    await other`select pg_advisory_xact_lock(${advisoryLocks.partitions})`
    t.equal(await keys.deleteExpiredEphemeral(now), 1, 'the other one does something else')
  })
})
