import {
  appendFileSync,
  renameSync,
  rmSync,
  statSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { type Test, test } from 'tap'
import { createJournalWatch, type JournalProblem } from '../../../src/ratelimit/journal/watch.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

function createWorld(t: Test) {
  const path = join(temporaryFolder(t), 'usage.jsonl')
  const state = {
    now: 0,
    reopened: 0,
    removed: 0,
    changes: [] as (JournalProblem | undefined)[],
    /** What Envoy does on a request to reopen its file. */
    envoy: (): void => {},
  }
  const watch = createJournalWatch({
    path,
    async reopen() {
      state.reopened += 1
      state.envoy()
    },
    monotonic: () => state.now,
    onChange: (problem) => state.changes.push(problem),
    onRemoved: () => {
      state.removed += 1
    },
  })
  return Object.assign(state, {
    path,
    watch,
    write: () => appendFileSync(path, 'a line\n'),
    /** What a write to a full disk does: the modification time moves, the size does not. */
    writeUnread() {
      const { atime, mtimeMs } = statSync(path)
      utimesSync(path, atime, new Date(mtimeMs + 1_000))
    },
    /** Lets time pass, with regular checks; `isReported`: the stream reports a response at the start. */
    async pass(ms: number, { isReported = false } = {}) {
      if (isReported) watch.noteReported()
      for (const end = state.now + ms; state.now < end; ) {
        state.now += 500
        await watch.poll()
      }
    },
  })
}

test('before the first response no file is missing', async (t) => {
  const world = createWorld(t)
  await world.pass(60_000)
  world.write()
  await world.pass(60_000)
  t.strictSame(world.changes, [])
  t.equal(world.reopened, 0, 'an idle gateway writes nothing')
})

test('a removed file is created again', async (t) => {
  const world = createWorld(t)
  world.write()
  await world.pass(1_000)
  rmSync(world.path)
  await world.pass(500)
  t.strictSame(world.changes, ['missing'])
  t.match(world, { removed: 1, reopened: 1, watch: { problem: 'missing' } })
  world.envoy = () => writeFileSync(world.path, '')
  await world.pass(1_000)
  t.strictSame(world.changes, ['missing', undefined])
  t.equal(world.watch.problem, undefined)
  t.equal(world.removed, 1)
})

test('a file that is replaced at once is reported', async (t) => {
  const world = createWorld(t)
  world.write()
  await world.pass(500)
  writeFileSync(`${world.path}.draft`, '')
  renameSync(`${world.path}.draft`, world.path)
  await world.pass(500)
  t.equal(world.removed, 1)
})

test('a rotation is not a removal', async (t) => {
  const world = createWorld(t)
  world.write()
  await world.pass(500)
  renameSync(world.path, `${world.path}.1`)
  await world.pass(500)
  t.equal(world.reopened, 1)
  world.write()
  await world.pass(500)
  truncateSync(world.path)
  await world.pass(10_000)
  t.strictSame(world.changes, [])
  t.equal(world.removed, 0)
  renameSync(world.path, `${world.path}.2`)
  await world.pass(2_000)
  t.strictSame(world.changes, ['missing'], 'no new file is created')
})

test('responses without lines are noticed within five seconds', async (t) => {
  const world = createWorld(t)
  world.write()
  await world.pass(10_000)
  for (let ms = 0; ms < 4_500; ms += 500) await world.pass(500, { isReported: true })
  t.strictSame(world.changes, ['stuck'])
  t.ok(world.reopened > 0)
  await world.pass(60_000)
  t.strictSame(world.changes, ['stuck'], 'reported once')
  world.write()
  await world.pass(500)
  t.strictSame(world.changes, ['stuck', undefined])
})

test('writes that fail are noticed without a stream', async (t) => {
  const world = createWorld(t)
  world.write()
  await world.pass(1_000)
  world.writeUnread()
  await world.pass(10_000)
  t.strictSame(world.changes, [], 'once proves nothing')
  world.writeUnread()
  await world.pass(500)
  t.strictSame(world.changes, ['stuck'])
  t.equal(world.reopened, 1)
  world.writeUnread()
  await world.pass(60_000)
  t.strictSame(world.changes, ['stuck'], 'reported once')
  world.write()
  await world.pass(500)
  t.strictSame(world.changes, ['stuck', undefined])
})

test('writes that fail do not pass for growth', async (t) => {
  const world = createWorld(t)
  world.write()
  await world.pass(10_000)
  world.writeUnread()
  await world.pass(3_500, { isReported: true })
  t.strictSame(world.changes, ['stuck'])
})

test('one process tells the others of responses without lines', async (t) => {
  const world = createWorld(t)
  const others: (JournalProblem | undefined)[] = []
  const other = createJournalWatch({
    path: world.path,
    reopen: async () => {},
    monotonic: () => world.now,
    onChange: (problem) => others.push(problem),
    onRemoved() {},
  })
  const pass = async (ms: number) => {
    for (const end = world.now + ms; world.now < end; ) {
      await world.pass(500)
      await other.poll()
      // The touches have the time of the real clock.
      await delay(2)
    }
  }
  world.write()
  await pass(10_000)
  t.strictSame(others, [])
  world.watch.noteReported()
  await pass(4_500)
  t.strictSame(world.changes, ['stuck'])
  t.strictSame(others, ['stuck'])
  world.write()
  await pass(500)
  t.strictSame(others, ['stuck', undefined])
})

test('Envoy is asked to flush its file before a problem is reported', async (t) => {
  const world = createWorld(t)
  world.write()
  await world.pass(1_000)
  world.envoy = world.write
  for (let i = 0; i < 20; i += 1) await world.pass(1_000 * i, { isReported: true })
  t.strictSame(world.changes, [])
  t.ok(world.reopened > 0, 'its flush interval is longer')
})

test('a line may precede the report of the stream', async (t) => {
  const world = createWorld(t)
  world.write()
  await world.pass(500)
  world.now += 400
  await world.pass(60_000, { isReported: true })
  t.strictSame(world.changes, [])
})

test('a journal that never existed is missing from the first response on', async (t) => {
  const world = createWorld(t)
  await world.pass(1_000)
  await world.pass(2_000, { isReported: true })
  t.strictSame(world.changes, ['missing'])
  t.equal(world.removed, 0)
})

test('a folder that cannot be read is an error', async (t) => {
  const world = createWorld(t)
  const watch = createJournalWatch({
    path: join(world.path, 'usage.jsonl'),
    reopen: async () => {},
    monotonic: () => 0,
    onChange() {},
    onRemoved() {},
  })
  world.write()
  await t.rejects(watch.poll(), { code: 'ENOTDIR' })
})
