import { appendFileSync, renameSync, rmSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
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
    /** What Envoy does when it is asked to open its file anew. */
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
    /** Lets so much time pass, with its looks, and answers that the stream tells of at the start. */
    async pass(ms: number, { told = false } = {}) {
      if (told) watch.told()
      for (const end = state.now + ms; state.now < end; ) {
        state.now += 500
        await watch.look()
      }
    },
  })
}

test('where nothing has begun nothing is missed', async (t) => {
  const world = createWorld(t)
  await world.pass(60_000)
  world.write()
  await world.pass(60_000)
  t.strictSame(world.changes, [])
  t.equal(world.reopened, 0, 'an idle gateway writes nothing')
})

test('a file that was removed is made again', async (t) => {
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

test('one that was replaced at once is told of', async (t) => {
  const world = createWorld(t)
  world.write()
  await world.pass(500)
  writeFileSync(`${world.path}.draft`, '')
  renameSync(`${world.path}.draft`, world.path)
  await world.pass(500)
  t.equal(world.removed, 1)
})

test('rotation is no removal', async (t) => {
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
  t.strictSame(world.changes, ['missing'], 'but nobody begins a new one')
})

test('answers without lines are noticed within five seconds', async (t) => {
  const world = createWorld(t)
  world.write()
  await world.pass(10_000)
  for (let ms = 0; ms < 4_500; ms += 500) await world.pass(500, { told: true })
  t.strictSame(world.changes, ['stuck'])
  t.ok(world.reopened > 0)
  await world.pass(60_000)
  t.strictSame(world.changes, ['stuck'], 'told once')
  world.write()
  await world.pass(500)
  t.strictSame(world.changes, ['stuck', undefined])
})

test('Envoy is asked to write before it is blamed', async (t) => {
  const world = createWorld(t)
  world.write()
  await world.pass(1_000)
  world.envoy = world.write
  for (let i = 0; i < 20; i += 1) await world.pass(1_000 * i, { told: true })
  t.strictSame(world.changes, [])
  t.ok(world.reopened > 0, 'its interval is longer')
})

test('a line may be there before the stream tells', async (t) => {
  const world = createWorld(t)
  world.write()
  await world.pass(500)
  world.now += 400
  await world.pass(60_000, { told: true })
  t.strictSame(world.changes, [])
})

test('a journal that was never there is missed by the first answer', async (t) => {
  const world = createWorld(t)
  await world.pass(1_000)
  await world.pass(2_000, { told: true })
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
  await t.rejects(watch.look(), { code: 'ENOTDIR' })
})
