import {
  appendFileSync,
  cpSync,
  mkdirSync,
  readFileSync,
  rmdirSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import root, { type Test } from 'tap'
import type { ExactInt } from '../../../src/formats/exact.ts'
import { journalFilesOf, keptJournalOf } from '../../../src/journal/journal-files.ts'
import { windowKey } from '../../../src/ratelimit/redis/keys.ts'
import type { SumStore } from '../../../src/ratelimit/sums/sum-store.ts'
import { poll } from '../../support/poll.ts'
import { makeTemporaryFolder } from '../../support/temporary-folder.ts'
import '../../support/time-limit.ts'
import { hour, lineOf, openProcess } from './journal-sums-world.ts'
import { createDice, type Life, Link, Server } from './model.ts'

const life: Life = { isDead: false, strike() {} }

function makeWorld(t: Test) {
  const folder = makeTemporaryFolder()
  t.teardown(() => folder.remove())
  const server = new Server(Date.now)
  const placesOf = (name: string) => ({
    path: join(folder.path, name, 'shared', 'usage.jsonl'),
    dataDir: join(folder.path, name, 'data'),
  })
  /** The fields of the hour, with its total. */
  function fields(): ReadonlyMap<string, ExactInt> {
    const [key = ''] = [...server.hashes.keys()].filter((each) =>
      each.startsWith(windowKey('all', { id: hour.key })),
    )
    return server.fields(key)
  }
  const total = (): ExactInt => fields().get('+') ?? 0
  const store = (): SumStore => new Link(() => server, createDice(1), life)
  async function open(name: string, link = store()) {
    const opened = await openProcess(placesOf(name), { store: link, keptFiles: 4 })
    t.teardown(() => opened.sums.stop(0))
    return opened
  }
  function copy(from: string, to: string): void {
    cpSync(join(folder.path, from), join(folder.path, to), { recursive: true })
  }
  const log = (name: string, tokens: number) => appendFileSync(placesOf(name).path, lineOf(tokens))
  return { folder: folder.path, server, placesOf, fields, total, open, copy, log, store }
}

root.test('a volume that was copied goes on under a name of its own', async (t) => {
  const { folder, fields, total, open, copy, log } = makeWorld(t)
  const first = await open('a')
  log('a', 40)
  await poll(() => total() === 40, 'the store has it')
  await first.sums.stop(1_000)
  // What no checkpoint has, and nobody has sent.
  log('a', 2)
  copy('a', 'b')
  rmSync(join(folder, 'a'), { recursive: true })
  const [heir, reader] = [await open('b'), await open('b')]
  t.equal(await heir.used(), 42)
  await poll(() => heir.sums.name !== first.sums.name, 'it has another name')
  await poll(() => reader.sums.name === heir.sums.name, 'so has its other process')
  await poll(() => fields().get(first.sums.name) === 42, 'what was there is in the store')
  log('b', 3)
  await poll(() => fields().get(heir.sums.name) === 3, 'the rest is its own')
  t.equal(total(), 45)
  t.same(await Promise.all([heir.used(), reader.used()]), [45, 45])
  await Promise.all([heir, reader].map(({ sums }) => sums.stop(1_000)))
  const last = await open('b')
  t.equal(last.sums.name, heir.sums.name)
  t.equal(await last.used(), 45)
  t.same(last.faults, [])
})

root.test(
  'a process that is killed before it records the new name finds it in the checkpoint',
  async (t) => {
    const { fields, total, open, copy, log, placesOf } = makeWorld(t)
    const first = await open('a')
    log('a', 40)
    await poll(() => total() === 40, 'the store has it')
    await first.sums.stop(1_000)
    copy('a', 'b')
    const { path, dataDir } = placesOf('b')
    const names = [journalFilesOf(path).name, keptJournalOf(path, dataDir).name]
    const before = names.map((name) => readFileSync(name))
    const heir = await open('b')
    await poll(() => heir.sums.name !== first.sums.name, 'it has another name')
    log('b', 3)
    await poll(() => fields().get(heir.sums.name) === 3, 'under which it counts')
    await heir.sums.stop(1_000)
    for (const [i, name] of names.entries()) writeFileSync(name, before[i] as Buffer)
    const last = await open('b')
    t.equal(last.sums.name, heir.sums.name)
    t.equal(await last.used(), 43)
    t.equal(total(), 43)
  },
)

root.test(
  'lines from before a change of the name count under the former one, also without DATA_DIR',
  async (t) => {
    const { fields, total, open, copy, log, placesOf } = makeWorld(t)
    const first = await open('a')
    log('a', 40)
    await poll(() => total() === 40, 'the store has it')
    await first.sums.stop(1_000)
    copy('a', 'b')
    const heir = await open('b')
    await poll(() => heir.sums.name !== first.sums.name, 'it has another name')
    log('b', 3)
    await poll(() => fields().get(heir.sums.name) === 3, 'under which it counts')
    await heir.sums.stop(1_000)
    rmSync(placesOf('b').dataDir, { recursive: true })
    for (let lives = 0; lives < 2; lives += 1) {
      const last = await open('b')
      t.equal(last.sums.name, heir.sums.name)
      await poll(() => last.sums.isWriter, 'it writes')
      t.equal(await last.used(), 43)
      log('b', 0)
      await poll(() => last.sums.unflushed === 0, 'the store has it')
      t.equal(total(), 43)
      await last.sums.stop(1_000)
      rmSync(placesOf('b').dataDir, { recursive: true })
    }
  },
)

root.test('lines count while the new name cannot be written', async (t) => {
  const { placesOf, total, open, copy, log } = makeWorld(t)
  const first = await open('a')
  log('a', 40)
  await poll(() => total() === 40, 'the store has it')
  await first.sums.stop(1_000)
  copy('a', 'b')
  const { name } = journalFilesOf(placesOf('b').path)
  const heir = await open('b')
  rmSync(name)
  mkdirSync(name)
  await poll(() => heir.sums.isWriter, 'it writes')
  for (let tries = 1; tries <= 3; tries += 1) {
    await delay(1_000)
    log('b', 1)
    await poll(async () => (await heir.used()) === 40 + tries, 'it is counted')
  }
  t.equal(heir.sums.name, first.sums.name)
  t.match(heir.faults[0], { code: 'EISDIR' }, 'and it is reported')
  rmdirSync(name)
  await poll(() => heir.sums.name !== first.sums.name, 'it has another name')
  log('b', 1)
  await poll(() => total() === 44, 'each line counts once')
  await heir.sums.stop(1_000)
  t.equal(await (await open('b')).used(), 44)
})

root.test('a copy of a volume that lives is told from it', async (t) => {
  const { placesOf, total, open, copy, log } = makeWorld(t)
  const first = await open('a')
  log('a', 40)
  await poll(() => total() === 40, 'the store has it')
  copy('a', 'b')
  const second = await open('b')
  await poll(() => second.sums.isWriter, 'both write')
  await poll(() => second.sums.name !== first.sums.name, 'they have two names', 15_000)
  log('a', 5)
  log('b', 7)
  await poll(() => total() === 52, 'each line counts once', 15_000)
  await poll(async () => (await first.used()) === 52 && (await second.used()) === 52, 'for both')
  t.not(placesOf('a').path, placesOf('b').path)
})

root.test('a copy gets one new name, however many processes it has', async (t) => {
  const { open, copy, log, total } = makeWorld(t)
  const first = await open('a')
  log('a', 40)
  await poll(() => total() === 40, 'the store has it')
  await first.sums.stop(1_000)
  copy('a', 'b')
  const both = [await open('b'), await open('b')]
  const names = () => new Set(both.map(({ sums }) => sums.name))
  await poll(() => names().size === 1 && !names().has(first.sums.name), 'both have it')
  const [name] = names()
  await poll(() => both.some(({ sums }) => sums.isWriter), 'one of them writes')
  // They look once a second.
  await delay(1_500)
  t.strictSame([...names()], [name])
})

root.test('a copy waits for a store that is away', async (t) => {
  const { folder, fields, total, open, copy, log, store } = makeWorld(t)
  const first = await open('a')
  log('a', 40)
  await poll(() => total() === 40, 'the store has it')
  await first.sums.stop(1_000)
  log('a', 2)
  copy('a', 'b')
  rmSync(join(folder, 'a'), { recursive: true })
  const link = store() as Link
  link.isDown = true
  const opened = await openProcess(
    { path: join(folder, 'b', 'shared', 'usage.jsonl'), dataDir: join(folder, 'b', 'data') },
    { store: link, onLoss: 'allow' },
  )
  t.teardown(() => opened.sums.stop(0))
  await poll(() => opened.sums.isWriter && opened.sums.isUnavailable, 'it writes in vain')
  log('b', 3)
  t.equal(await opened.used(), 45)
  t.equal(opened.sums.name, first.sums.name)
  link.isDown = false
  await poll(() => opened.sums.name !== first.sums.name, 'then it goes on')
  await poll(() => total() === 45, 'nothing is lost, or twice')
  t.equal(fields().get(first.sums.name), 45)
})
