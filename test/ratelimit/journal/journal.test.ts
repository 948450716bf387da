import { appendFileSync, existsSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { type Test, test } from 'tap'
import { createJournal } from '../../../src/ratelimit/journal/journal.ts'
import { createMemoryCounters } from '../../../src/store/counters/memory.ts'
import type { JournaledCounters } from '../../../src/store/counters.ts'
import { lineOf, positionOf } from '../../support/journaled.ts'
import { poll } from '../../support/poll.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

interface WorldOptions {
  readonly path?: string
  readonly lasting?: boolean
  readonly counters?: Partial<JournaledCounters>
}

function createWorld(t: Test, options: WorldOptions = {}) {
  const { path = join(temporaryFolder(t), 'usage.jsonl'), lasting = false, counters } = options
  const settled: string[] = []
  const logged: string[] = []
  const time = { aheadMs: 0 }
  const log = (_: unknown, message: string): void => void logged.push(message)
  const journal = createJournal({
    path,
    rotateBytes: 1_000_000,
    settle: ({ response }) => settled.push(response?.id ?? ''),
    counters: { ...createMemoryCounters(), ...counters },
    lasting,
    clock: Date.now,
    monotonic: () => performance.now() + time.aheadMs,
    reopen: async () => {},
    log: { info: log, warn: log, error: log },
  })
  t.teardown(() => journal.stop())
  const write = (id: string): void => appendFileSync(path, `${lineOf({ id })}\n`)
  return { path, settled, logged, time, journal, write }
}

/** A claim that one owner at a time has, as in Redis; the test passes it on. */
function createClaims() {
  let owner: string | undefined
  return {
    give: (name: string) => {
      owner = name
    },
    of: (name: string) => ({
      async claimJournal(ms: number) {
        owner ??= name
        const has = owner === name
        if (has && ms < 1_000) owner = undefined
        return has
      },
    }),
  }
}

function savedOffset(path: string): number {
  return JSON.parse(readFileSync(positionOf(path), 'utf8')).places[0].offset
}

test('counters in memory have all usage at the end of the start', async (t) => {
  const { journal, settled, write, logged } = createWorld(t)
  for (const id of ['1', '2', '3']) write(id)
  await journal.start()
  t.strictSame(settled, ['1', '2', '3'])
  t.match(logged, ['usage journal read'])
  write('4')
  await poll(() => settled.length === 4, 'new lines are read')
  t.match(journal.stats, { lines: 4, skipped: 0 })
  await poll(() => journal.stats.unreadBytes === 0, 'nothing is unread')
})

test('shared counters do not delay the start', async (t) => {
  const kept = Promise.withResolvers<void>()
  const { journal, settled, write, path } = createWorld(t, {
    lasting: true,
    counters: { kept: () => kept.promise },
  })
  write('1')
  await journal.start()
  t.strictSame(settled, [])
  await poll(() => settled.length === 1, 'the line is read')
  t.notOk(existsSync(positionOf(path)))
  kept.resolve()
  await poll(() => existsSync(positionOf(path)), 'the position is saved')
})

test('only one of two processes reads, and the other takes over', async (t) => {
  const claims = createClaims()
  const one = createWorld(t, { lasting: true, counters: claims.of('one') })
  const two = createWorld(t, { path: one.path, lasting: true, counters: claims.of('two') })
  one.write('1')
  await one.journal.start()
  await poll(() => one.settled.length === 1, 'the first one reads')
  await two.journal.start()
  one.write('2')
  await poll(
    () => existsSync(positionOf(one.path)) && one.settled.length === 2,
    'it continues to read',
  )
  t.strictSame(two.settled, [])
  await one.journal.stop()
  one.write('3')
  await poll(() => two.settled.length > 0, 'the other one is the reader', 20_000)
  t.strictSame(two.settled, ['3'], 'continues at the saved position')
  t.equal(one.settled.length, 2)
})

test('what nobody reads is unread at every process', async (t) => {
  const claims = createClaims()
  claims.give('nobody')
  const one = createWorld(t, { lasting: true, counters: claims.of('one') })
  const two = createWorld(t, { path: one.path, lasting: true, counters: claims.of('two') })
  for (const { journal } of [one, two]) await journal.start()
  const unread = () => [one, two].map(({ journal }) => journal.stats.unreadBytes)
  for (const id of ['1', '2']) {
    one.write(id)
    const { size } = statSync(one.path)
    await poll(() => unread().every((bytes) => bytes === size), 'both report all that is written')
  }
  claims.give('one')
  await poll(() => unread().every((bytes) => bytes === 0), 'both report that it is read')
  t.strictSame([one.settled.length, two.settled.length], [2, 0])
})

test('a process that reads again continues where the other one stopped', async (t) => {
  const claims = createClaims()
  const one = createWorld(t, { lasting: true, counters: claims.of('one') })
  const two = createWorld(t, { path: one.path, lasting: true, counters: claims.of('two') })
  one.write('1')
  await one.journal.start()
  await poll(() => existsSync(positionOf(one.path)), 'the first one has read')
  claims.give('two')
  one.time.aheadMs += 60_000
  one.write('2')
  await two.journal.start()
  await poll(() => two.settled.length > 0, 'the other one reads')
  t.strictSame(two.settled, ['2'])
  // It has saved its position, so that it can be stopped at any time.
  await poll(() => savedOffset(one.path) === statSync(one.path).size, 'the position is saved')
  await two.journal.stop()
  one.write('3')
  await poll(() => one.settled.length > 1, 'the first one reads again')
  t.strictSame(one.settled, ['1', '3'])
})

test('a stop reads all present lines, unless another process is the reader', async (t) => {
  const claims = createClaims()
  const one = createWorld(t, { lasting: true, counters: claims.of('one') })
  one.write('1')
  await one.journal.start()
  await poll(() => one.settled.length === 1, 'the line is read')
  for (let id = 2; id <= 3_000; id += 1) one.write(`${id}`)
  await one.journal.stop(5_000)
  t.equal(one.settled.length, 3_000)
  t.equal(savedOffset(one.path), statSync(one.path).size)
  one.write('3001')

  const two = createWorld(t, { path: one.path, lasting: true, counters: claims.of('two') })
  claims.give('another')
  await two.journal.start()
  await two.journal.stop()
  t.strictSame(two.settled, [], 'lines of another reader are left to it')
})

test('a stop does not wait for lost counters', async (t) => {
  const { journal, write, settled } = createWorld(t, {
    lasting: true,
    counters: { kept: () => new Promise(() => {}) },
  })
  write('1')
  await journal.start()
  await poll(() => settled.length === 1, 'the line is read')
  await journal.stop()
  await journal.stop()
  write('2')
  t.equal(settled.length, 1)
})

test('a lasting fault is logged once', async (t) => {
  const { journal, logged, settled, write, path } = createWorld(t, {
    path: join(temporaryFolder(t, { file: '' }), 'file', 'usage.jsonl'),
  })
  await journal.start()
  t.match(logged, ['the usage journal cannot be read'])
  t.strictSame(settled, [])
  t.throws(() => write('1'), { code: 'ENOTDIR' }, path)
  await journal.stop()
  t.ok(logged.length <= 2, 'at most once by each of its two checks')
})
