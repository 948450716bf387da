import { execFileSync } from 'node:child_process'
import {
  appendFileSync,
  copyFileSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import { gunzipSync, gzipSync } from 'node:zlib'
import { type Test, test } from 'tap'
import { openJournalFolder } from '../../../src/journal/journal-folder.ts'
import { migrate } from '../../../src/store/postgres/migrate.ts'
import { createLedgerFeed } from '../../../src/usage/ledger/feed.ts'
import { createJournalArchiver } from '../../../src/usage/ledger/journal-archiver.ts'
import { sourceNames } from '../../../src/usage/ledger/journal-files.ts'
import { ensureJournalName } from '../../../src/usage/ledger/journal-name.ts'
import { createArchiveHeads, createUsageLedger } from '../../../src/usage/ledger/postgres/ledger.ts'
import type { ArchiveHeads } from '../../../src/usage/store.ts'
import { runAt } from '../../support/command.ts'
import { createDatabase } from '../../support/database.ts'
import { createPool } from '../../support/key-store.ts'
import { earlierLine, envoyLine, scriptLine } from '../../support/line-of.ts'
import { mountSmallDisk, skipSmallDisk } from '../../support/small-disk.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

const start = Date.UTC(2026, 2, 1)
const day = 86_400_000

async function createWorld(t: Test, archives = temporaryFolder(t)) {
  const url = await createDatabase(t)
  const sql = await createPool(t, url)
  await migrate(sql)
  const path = join(temporaryFolder(t), 'usage.jsonl')
  const journal = ensureJournalName(path)
  const heads = createArchiveHeads(sql)
  const files = { folder: openJournalFolder(dirname(path)), names: sourceNames(path) }
  const feed = createLedgerFeed({
    ...{ ...files, journal, ledger: createUsageLedger(sql), unusableUsage: 'allow' },
    clock: () => start + 100 * day,
    monotonic: () => 0,
    onGap() {},
  })
  t.teardown(() => feed.reset())
  let days = 0
  const own = join(archives, journal)
  const names = () => readdirSync(own).sort()
  const create = (changed: Partial<ArchiveHeads> = {}) =>
    createJournalArchiver({
      ...{ ...files, journal, archives, heads: { ...heads, ...changed } },
      isDone: feed.isDone,
    })
  /** A file of the journal for the next day, complete and in the ledger. */
  async function rotate(lines = 3, write = scriptLine, to = path): Promise<void> {
    const at = start + day * days
    writeFileSync(to, Array.from({ length: lines }, (_, i) => write({ start: at + i })).join(''))
    renameSync(to, `${to}.${at}`)
    days += 1
    await feed.step()
  }
  const env = { DATABASE_URL: url, USAGE_JOURNAL: path, USAGE_ARCHIVE_DIR: archives }
  const verify = (...args: string[]) => runAt({ env }, 'usage', 'verify', ...args)
  /** Removes the journal's own files: only archives are left. */
  const forget = () => {
    for (let i = 0; i < days; i += 1) rmSync(`${path}.${start + day * i}`, { force: true })
  }
  return { sql, path, own, feed, heads, journal, names, create, rotate, verify, forget }
}

test('complete files are archived, and verified without the journal', async (t) => {
  const { path, own, feed, create, rotate, names, verify, forget } = await createWorld(t)
  const archive = create()
  for (let i = 0; i < 3; i += 1) await rotate()
  writeFileSync(path, scriptLine({ start: start + 3 * day }))
  await archive.step()
  const three = ['2026-03-01.000001', '2026-03-02.000002', '2026-03-03.000003']
  t.strictSame(
    names(),
    three.map((name) => `${name}.jsonl.gz`),
  )
  const [, second = ''] = names()
  t.match(
    gunzipSync(readFileSync(join(own, second))).toString(),
    /^\{"archive":1,.*\n(\n\{.*\n){3}$/,
  )
  await feed.step()
  await archive.step(true)
  t.match(names()[3], /^2026-03-04\.000004/, 'the file that is written too, at the end')
  appendFileSync(path, scriptLine({ start: start + 3 * day + 5 }))
  await feed.step()
  await create().step(true)
  t.match(names()[4], /^2026-03-04\.000005/, 'and then the rest of it')
  t.match(await verify(), { status: 0, out: '4 sums agree.' }, 'what is there twice counts once')
  forget()
  rmSync(path)
  t.match(await verify('--from', '2026-03-01'), { status: 0, out: '4 sums agree.' })
  t.match(await verify('--from', '2026-03-02', '--to', '2026-03-03'), { out: '1 sums agree.' })
})

test('names what was changed, taken away or put in another order', async (t) => {
  const { own, create, rotate, names, verify, forget, sql } = await createWorld(t)
  for (let i = 0; i < 5; i += 1) await rotate()
  await create().step()
  forget()
  const [one = '', two = '', three = '', , five = ''] = names()
  const at = (name: string): string => join(own, name)
  const kept = temporaryFolder(t)
  for (const name of names()) copyFileSync(at(name), join(kept, name))
  let span: readonly string[] = []
  async function expect(what: string, change: () => void, ...messages: RegExp[]): Promise<void> {
    change()
    const { status, out } = await verify(...span)
    t.equal(status, messages.length === 0 ? 0 : 1, `${what}: ${out}`)
    for (const message of messages) t.match(out, message, what)
    for (const name of readdirSync(own)) rmSync(at(name), { recursive: true })
    for (const name of readdirSync(kept)) copyFileSync(join(kept, name), at(name))
  }
  const swap = (a: string, b: string): void => {
    copyFileSync(join(kept, a), at(b))
    copyFileSync(join(kept, b), at(a))
  }
  const rewrite = (name: string, change: (text: string) => string): void => {
    const text = gunzipSync(readFileSync(join(kept, name))).toString()
    writeFileSync(at(name), gzipSync(change(text)))
  }
  const less = (text: string): string => text.replace('"total_tokens":1', '"total_tokens":0')
  await expect('nothing', () => {})
  await expect('the oldest is gone', () => rmSync(at(one)))
  await expect('one is gone', () => rmSync(at(three)), /^Before .*000004.*, piece 3, is missing/m)
  await expect('the last is gone', () => rmSync(at(five)), /^The last of \w+, piece 5, is missing/m)
  await expect('a line', () => rewrite(two, less), /^2026-03-02\S+ was changed/m, /LEDGER/)
  await expect('a line of the last', () => rewrite(five, less), /^2026-03-05\S+ was changed/m)
  const renamed = /^2026-03-02\S+ is piece 3 of \w+: it was renamed/m
  await expect('the order', () => swap(two, three), renamed)
  const bytes = (): void => {
    const content = readFileSync(join(kept, two))
    content[30] = (content[30] ?? 0) ^ 1
    writeFileSync(at(two), content)
  }
  await expect('a byte', bytes, /^2026-03-02\S+ was changed/m)
  const cut = (): void => writeFileSync(at(two), readFileSync(join(kept, two)).subarray(0, 60))
  await expect('its end', cut, /^2026-03-02\S+ was changed: it cannot be read/m)
  const pipe = (): void => {
    rmSync(at(two))
    execFileSync('mkfifo', [at(two)])
  }
  await expect('a pipe', pipe, /^Before .*000003.*, piece 2, is missing/m)
  // No sum has it, so that only the archive after it tells.
  const payer = (text: string): string =>
    text.replaceAll('"by":"check"', '"by":"check","payer":"rate=1"')
  span = ['--to', '2026-03-02T23:00:00Z']
  await expect('what is outside', () => rewrite(three, less))
  await expect('a payer', () => rewrite(two, payer), /^2026-03-02\S+ was changed: 2026-03-03/m)
  await expect(
    'the next is gone',
    () => rmSync(at(three)),
    /^Before .*000004.*, piece 3, is missing/m,
  )
  await expect(
    'the next is none',
    () => writeFileSync(at(three), 'x'),
    /^2026-03-03\S+ was changed/m,
  )
  span = []
  await sql`update tollgate_usage_hours set total_tokens = 2 where hour >= '2026-03-02'`
  t.match(await verify(), { status: 1, out: /LEDGER/ }, 'and a changed ledger')
})

test('a process that was killed midway is continued, and two do no harm', async (t) => {
  const { own, create, rotate, names, verify, forget, heads, sql, journal } = await createWorld(t)
  await rotate()
  const killed = create({ move: () => Promise.reject(new Error('killed')) })
  await t.rejects(killed.step(), { message: 'killed' })
  writeFileSync(join(own, '2026-03-01.000002.jsonl.gz.draft.tmp'), 'half')
  await rotate()
  const both = [create(), create()]
  await Promise.all(both.map((archive) => archive.step()))
  for (let i = 0; i < 3; i += 1) {
    await rotate()
    await Promise.all(both.map((archive) => archive.step()))
  }
  t.equal(names().filter((name) => name.endsWith('.gz')).length, 5)
  t.equal((await heads.open(journal)).piece, 5)
  // As a backup of the database has it.
  await sql`update tollgate_usage_archives set piece = 0, hash = '', places = '[]'`
  await rotate()
  await create().step()
  t.equal((await heads.open(journal)).piece, 6)
  forget()
  t.match(await verify(), { status: 0 })
  await sql`update tollgate_usage_archives set hash = 'x'`
  await rotate()
  await create().step()
  t.match((await verify()).out, /000006\S+ was changed: 2026-03-07\S+ follows another/)
  await sql`update tollgate_usage_archives set piece = 6`
  await rotate()
  await t.rejects(create().step(), { message: /000007\S+ does not follow the archive before it/ })
})

test('a full disk is waited for', { skip: skipSmallDisk }, async (t) => {
  const disk = mountSmallDisk(t)
  const { create, rotate, names, verify, forget } = await createWorld(t, join(disk.path, 'archive'))
  const archive = create()
  await rotate()
  await archive.step()
  await rotate(2_000)
  disk.fill()
  await t.rejects(archive.step(), { code: 'ENOSPC' })
  t.equal(names().length, 1, 'no draft is left')
  disk.free()
  await archive.step()
  t.equal(names().length, 2)
  forget()
  t.match(await verify(), { status: 0 })
})

test('lines of both files are archived in one order, and those of the form before', async (t) => {
  const { path, own, create, rotate, names, verify, forget } = await createWorld(t)
  const envoy = sourceNames(path).envoy
  const at = join(dirname(path), envoy)
  const archive = create()
  await rotate(3, earlierLine)
  await rotate(2, envoyLine, at)
  await rotate(1)
  await rotate(4, envoyLine, at)
  await archive.step()
  t.strictSame(names(), [
    '2026-03-01.000001.jsonl.gz',
    '2026-03-02.000003.envoy.jsonl.gz',
    '2026-03-03.000002.jsonl.gz',
    '2026-03-04.000004.envoy.jsonl.gz',
  ])
  forget()
  for (const name of readdirSync(dirname(path))) {
    if (name.startsWith(envoy)) rmSync(join(dirname(path), name))
  }
  t.match(await verify(), { status: 0, out: '4 sums agree.' })
  t.match(await verify('--from', '2026-03-03', '--to', '2026-03-04'), {
    status: 0,
    out: '1 sums agree.',
  })
  rmSync(join(own, '2026-03-02.000003.envoy.jsonl.gz'))
  t.match(await verify(), { status: 1, out: /^Before \S+000004\S+, piece 3, is missing/m })
})
