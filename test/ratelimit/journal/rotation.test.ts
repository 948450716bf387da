import { appendFileSync, existsSync, readdirSync, utimesSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Test, test } from 'tap'
import { createReopening } from '../../../src/ratelimit/journal/reopening.ts'
import { createJournalRotation } from '../../../src/ratelimit/journal/rotation.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

const start = 1_795_264_000_000

function createWorld(t: Test, path = join(temporaryFolder(t), 'usage.jsonl')) {
  const state = {
    now: start,
    reader: true,
    done: (_path: string): boolean => false,
    /** What Envoy does on a request to reopen its file. */
    envoy: async (): Promise<void> => writeFileSync(path, ''),
    reopened: 0,
    failures: [] as unknown[],
    losses: [] as string[],
  }
  const reopen = createReopening({
    async reopen() {
      state.reopened += 1
      await state.envoy()
    },
    clock: () => state.now,
    onReopen: (failure) => state.failures.push(failure),
  })
  const tidy = createJournalRotation({
    path,
    rotateBytes: 100,
    daily: true,
    reopen,
    isReader: () => state.reader,
    isDone: ({ path }) => state.done(path),
    clock: () => state.now,
    onLoss: (path) => state.losses.push(path),
  })
  return Object.assign(state, {
    path,
    tidy,
    names: () => readdirSync(join(path, '..')).sort(),
    rotated(count: number) {
      for (let i = 0; i < count; i += 1) {
        const file = `${path}.${start - 100_000 + i}`
        writeFileSync(file, 'x')
        utimesSync(file, i, i)
      }
    },
  })
}

test('a long file is renamed and a new one created', async (t) => {
  const { path, tidy, names, ...world } = createWorld(t)
  await tidy()
  t.strictSame(names(), [], 'nothing to do yet')
  appendFileSync(path, 'x'.repeat(99))
  await tidy()
  t.strictSame(names(), ['usage.jsonl'])
  appendFileSync(path, 'x')
  await tidy()
  t.strictSame(names(), ['usage.jsonl', `usage.jsonl.${start}`])
  t.strictSame(world.failures, [])
})

test('Envoy is asked to reopen until it does', async (t) => {
  const world = createWorld(t)
  world.envoy = () => Promise.reject(new Error('unavailable'))
  appendFileSync(world.path, 'x'.repeat(100))
  for (let i = 0; i < 6; i += 1) {
    await world.tidy()
    world.now += 1_000
  }
  t.match(world.failures, [{ message: 'unavailable' }], 'reported once')
  t.equal(world.reopened, 3, 'every two seconds')
  const again = createWorld(t, world.path)
  again.envoy = async () => {}
  await again.tidy()
  t.equal(again.reopened, 1, 'by another process too')
  world.envoy = async () => writeFileSync(world.path, '')
  world.now += 2_000
  await world.tidy()
  t.match(world.failures, [{}, undefined])
  const { reopened } = world
  world.now += 10_000
  await world.tidy()
  t.equal(world.reopened, reopened, 'not again once the file exists')
})

test('another process rotates only a file that is a quarter too long', async (t) => {
  const world = createWorld(t)
  world.reader = false
  appendFileSync(world.path, 'x'.repeat(124))
  await world.tidy()
  t.strictSame(world.names(), ['usage.jsonl'])
  appendFileSync(world.path, 'x')
  await world.tidy()
  t.equal(world.names().length, 2, 'no reader has rotated it')
})

test('two concurrent rotations do no harm', async (t) => {
  const one = createWorld(t)
  const two = createWorld(t, one.path)
  two.now += 1
  appendFileSync(one.path, 'x'.repeat(200))
  await Promise.all([one.tidy(), two.tidy()])
  t.equal(one.names().filter((name) => name !== 'usage.jsonl').length, 1)
  t.ok(existsSync(one.path))
  t.strictSame([...one.failures, ...two.failures], [])
})

test('files that were read are deleted, except the last four', async (t) => {
  const world = createWorld(t)
  world.rotated(7)
  writeFileSync(world.path, '')
  for (const other of ['.1', '.2.gz', '.position', `-${start}`])
    writeFileSync(world.path + other, '')
  const others = world.names().length
  await world.tidy()
  t.equal(world.names().length, others, 'nothing has been read')
  const [first, second] = world.names().filter((name) => /\.\d{13}$/.test(name))
  world.done = (path) => !path.endsWith(second as string)
  await world.tidy()
  t.equal(world.names().length, others - 2)
  t.notOk(world.names().includes(first as string))
  t.ok(world.names().includes(second as string))
  world.done = () => true
  world.reader = false
  await world.tidy()
  t.equal(world.names().length, others - 2, 'only the reader knows what has been read')
  world.reader = true
  await world.tidy()
  t.equal(world.names().filter((name) => /\.\d{13}$/.test(name)).length, 4)
  t.equal(world.names().length, others - 3, 'files with other names are kept')
  t.strictSame(world.losses, [])
})

test('without a reader the number of files is limited', async (t) => {
  const world = createWorld(t)
  world.rotated(62)
  writeFileSync(world.path, '')
  world.reader = false
  await world.tidy()
  t.equal(world.names().length, 61)
  t.equal(world.losses.length, 2)
})

test('the reader also renames it at the end of a day', async (t) => {
  const world = createWorld(t)
  appendFileSync(world.path, 'x')
  await world.tidy()
  t.strictSame(world.names(), ['usage.jsonl'])
  world.now = (Math.floor(start / 86_400_000) + 1) * 86_400_000
  await world.tidy()
  t.strictSame(world.names(), ['usage.jsonl', `usage.jsonl.${world.now}`])
  world.now += 86_400_000
  await world.tidy()
  t.equal(world.names().length, 2, 'an empty one stays')
  world.reader = false
  appendFileSync(world.path, 'x')
  world.now += 86_400_000
  await world.tidy()
  t.equal(world.names().length, 2, 'another process does it')
})
