import {
  appendFileSync,
  copyFileSync,
  existsSync,
  readFileSync,
  renameSync,
  rmSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { type Test, test } from 'tap'
import { listJournal } from '../../../src/ratelimit/journal/folder.ts'
import { createJournalReader } from '../../../src/ratelimit/journal/reader.ts'
import { lineOf, positionOf } from '../../support/journaled.ts'
import { createRandom } from '../../support/random.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

const start = 1_795_264_000_000
const minute = 60_000

interface WorldOptions {
  readonly path?: string
  readonly lasting?: boolean
  readonly clock?: { now: number }
}

/** A reader of a journal in a folder of its own, with counters that record their calls. */
function createWorld(t: Test, options: WorldOptions = {}) {
  const { path = join(temporaryFolder(t), 'usage.jsonl'), lasting = true } = options
  const clock = options.clock ?? { now: start }
  const state = {
    settled: [] as string[],
    problems: [] as string[],
    forgotten: [] as number[],
    mayRead: true,
    kept: async (): Promise<void> => {},
  }
  const reader = createJournalReader({
    path,
    lasting,
    settle(usage, by) {
      t.equal(by, 'journal')
      state.settled.push(usage.response?.id ?? '')
    },
    counters: {
      kept: () => state.kept(),
      async forgetReports(endedBefore) {
        state.forgotten.push(endedBefore)
      },
    },
    clock: () => clock.now,
    mayRead: () => state.mayRead,
    onProblem: (problem) => state.problems.push(problem),
  })
  t.teardown(() => reader.reset())
  return Object.assign(state, {
    path,
    clock,
    reader,
    /** A line with this id whose response ended `ageMs` ago. */
    line: (id: string, ageMs = 0) => `${lineOf({ id, start: String(clock.now - ageMs) })}\n`,
    write: (...lines: string[]) => appendFileSync(path, lines.join('')),
    rotate(suffix: string) {
      renameSync(path, path + suffix)
      // The order does not depend on the names, but on the time of the last line.
      utimesSync(path + suffix, clock.now / 1_000, clock.now / 1_000)
      clock.now += 1_000
    },
    position: () => JSON.parse(readFileSync(positionOf(path), 'utf8')),
  })
}

test('without a file there is nothing to read', async (t) => {
  const { reader, settled } = createWorld(t, {
    path: join(temporaryFolder(t), 'no', 'usage.jsonl'),
  })
  await reader.readAll().catch((error) => t.match(error, { code: 'ENOENT' }))
  t.strictSame(settled, [])
})

test('every line is settled once, in order', async (t) => {
  const { reader, settled, write, line, rotate, path } = createWorld(t)
  await reader.readAll()
  write(line('1'), line('2'))
  await reader.readAll()
  write(line('3'))
  rotate('.9')
  write(line('5'))
  appendFileSync(`${path}.9`, line('4'))
  await reader.readAll()
  rotate('-20261121')
  write(line('6'))
  await reader.readAll()
  await reader.readAll()
  t.strictSame(settled, ['1', '2', '3', '4', '5', '6'])
  t.match(reader.stats, { lines: 6, skipped: 0, unreadBytes: 0 })
})

test('older files are read first', async (t) => {
  const { reader, settled, write, line, rotate, path } = createWorld(t)
  for (const [id, suffix] of [
    ['1', '.2'],
    ['2', '.1'],
    ['3', '.1795264413046'],
  ] as const) {
    write(line(id))
    rotate(suffix)
  }
  write(line('4'))
  for (const other of ['.3.gz', '.position', '.position.17', 'x', '.tmp'])
    writeFileSync(path + other, line('none'))
  await reader.readAll()
  t.strictSame(settled, ['1', '2', '3', '4'])
})

test('a new process continues at the saved position', async (t) => {
  const first = createWorld(t)
  first.write(first.line('1'), first.line('2'))
  await first.reader.readAll()
  first.rotate('.1')
  first.write(first.line('3'))

  const second = createWorld(t, { path: first.path })
  await second.reader.readAll()
  t.strictSame(second.settled, ['3'])
  t.equal(second.position().places.length, 2)
})

test('a file that is renamed while a process starts keeps its position', async (t) => {
  const first = createWorld(t)
  first.write(first.line('1'))
  await first.reader.readAll()
  first.rotate('.1')
  first.write(first.line('2'))
  const elsewhere = join(temporaryFolder(t), 'moved')
  renameSync(`${first.path}.1`, elsewhere)

  const second = createWorld(t, { path: first.path })
  await second.reader.readAll()
  renameSync(elsewhere, `${first.path}.1`)
  const third = createWorld(t, { path: first.path })
  await third.reader.readAll()
  t.strictSame([...second.settled, ...third.settled], ['2'])

  third.clock.now += minute
  rmSync(`${first.path}.1`)
  const fourth = createWorld(t, { path: first.path, clock: third.clock })
  await fourth.reader.readAll()
  t.equal(fourth.position().places.length, 2)
  third.clock.now += minute
  fourth.write(fourth.line('3'))
  await fourth.reader.readAll()
  t.equal(fourth.position().places.length, 1, 'the position is removed with the file')
})

test('counters that start empty get every line', async (t) => {
  const first = createWorld(t, { lasting: false })
  first.write(first.line('1', 2 * 86_400_000), first.line('2'))
  await first.reader.readAll()
  const second = createWorld(t, { path: first.path, lasting: false })
  await second.reader.readAll()
  t.strictSame(second.settled, ['1', '2'], 'however old')
  t.notOk(existsSync(positionOf(first.path)))
})

test('a position is saved only after the counters are', async (t) => {
  const world = createWorld(t)
  const asked = Promise.withResolvers<void>()
  const keeping = Promise.withResolvers<void>()
  world.kept = () => {
    asked.resolve()
    return keeping.promise
  }
  world.write(world.line('1'))
  const reading = world.reader.readAll()
  await asked.promise
  const [file] = await listJournal(world.path)
  t.notOk(existsSync(positionOf(world.path)))
  t.notOk(file && world.reader.isDone(file))
  keeping.resolve()
  await reading
  t.equal(world.position().places[0].offset, file?.size)
  t.ok(file && world.reader.isDone(file))
})

test('reading ends when the counters stop', async (t) => {
  const world = createWorld(t)
  world.kept = () => Promise.reject(new Error('stopped'))
  world.write(world.line('1'))
  await t.rejects(world.reader.readAll(), { message: 'stopped' })
  t.notOk(existsSync(positionOf(world.path)))
})

test('the reader waits for the counters every thousand lines', async (t) => {
  const world = createWorld(t)
  let settledWhenKept: number[] = []
  world.kept = async () => void settledWhenKept.push(world.settled.length)
  world.write(...Array.from({ length: 3_500 }, (_, i) => world.line(String(i))))
  await world.reader.readAll()
  t.equal(settledWhenKept.at(-1), 3_500)
  for (const [i, count] of settledWhenKept.entries())
    t.ok(count - (settledWhenKept[i - 1] ?? 0) < 1_500, String(count))
  settledWhenKept = []
  await world.reader.readAll()
  t.strictSame(settledWhenKept, [], 'without new lines it does not wait')
})

test('a reader that loses its turn saves nothing', async (t) => {
  const world = createWorld(t)
  world.kept = async () => {
    world.mayRead = false
  }
  world.write(...Array.from({ length: 3_500 }, (_, i) => world.line(String(i))))
  await world.reader.readAll()
  t.ok(world.settled.length < 1_500)
  t.notOk(existsSync(positionOf(world.path)))
  world.mayRead = true
  world.kept = async () => {}
  await world.reader.reset()
  const before = world.settled.length
  await world.reader.readAll()
  t.equal(world.settled.length - before, 3_500, 'its lines are read again')
})

test('a response whose id has been forgotten is not counted again', async (t) => {
  const { reader, settled, forgotten, clock, write, line, path, problems } = createWorld(t)
  write(line('1'))
  await reader.readAll()
  clock.now += 5 * minute
  write(line('2', 1_000))
  await reader.readAll()
  t.strictSame(forgotten, [clock.now - 1_000 - 130_000])
  copyFileSync(path, `${path}.1`)
  truncateSync(path)
  await reader.readAll()
  t.strictSame(settled, ['1', '2', '2'], 'the counters know 2, but no longer 1')
  t.match(problems, [/may have been counted before/])
  t.equal(reader.stats.skipped, 1)
  clock.now += 30_000
  await reader.readAll()
  t.equal(forgotten.length, 1, 'at most once a minute')
  clock.now += 5 * minute
  await reader.readAll()
  t.equal(forgotten.length, 1, 'nor without new lines')
})

test('after a clock is set back, what ends is read', async (t) => {
  const { reader, settled, forgotten, clock, write, line, problems } = createWorld(t)
  write(line('1'))
  await reader.readAll()
  clock.now += 5 * minute
  write(line('2'))
  await reader.readAll()
  t.equal(forgotten.length, 1)
  clock.now -= 60 * minute
  write(line('3'), line('4', minute), line('5', 5 * minute))
  await reader.readAll()
  t.strictSame(settled, ['1', '2', '3', '4'])
  t.match(problems, [/may have been counted before/])
  clock.now += 5 * minute
  write(line('6'))
  await reader.readAll()
  t.equal(settled.at(-1), '6')
  t.equal(forgotten.length, 1, 'nothing is forgotten meanwhile')
})

test('if Envoy’s clock is behind, ids are forgotten later', async (t) => {
  const { reader, forgotten, clock, write, line } = createWorld(t)
  clock.now += 5 * minute
  write(line('1', 4 * minute))
  await reader.readAll()
  t.strictSame(forgotten, [])
  clock.now += 5 * minute
  write(line('2', 4 * minute))
  await reader.readAll()
  t.strictSame(forgotten, [clock.now - 4 * minute - 130_000])
})

test('what will be forgotten is saved first', async (t) => {
  const { reader, clock, write, line, position, path } = createWorld(t)
  write(line('1'))
  await reader.readAll()
  clock.now += 5 * minute
  write(line('2'))
  await reader.readAll()
  t.equal(position().forgottenBefore, clock.now - 130_000)
  const [file] = await listJournal(path)
  const old = { ...position(), places: [{ ...position().places[0], offset: 0 }] }
  writeFileSync(positionOf(path), JSON.stringify(old))
  const second = createWorld(t, { path, clock })
  await second.reader.readAll()
  t.strictSame(second.settled, ['2'])
  t.ok(file && second.reader.isDone(file))
})

test('without a position only recent lines are counted', async (t) => {
  for (const content of [undefined, '', '{}', 'null', '{"places":[7],"forgottenBefore":0}']) {
    const { reader, settled, write, line, path, problems } = createWorld(t)
    rmSync(path, { force: true })
    write(line('old', 131_000), line('young', 129_000))
    if (content === undefined) rmSync(positionOf(path), { force: true })
    else writeFileSync(positionOf(path), content)
    await reader.readAll()
    t.strictSame(settled, ['young'], String(content))
    t.equal(problems.length, 1)
  }
})

test('drafts of killed processes are removed', async (t) => {
  const { path, reader, write, line } = createWorld(t)
  write(line('1'))
  const [old, others] = [
    ['.position.17', '.name.0123456789abcdef'],
    ['.position.18', '.name', '.position.x', '.1'],
  ]
  for (const each of [...old, ...others]) writeFileSync(path + each, '')
  const hourAgo = Date.now() / 1_000 - 3_600
  for (const each of [...old, '.name']) utimesSync(path + each, hourAgo, hourAgo)
  await reader.readAll()
  t.strictSame(
    old.filter((each) => existsSync(path + each)),
    [],
  )
  t.strictSame(
    others.filter((each) => existsSync(path + each)),
    others,
    'a recent draft may be in use, and other files stay',
  )
})

test('a response that ended more than a day ago is not counted', async (t) => {
  const { reader, settled, clock, write, line, problems } = createWorld(t)
  await reader.readAll()
  write(line('0'))
  await reader.readAll()
  const [old, young] = [line('old', -1), line('young', -minute)]
  clock.now += 86_400_000 + 1
  write(old, young)
  await reader.readAll()
  t.strictSame(settled, ['0', 'young'])
  t.match(problems, [/more than a day ago/])
})

test('invalid lines are reported once', async (t) => {
  const { reader, settled, write, line, problems } = createWorld(t)
  write('nonsense\n', 'more\n', line('1').slice(0, 30), line('2'), 'x'.repeat(99_999), '\n')
  write(line('3'))
  await reader.readAll()
  t.strictSame(settled, ['2', '3'])
  t.equal(problems.length, 2)
  t.match(reader.stats, { skipped: 3 })
})

test('no order of renames loses a line', async (t) => {
  const random = createRandom()
  t.comment(`SEED=${random.seed}`)
  let world = createWorld(t)
  const settled: string[] = []
  let written = 0
  for (let step = 0; step < 400; step += 1) {
    const what = random.below(8)
    if (what === 0 && existsSync(world.path)) world.rotate(`.${step}`)
    else if (what === 1) {
      // The process dies, and another one takes its place.
      settled.push(...world.settled)
      world.settled.length = 0
      await world.reader.reset()
      world = createWorld(t, { path: world.path, clock: world.clock })
    } else if (what < 5) await world.reader.readAll()
    else {
      for (let lines = random.below(40); lines > 0; lines -= 1)
        world.write(world.line(String(written++)))
    }
  }
  await world.reader.readAll()
  settled.push(...world.settled)
  t.strictSame(
    settled.map(Number).sort((a, b) => a - b),
    Array.from({ length: written }, (_, i) => i),
  )
})

test('every line is counted, whatever happens to the files', async (t) => {
  const random = createRandom()
  t.comment(`SEED=${random.seed}`)
  let world = createWorld(t)
  const told = new Set<string>()
  const written = new Set<string>()
  const { path, clock } = world
  const collect = (): void => {
    for (const id of world.settled.splice(0)) told.add(id)
  }
  const acts: readonly (() => unknown)[] = [
    () => existsSync(path) && world.rotate(`.${clock.now}`),
    () => {
      // As logrotate does with copytruncate.
      if (!existsSync(path)) return
      copyFileSync(path, `${path}-${clock.now}`)
      truncateSync(path)
      clock.now += 1_000
    },
    async () => {
      collect()
      await world.reader.reset()
      world = createWorld(t, { path, clock })
    },
    async () => {
      // A turn that ends during the reading and comes back.
      world.mayRead = false
      await world.reader.readAll()
      world.mayRead = true
      await world.reader.reset()
    },
    // Invalid lines, complete or cut off by the next one, and an overlong one.
    () => world.write(random.bytes(random.below(99)).toString('latin1').replaceAll('{"id":', '')),
    () => world.write('x'.repeat(random.below(200_000)), '\n'),
    () => world.write(world.line('torn').slice(0, 7 + random.below(50))),
  ]
  for (let step = 0; step < 250; step += 1) {
    for (let lines = random.below(20); lines > 0; lines -= 1) {
      const id = `${step}-${lines}`
      written.add(id)
      world.write(world.line(id))
    }
    if (random.below(3) === 0) await acts[random.below(acts.length)]?.()
    if (random.below(3) === 0) await world.reader.readAll()
  }
  await world.reader.readAll()
  collect()
  t.strictSame(
    [...written].filter((id) => !told.has(id)),
    [],
  )
  t.strictSame(
    [...told].filter((id) => !written.has(id)),
    [],
    'nothing else is counted',
  )
})
