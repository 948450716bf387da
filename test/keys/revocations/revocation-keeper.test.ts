import {
  appendFileSync,
  existsSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { type Test, test } from 'tap'
import { createCachedApiKeys } from '../../../src/keys/cached-api-keys.ts'
import { createPostgresApiKeys } from '../../../src/keys/postgres-api-keys.ts'
import type { EndedKey } from '../../../src/keys/revocations/ended-keys.ts'
import { revocationFileOf } from '../../../src/keys/revocations/revocation-file.ts'
import {
  createRevocationKeeper,
  type RevocationKeeperOptions,
} from '../../../src/keys/revocations/revocation-keeper.ts'
import type { FoundKey } from '../../../src/keys/store.ts'
import { createKeyDatabase, fillKeys, startFollower } from '../../support/followers.ts'
import { now } from '../../support/key-store.ts'
import { alwaysFresh } from '../../support/key-table.ts'
import { poll } from '../../support/poll.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

const day = 86_400_000

/** Keepers with one database, each with a follower of its log, and one folder; `clock` may be moved. */
async function start(t: Test) {
  const { sql, url } = await createKeyDatabase(t)
  const folder = temporaryFolder(t)
  const time = { now: Date.now() }
  const open = async (name: string, options: Partial<RevocationKeeperOptions> = {}) => {
    const replayed: string[] = []
    const writing: unknown[] = []
    const broken: [string, number][] = []
    const faults: unknown[] = []
    const keeper = createRevocationKeeper({
      pool: sql,
      folder,
      name,
      clock: () => time.now,
      evict() {},
      onReplayed: (ids) => void replayed.push(...ids),
      onBroken: (...told) => void broken.push(told),
      onWriting: (error) => void writing.push(error),
      onFault: (error) => void faults.push(error),
      ...options,
    })
    t.teardown(() => keeper.stop())
    await startFollower(t, url, {
      name,
      evict: (_, rows) => keeper.note(rows),
      forgetAll: () => keeper.replay(),
    })
    await keeper.start()
    return Object.assign(keeper, {
      replayed,
      writing,
      broken,
      faults,
      file: revocationFileOf(folder, name),
    })
  }
  return { sql, folder, time, open }
}

function ended(hash: string, expiresAt: number | null = null): EndedKey {
  return { id: `id of ${hash}`, hash, at: now, expiresAt }
}

function textOf(file: string): string {
  return existsSync(file) ? readFileSync(file, 'utf8') : ''
}

function hashesIn(file: string): readonly string[] {
  const lines = textOf(file).split('\n')
  return lines.flatMap((line) => {
    try {
      return JSON.parse(line).hash ?? []
    } catch {
      return []
    }
  })
}

test('a stored revocation is on disk, and in force whatever the database says', async (t) => {
  const { sql, open } = await start(t)
  await fillKeys(sql, 3)
  const keeper = await open('one')
  t.equal(await keeper.keep([ended('alice-1')]), true)
  t.ok(hashesIn(keeper.file).includes('alice-1'))
  t.equal(statSync(keeper.file).mode & 0o777, 0o600)
  t.ok(keeper.endOf('alice-1') === 0)
  t.notOk(keeper.endOf('alice-2') === 0)
})

test('revocations by others are stored too, however they are made', async (t) => {
  const { sql, open } = await start(t)
  await fillKeys(sql, 12_000)
  const keeper = await open('one')
  await sql`update api_keys set status = 'revoked' where key_hash = 'alice-1'`
  await sql`delete from api_keys where key_hash = 'alice-2'`
  await sql`update api_keys set user_groups = array['b'] where key_hash = 'alice-3'`
  await poll(() => keeper.endOf('alice-1') === 0 && keeper.endOf('alice-2') === 0, 'both are known')
  t.notOk(keeper.endOf('alice-3') === 0, 'an update is not a revocation')
  await sql`update api_keys set status = 'revoked'`
  await poll(() => new Set(hashesIn(keeper.file)).size === 12_000, 'more than one page')
})

test('the first file begins with all revoked keys', async (t) => {
  const { sql, open } = await start(t)
  await fillKeys(sql, 5_000)
  await sql`update api_keys set status = 'revoked'`
  await sql`delete from tollgate_revocations`
  const keeper = await open('one')
  await poll(() => new Set(hashesIn(keeper.file)).size === 5_000, 'more than one page')
})

test('a restored table gets its revocations again, once', async (t) => {
  const { sql, open } = await start(t)
  await fillKeys(sql, 10)
  const [one, two] = [await open('one'), await open('two')]
  await one.keep([ended('alice-1'), ended('alice-2'), ended('made later')])
  // Revocations that nobody has logged are a sign of a restore.
  one.replay()
  two.replay()
  const revoked = () => sql`select id from api_keys where status = 'revoked'`
  await poll(async () => (await revoked()).count === 2, 'both are revoked')
  await poll(() => one.replayed.length + two.replayed.length === 2, 'each is counted once')
  t.ok(two.endOf('alice-1') === 0, "another process's file is read")
  t.ok(two.endOf('made later') === 0, 'also if its row comes back later')
  const three = await open('three')
  t.strictSame(three.replayed, [])
  t.ok(three.endOf('alice-1') === 0)
})

test('a replaced secret is kept with its end, and ends after a restore too', async (t) => {
  const { sql, open, time } = await start(t)
  await fillKeys(sql, 3)
  const store = createPostgresApiKeys(sql)
  const [one, two] = [await open('one'), await open('two')]
  const [key] = await store.findByHashes(['alice-1'])
  const { id } = key as FoundKey
  const overlapMs = 3_600_000
  const rotation = { hash: 'new', prefix: null, overlapMs, endAfterFirstUseMs: undefined }
  const endsAt = time.now + overlapMs
  t.match(await store.rotate(id, undefined, rotation, time.now), { replaced: { endsAt } })
  await poll(() => one.endOf('alice-1') === endsAt, 'it is known')
  await poll(() => textOf(one.file).includes('"ends"'), 'and on disk')

  // As after a restore: the old secret is the key's again.
  await sql.begin(async (restore) => {
    await restore`alter table api_keys disable trigger user`
    await restore`update api_keys set key_hash = 'alice-1', previous_hash = null where id = ${id}`
    await restore`truncate tollgate_revocations`
    await restore`alter table api_keys enable always trigger tollgate_key_changed`
    await restore`alter table api_keys enable always trigger tollgate_key_deleted`
    await restore`alter table api_keys enable always trigger tollgate_keys_truncated`
  })
  await poll(() => two.endOf('alice-1') === endsAt, "the other one's file is read")
  const cache = createCachedApiKeys(store, {
    entries: 10,
    freshness: alwaysFresh,
    endOf: two.endOf,
  })
  t.match(await cache.findByHash('alice-1'), { status: 'active', expiresAt: endsAt })
  time.now = endsAt
  const three = await open('three')
  t.equal((await store.findById(id))?.status, 'revoked', 'after its end the key is revoked')
  t.ok(
    [one, two, three].some(({ replayed }) => replayed.includes(id)),
    'by the one that saw it first',
  )
})

test('a replaced secret that ends earlier than it should have does so everywhere', async (t) => {
  const { sql, open, time } = await start(t)
  await fillKeys(sql, 1)
  const keeper = await open('one')
  const at = time.now
  const late = { ...ended('old'), endsAt: at + 5_000 }
  t.ok(await keeper.keep([late, { ...late, hash: 'other' }]))
  t.ok(await keeper.keep([{ ...late, endsAt: at + 3_000 }]))
  t.ok(await keeper.keep([{ ...late, endsAt: at + 4_000 }]))
  t.equal(keeper.endOf('old'), at + 3_000)
  t.equal(keeper.endOf('other'), at + 5_000)
  t.ok(await keeper.keep([ended('other')]))
  t.equal(keeper.endOf('other'), 0)
  const again = await open('two')
  t.equal(again.endOf('old'), at + 3_000, 'whatever the order of the lines')
  t.equal(again.endOf('other'), 0)
})

test('the first file has the replaced secrets of the table', async (t) => {
  const { sql, open, time } = await start(t)
  await fillKeys(sql, 3)
  const ends = new Date(time.now + 60_000)
  await sql`update api_keys set previous_hash = 'p1', previous_ends_at = ${ends} where key_hash = 'alice-1'`
  await sql`
    update api_keys set previous_hash = 'p2', previous_ends_at = ${ends}, status = 'revoked'
    where key_hash = 'alice-2'`
  await sql`truncate tollgate_revocations`
  const keeper = await open('one')
  await poll(() => hashesIn(keeper.file).length === 3, 'the file has them')
  t.equal(keeper.endOf('p1'), ends.getTime())
  t.equal(keeper.endOf('p2'), 0)
  t.equal(keeper.endOf('alice-1'), undefined)
  t.equal(keeper.endOf('alice-2'), 0)
})

test('a locked row does not delay the others', async (t) => {
  const { sql, open } = await start(t)
  await fillKeys(sql, 3)
  const keeper = await open('one')
  await sql.begin(async (transaction) => {
    await transaction`update api_keys set name = 'held' where key_hash = 'alice-2'`
    await keeper.keep([ended('alice-1'), ended('alice-2'), ended('alice-3')])
    keeper.replay()
    await poll(() => keeper.replayed.length === 2, 'the others are revoked')
  })
  await poll(() => keeper.replayed.length === 3, 'the locked row follows')
  t.match(keeper.faults, [{ message: /locked/ }])
})

test('transaction numbers of another server do no harm', async (t) => {
  const { sql, open } = await start(t)
  await sql`insert into tollgate_revocations (key_hash, transaction) values ('x', '9000000000'::xid8)`
  await sql`
    insert into tollgate_replicas (id, name, place, seen_at, serves_until, acknowledged, snapshot)
    values (gen_random_uuid(), 'r', 'r', now(), now() + interval '1 hour', 0, '9:9000000000:')`
  await open('one')
  const [log] =
    await sql`select count(*)::int as n from tollgate_revocations where transaction > '1000000000'::xid8`
  const [replica] = await sql`select snapshot from tollgate_replicas where name = 'r'`
  t.match([log, replica], [{ n: 0 }, { snapshot: null }])
})

test('a process has its file before anything is revoked', async (t) => {
  const { folder, open } = await start(t)
  const keeper = await open('one')
  await poll(() => existsSync(keeper.file), 'it is there')
  const missing = await open('two', { folder: join(folder, 'missing') }).catch(() => undefined)
  t.equal(missing, undefined, 'a folder that is not there is an error')
})

test('a torn line affects no other', async (t) => {
  const { folder, open } = await start(t)
  const file = revocationFileOf(folder, 'one')
  const whole = JSON.stringify({ id: 'a', at: '2026-01-01T00:00:00Z', hash: 'h1', expires: null })
  const forged = whole.replace('h1', String.raw`\u0000`)
  writeFileSync(file, `${whole}\n${forged}\nnull\n{"id":"b","at":"2026-01-01T00:0`)
  const keeper = await open('one')
  t.strictSame(keeper.broken, [[file, 3]])
  t.strictSame(keeper.faults, [])
  t.ok(keeper.endOf('h1') === 0)
  t.ok(await keeper.keep([ended('h2')]))
  t.ok(hashesIn(file).includes('h2'), 'on a line of its own')
})

test('revocations succeed even if the file cannot be written', async (t) => {
  const { open } = await start(t)
  const keeper = await open('one')
  mkdirSync(keeper.file)
  t.equal(await keeper.keep([ended('h1')]), false)
  t.equal(await keeper.keep([]), false, 'a repetition is not confirmed either')
  t.ok(keeper.endOf('h1') === 0)
  t.match(keeper.stats(), { failing: true })
  rmSync(keeper.file, { recursive: true })
  await poll(() => !keeper.stats().failing, 'the file is written again')
  await poll(() => hashesIn(keeper.file).includes('h1'), 'it has what was waiting')
  t.match(keeper.writing, [{ code: 'EISDIR' }, undefined])
})

test('revocations by others are written as soon as the file can be', async (t) => {
  const { open, sql } = await start(t)
  const keeper = await open('one')
  await fillKeys(sql, 1)
  mkdirSync(keeper.file)
  await sql`update api_keys set status = 'revoked'`
  await poll(() => keeper.stats().failing, 'the file cannot be written')
  rmSync(keeper.file, { recursive: true })
  await poll(() => hashesIn(keeper.file).includes('alice-1'), 'it has the revocation')
  await poll(() => !keeper.stats().failing, 'the file is written again')
})

test('a full disk tears one line only', async (t) => {
  const { open } = await start(t)
  const keeper = await open('one')
  await keeper.keep([ended('h1')])
  appendFileSync(keeper.file, '{"id":"h2')
  t.equal(await keeper.keep([ended('h3')]), true)
  t.ok(hashesIn(keeper.file).includes('h3'))
})

test('a disk that hangs is not waited for', async (t) => {
  const { open } = await start(t)
  const keeper = await open('one', { deadlineMs: 0 })
  const many = Array.from({ length: 200_000 }, (_, i) => ended(`h-${i}`))
  t.equal(await keeper.keep(many), false)
  await keeper.stop()
  t.equal(new Set(hashesIn(keeper.file)).size, 200_000, 'they are written nevertheless')
})

test('a removed file is written again', async (t) => {
  const { sql, folder, open } = await start(t)
  await fillKeys(sql, 50)
  const keeper = await open('one')
  await sql`update api_keys set status = 'revoked'`
  await poll(() => new Set(hashesIn(keeper.file)).size === 50, 'they are in the file')
  renameSync(keeper.file, join(folder, 'elsewhere'))
  t.ok(await keeper.keep([ended('h1')]))
  await poll(() => new Set(hashesIn(keeper.file)).size === 51, 'all are in the file again')
})

test('expired keys are removed from every file', async (t) => {
  const { folder, time, open } = await start(t)
  const gone = revocationFileOf(folder, 'gone')
  const keeper = await open('one')
  const many = Array.from({ length: 1_500 }, (_, i) => ended(`h-${i}`, time.now + day))
  await keeper.keep([...many, ended('for good')])
  renameSync(keeper.file, gone)
  await keeper.keep([ended('h-new', time.now + 9 * day)])
  const again = await open('one')
  t.equal(again.stats().entries, 1_502)
  await again.keep(many.map((key, i) => ({ ...key, hash: `g-${i}` })))
  time.now += 3 * day
  await again.clean()
  t.strictSame(again.stats().entries, 2)
  t.strictSame(hashesIn(again.file), ['for good', 'h-new'])
  await delay(0)
  t.ok(await again.keep([ended('h-later')]))
  t.strictSame(hashesIn(again.file), ['for good', 'h-new', 'h-later'])
})

test('twenty concurrent revocations share a write', async (t) => {
  const { open } = await start(t)
  const keeper = await open('one', { deadlineMs: 20_000 })
  const kept = await Promise.all(
    Array.from({ length: 20 }, (_, i) => keeper.keep([ended(`h-${i}`)])),
  )
  t.ok(kept.every(Boolean))
  t.equal(new Set(hashesIn(keeper.file)).size, 20)
})
