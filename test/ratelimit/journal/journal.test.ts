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

/** A claim that one owner at a time has, as in Redis; it is taken away by hand. */
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

test('counters in memory have all before the start is over', async (t) => {
  const { journal, settled, write, logged } = createWorld(t)
  for (const id of ['1', '2', '3']) write(id)
  await journal.start()
  t.strictSame(settled, ['1', '2', '3'])
  t.match(logged, ['usage journal read'])
  write('4')
  await poll(() => settled.length === 4, 'it is followed')
  t.match(journal.stats, { lines: 4, skipped: 0, unreadBytes: 0 })
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
  await poll(() => settled.length === 1, 'it is read')
  t.notOk(existsSync(positionOf(path)))
  kept.resolve()
  await poll(() => existsSync(positionOf(path)), 'and the position kept')
})

test('one of two reads, the other takes over', async (t) => {
  const claims = createClaims()
  const one = createWorld(t, { lasting: true, counters: claims.of('one') })
  const two = createWorld(t, { path: one.path, lasting: true, counters: claims.of('two') })
  one.write('1')
  await one.journal.start()
  await poll(() => one.settled.length === 1, 'the first reads')
  await two.journal.start()
  one.write('2')
  await poll(() => existsSync(positionOf(one.path)) && one.settled.length === 2, 'and goes on')
  t.strictSame(two.settled, [])
  await one.journal.stop()
  one.write('3')
  await poll(() => two.settled.length > 0, 'the other is the reader', 20_000)
  t.strictSame(two.settled, ['3'], 'and goes on where it was left')
  t.equal(one.settled.length, 2)
})

test('who reads again goes on where the other was', async (t) => {
  const claims = createClaims()
  const one = createWorld(t, { lasting: true, counters: claims.of('one') })
  const two = createWorld(t, { path: one.path, lasting: true, counters: claims.of('two') })
  one.write('1')
  await one.journal.start()
  await poll(() => existsSync(positionOf(one.path)), 'the first has read')
  claims.give('two')
  one.time.aheadMs += 60_000
  one.write('2')
  await two.journal.start()
  await poll(() => two.settled.length > 0, 'the other reads')
  t.strictSame(two.settled, ['2'])
  // Stopped in the middle of nothing, it has saved how far it came.
  await poll(() => savedOffset(one.path) === statSync(one.path).size, 'and says how far')
  await two.journal.stop()
  one.write('3')
  await poll(() => one.settled.length > 1, 'the first reads again')
  t.strictSame(one.settled, ['1', '3'])
})

test('a stop reads what there is, and leaves the rest to nobody', async (t) => {
  const claims = createClaims()
  const one = createWorld(t, { lasting: true, counters: claims.of('one') })
  one.write('1')
  await one.journal.start()
  await poll(() => one.settled.length === 1, 'it reads')
  for (let id = 2; id <= 3_000; id += 1) one.write(`${id}`)
  await one.journal.stop(5_000)
  t.equal(one.settled.length, 3_000)
  t.equal(savedOffset(one.path), statSync(one.path).size)
  one.write('3001')

  const two = createWorld(t, { path: one.path, lasting: true, counters: claims.of('two') })
  claims.give('another')
  await two.journal.start()
  await two.journal.stop()
  t.strictSame(two.settled, [], 'what another one reads is left to it')
})

test('a stop does not wait for lost counters', async (t) => {
  const { journal, write, settled } = createWorld(t, {
    lasting: true,
    counters: { kept: () => new Promise(() => {}) },
  })
  write('1')
  await journal.start()
  await poll(() => settled.length === 1, 'it reads')
  await journal.stop()
  await journal.stop()
  write('2')
  t.equal(settled.length, 1)
})

test('a fault that lasts is told once', async (t) => {
  const { journal, logged, settled, write, path } = createWorld(t, {
    path: join(temporaryFolder(t, { file: '' }), 'file', 'usage.jsonl'),
  })
  await journal.start()
  t.match(logged, ['the usage journal cannot be read'])
  t.strictSame(settled, [])
  t.throws(() => write('1'), { code: 'ENOTDIR' }, path)
  await journal.stop()
  t.ok(logged.length <= 2, 'once by each that looks')
})
