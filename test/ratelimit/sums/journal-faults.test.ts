import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import {
  appendFileSync,
  chmodSync,
  closeSync,
  existsSync,
  mkdirSync,
  openSync,
  readdirSync,
  rmSync,
  statSync,
  writeFileSync,
  writeSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import root, { type Test } from 'tap'
import { journalFilesOf } from '../../../src/journal/journal-files.ts'
import { poll } from '../../support/poll.ts'
import { createRandom } from '../../support/random.ts'
import { mountSmallDisk, skipSmallDisk } from '../../support/small-disk.ts'
import '../../support/time-limit.ts'
import { hour, lineOf, makePlaces, openProcess, type Places } from './journal-sums-world.ts'

const skipUser = process.geteuid?.() === 0 ? false : 'only root can become another user'
const child = fileURLToPath(new URL('killed-process.ts', import.meta.url))
const denied = { code: 'counters_unavailable' }

/** A process of its own, so that nothing of it is done in order. */
async function startProcess(t: Test, { path, dataDir }: Places) {
  const started = spawn(process.execPath, [child, path, dataDir], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  t.teardown(() => started.kill('SIGKILL'))
  await once(started.stdout, 'data')
  return async () => {
    started.kill('SIGKILL')
    await once(started, 'exit')
  }
}

async function openHere(t: Test, ...[places, options]: Parameters<typeof openProcess>) {
  const opened = await openProcess(places, options)
  t.teardown(() => opened.sums.stop(0))
  return opened
}

root.test('a machine that restarts has what was copied, and nothing twice', async (t) => {
  const { files, ...places } = makePlaces(t)
  const { below, seed } = createRandom()
  t.comment(`SEED=${seed}`)
  let [total, settled] = [0, 0]
  for (let life = 0; life < 3; life += 1) {
    const kill = await startProcess(t, places)
    const written: (readonly [at: number, tokens: number])[] = []
    for (const until = Date.now() + 1_500 + below(1_500); Date.now() < until; await delay(20)) {
      const tokens = 1 + below(100)
      appendFileSync(below(4) === 0 ? files.envoy : files.script, lineOf(tokens))
      written.push([Date.now(), tokens])
    }
    const killedAt = Date.now()
    await kill()
    // Some times the process alone has ended.
    const isEmptied = life !== 1
    if (isEmptied) rmSync(files.folder, { recursive: true })
    const opened = await openProcess({ ...places }, { keptFiles: 4 })
    const used = Number((await opened.used()) ?? 0)
    const all = written.reduce((sum, [, tokens]) => sum + tokens, 0)
    const old = written.filter(([at]) => at < killedAt - 1_300)
    settled = total + old.reduce((sum, [, tokens]) => sum + tokens, 0)
    t.ok(used <= total + all, `${used} of ${total + all}`)
    if (isEmptied) t.ok(used >= settled, `${used} of at least ${settled}`)
    else t.equal(used, total + all)
    total = used
    await opened.sums.stop(0)
    t.strictSame(opened.faults, [])
  }
})

root.test('a folder that is removed is made again', async (t) => {
  const { files, ...places } = makePlaces(t)
  const one = await openHere(t, places)
  appendFileSync(files.script, lineOf(40))
  t.equal(await one.used(), 40)
  const asked = one.asked.length
  rmSync(files.folder, { recursive: true })
  await poll(() => existsSync(files.script) && existsSync(files.envoy), 'it is there again')
  t.equal(statSync(files.head).size, 64)
  await poll(() => one.asked.slice(asked).includes('/reopen_logs'), 'Envoy opens its log again')
  appendFileSync(files.script, lineOf(2))
  await poll(async () => (await one.used()) === 42, 'its lines are read')
  t.strictSame(one.problems, [])
})

root.test('a folder that can’t be written', { skip: skipSmallDisk }, async (t) => {
  const { path } = mountSmallDisk(t)
  const { dataDir } = makePlaces(t)
  const places = { path: join(path, 'shared', 'usage.jsonl'), dataDir }
  const one = await openHere(t, places)
  const lax = await openHere(t, places, { onLoss: 'allow' })
  // Nothing can be mounted otherwise while a file is being written.
  await poll(() => existsSync(journalFilesOf(places.path).ballast), 'one of them writes')
  const readOnly = spawnSync('mount', ['-o', 'remount,ro', path], { encoding: 'utf8' })
  t.equal(readOnly.stderr, '')
  await poll(() => one.problems.includes('unwritable'), 'it is noticed')
  t.throws(() => one.sums.read([hour], Date.now()), denied)
  t.match(lax.sums.read([hour], Date.now()), [{ used: 0 }])
  t.match(one.sums.stats, { failing: true })
  spawnSync('mount', ['-o', 'remount,rw', path])
  await poll(() => one.problems.includes('no unwritable'), 'it can be written again')
  appendFileSync(places.path, lineOf(3))
  t.equal(await one.used(), 3)
})

root.test('a writer saves its checkpoint later', { skip: skipSmallDisk }, async (t) => {
  const { path: dataDir } = mountSmallDisk(t)
  const { path } = makePlaces(t)
  const first = await openProcess({ path, dataDir })
  await poll(() => first.sums.isWriter, 'it is the writer')
  await first.sums.stop(0)
  const saved = () =>
    readdirSync(join(dataDir, 'journal')).filter((name) => /sums\.2\.[^.]+$/.test(name))
  const remount = (mode: string) => {
    const { stderr } = spawnSync('mount', ['-o', `remount,${mode}`, dataDir], { encoding: 'utf8' })
    t.equal(stderr, '')
  }
  remount('ro')
  const second = await openHere(t, { path, dataDir })
  await poll(() => second.sums.isWriter, 'another one takes over')
  await poll(() => second.problems.includes('kept'), 'the disk is reported')
  t.strictSame(second.faults, [])
  t.strictSame(saved(), [])
  remount('rw')
  await poll(() => second.problems.includes('no kept'), 'the disk is well')
  t.equal(saved().length, 1)
})

root.test('a full file system has room for lines', { skip: skipSmallDisk }, async (t) => {
  const disk = mountSmallDisk(t)
  const { dataDir } = makePlaces(t)
  const places = { path: join(disk.path, 'shared', 'usage.jsonl'), dataDir }
  const { ballast } = journalFilesOf(places.path)
  const one = await openHere(t, places, { maxBytes: 2 ** 30 })
  await poll(() => existsSync(ballast), 'some of it is held free')
  disk.fill()
  await poll(() => !existsSync(ballast), 'it is freed')
  appendFileSync(places.path, lineOf(7))
  t.equal(await one.used(), 7)
  disk.free()
  await poll(() => existsSync(ballast), 'and held again')
})

root.test('a journal of another user', { skip: skipUser }, async (t) => {
  const { files, ...places } = makePlaces(t)
  const one = await openHere(t, places)
  appendFileSync(files.script, lineOf(5))
  t.equal(await one.used(), 5)
  t.equal(one.sums.isUnreadable, false)
  process.seteuid?.(65_534)
  try {
    await poll(() => one.sums.isUnreadable, 'it can’t be read any more')
    t.throws(() => one.sums.read([hour], Date.now()), denied)
  } finally {
    process.seteuid?.(0)
  }
  await poll(() => !one.sums.isUnreadable, 'it can be read again')
  chmodSync(files.script, 0o606)
  await poll(() => one.sums.problems.includes('mismatch'), 'what everybody can use is named')
  chmodSync(files.script, 0o600)
  await poll(() => one.sums.problems.length === 0, 'all is well')
})

root.test('files that cannot be rotated are reported', async (t) => {
  const { files, ...places } = makePlaces(t)
  const one = await openHere(t, places, { maxBytes: 4_096 })
  await poll(() => one.sums.isWriter, 'it writes')
  const names = () => readdirSync(dirname(files.script)).filter((name) => /jsonl\.\d/.test(name))
  mkdirSync(`${files.script}.new`)
  for (let i = 0; i < 40; i += 1) appendFileSync(files.script, lineOf(1))
  await poll(() => one.sums.problems.includes('rotation'), 'it is reported')
  t.equal(await one.used(), 40)
  t.strictSame([one.sums.stats.failing, names()], [false, []])
  rmSync(`${files.script}.new`, { recursive: true })
  await poll(() => one.sums.problems.length === 0, 'all is well')
  t.equal(names().length, 1)
})

root.test('only the writer has the problems of a writer', async (t) => {
  const { files, ...places } = makePlaces(t)
  const one = await openHere(t, places, { maxBytes: 4_096 })
  await poll(() => one.sums.isWriter, 'it writes')
  const kept = join(places.dataDir, 'journal')
  rmSync(kept, { recursive: true })
  writeFileSync(kept, 'no folder')
  mkdirSync(`${files.script}.new`)
  for (let i = 0; i < 40; i += 1) appendFileSync(files.script, lineOf(1))
  const own = ['kept', 'rotation'] as const
  await poll(() => own.every((each) => one.sums.problems.includes(each)), 'it has them')
  appendFileSync(join(dirname(files.script), 'usage.writers'), 'another\n')
  await poll(
    () => own.every((each) => one.problems.includes(`no ${each}`)),
    'it has them no longer',
  )
})

root.test('a disk that hangs stops no lines', async (t) => {
  const { files, ...places } = makePlaces(t)
  const pipe = join(places.dataDir, 'journal', 'usage.jsonl')
  let skewMs = 0
  const one = await openHere(t, places, { monotonic: () => performance.now() + skewMs })
  await poll(() => one.sums.isWriter, 'it writes')
  // Opening a pipe takes until somebody reads it.
  t.equal(spawnSync('mkfifo', [pipe]).status, 0)
  appendFileSync(files.script, lineOf(5))
  await delay(1_500)
  skewMs = 6_000
  await poll(() => one.sums.problems.includes('kept'), 'it is noticed')
  t.equal(await one.used(), 5)
  appendFileSync(files.envoy, lineOf(5))
  await poll(async () => (await one.used()) === 10, 'lines are read')
  t.equal(one.sums.stats.failing, false)
  const reader = openSync(pipe, 'r+')
  t.teardown(() => closeSync(reader))
  rmSync(pipe)
  await poll(() => one.sums.problems.length === 0, 'it answers again')
  await poll(() => existsSync(pipe) && statSync(pipe).size > 0, 'and has the lines')
})

root.test('lines that do not come', async (t) => {
  const { files, ...places } = makePlaces(t)
  let skewMs = 0
  const options = { monotonic: () => performance.now() + skewMs }
  const one = await openHere(t, places, options)
  const lax = await openHere(t, places, { ...options, onLoss: 'allow' })
  for (const { sums } of [one, lax]) sums.noteAllowed()
  skewMs += 14_000
  await delay(300)
  t.strictSame(one.sums.problems, [])
  skewMs += 1_000
  await poll(() => one.sums.problems.includes('silent'), 'it is noticed')
  const asked = one.asked.length
  t.throws(() => one.sums.read([hour], Date.now()), denied)
  await poll(() => lax.sums.stats.failing, 'every process knows')
  t.match(lax.sums.read([hour], Date.now()), [{ used: 0 }])
  await poll(
    () => [...one.asked.slice(asked), ...lax.asked].includes('/reopen_logs'),
    'Envoy is asked',
  )
  skewMs += 15_000
  t.match(one.sums.read([hour], Date.now()), [{ used: 0 }], 'one request may bring a line')
  await delay(1)
  appendFileSync(files.script, lineOf(1))
  t.equal(await one.used(), 1)
  t.equal(one.sums.stats.failing, false)
})

root.test('lines that the script could not write', async (t) => {
  const { files, ...places } = makePlaces(t)
  let skewMs = 0
  const one = await openHere(t, places, { monotonic: () => performance.now() + skewMs })
  await delay(1_200)
  const number = Buffer.alloc(4)
  number.writeUInt32LE(1)
  const head = openSync(files.head, 'r+')
  writeSync(head, number, 0, 4, 16)
  closeSync(head)
  await poll(() => one.sums.problems.includes('script'), 'it is noticed')
  t.equal(one.sums.stats.failing, false, 'Envoy’s own log has them')
  t.match(one.sums.read([hour], Date.now()), [{ used: 0 }])
  skewMs += 60_000
  await poll(() => one.sums.problems.length === 0, 'after a minute it is over')
})

root.test('files of the version before are read on', async (t) => {
  const { files, ...places } = makePlaces(t)
  mkdirSync(files.folder)
  const earlier = (id: string, tokens: number): string => {
    const who = { user: 'ann', subscription: 's', model: 'm' }
    const what = { status: 200, start: String(Date.now()), ms: 1 }
    return `${JSON.stringify({ id, ...who, ...what, reported: { total_tokens: tokens } })}\n`
  }
  const first = earlier('a', 40)
  writeFileSync(files.script, first + earlier('b', 2))
  const { ino: inode } = statSync(files.script, { bigint: true })
  const place = { inode: String(inode), offset: first.length, head: 'any' }
  writeFileSync(`${places.path}.position`, JSON.stringify({ places: [place], forgottenBefore: 0 }))
  const alone = await openProcess(places)
  t.equal(await alone.used(), 42, 'in memory the whole journal counts')
  await alone.sums.stop(0)
  for (const name of readdirSync(join(places.dataDir, 'journal'))) {
    rmSync(join(places.dataDir, 'journal', name))
  }
  const store = {
    write: () => Promise.reject(new Error('away')),
    read: () => Promise.reject(new Error('away')),
  }
  const shared = await openHere(t, places, { store, onLoss: 'allow' })
  t.equal(await shared.used(), 2, 'what Redis has of it is not counted again')
})
