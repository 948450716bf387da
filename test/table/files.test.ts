import * as fs from 'node:fs'
import { join } from 'node:path'
import { test } from 'tap'
import { journalFilesOf } from '../../src/journal/journal-files.ts'
import { inSlices } from '../../src/runtime/slices.ts'
import { createTableFiles } from '../../src/table/files.ts'
import { blocksIn, createTableWorld, grantOf, type TableWorld } from '../support/table-world.ts'
import { memoryFolder } from '../support/temporary-folder.ts'

const hourly = grantOf('alice', [[1_000, '1h']])

/** Waits until the table is made anew, which is at most once in a second. */
async function reopened(world: TableWorld): Promise<void> {
  const { file } = world.table.stats().isOpen
    ? (world.reader.readHead() ?? { file: 0 })
    : { file: 0 }
  world.pass(1_200)
  await world.opened()
  if (world.reader.readHead()?.file === file) throw new Error('the same file')
}

test('files are private, whole and of one pair', async (t) => {
  const { folder, reader } = await createTableWorld(t)
  t.strictSame(fs.readdirSync(folder).sort(), ['usage.lanes', 'usage.table'])
  for (const name of ['usage.table', 'usage.lanes']) {
    const { mode, size, blocks } = fs.statSync(join(folder, name))
    t.equal(mode & 0o777, 0o600)
    t.ok(blocks * 512 >= size, 'no byte of it is missing')
  }
  t.match(reader.readHead(), { lanes: 4, generation: 1 })
})

test('the group may use the files where it may connect', async (t) => {
  const { folder } = await createTableWorld(t, { mode: 0o660 })
  t.equal(fs.statSync(join(folder, 'usage.lanes')).mode & 0o777, 0o660)
})

for (const [what, happen] of [
  ['deleted', (path: string) => fs.rmSync(path)],
  ['replaced', (path: string) => fs.renameSync(copyOf(path), path)],
  ['truncated', (path: string) => fs.truncateSync(path, 100)],
  ['emptied', (path: string) => fs.truncateSync(path, 0)],
  ['made longer', (path: string) => fs.appendFileSync(path, 'x')],
  ['with another head', (path: string) => fs.writeFileSync(path, Buffer.alloc(96), { flag: 'r+' })],
  ['a folder', becomeFolder],
] as const) {
  for (const name of ['usage.table', 'usage.lanes']) {
    test(`${name}, ${what}, is made anew`, async (t) => {
      const world = await createTableWorld(t)
      const before = world.reader
      world.admit(hourly)
      happen(join(world.folder, name))
      world.table.beat()
      t.equal(before.decide(['sk-one', '/llm/small/v1/chat/completions'], world.now), 'closed')
      t.equal(world.admit(hourly), undefined)
      if (what === 'a folder') {
        // Nothing but an operator gets rid of it.
        world.pass(1_200)
        while (world.faults.length === 0) await new Promise((next) => setImmediate(next))
        t.notOk(world.table.stats().isOpen)
        fs.rmSync(join(world.folder, name), { recursive: true })
        world.pass(11_000)
      }
      await reopened(world)
      world.admit(hourly)
      t.strictSame(world.used(), [0])
    })
  }
}

function becomeFolder(path: string): void {
  fs.rmSync(path)
  fs.mkdirSync(`${path}/x`, { recursive: true })
}

function copyOf(path: string): string {
  fs.copyFileSync(path, `${path}.copy`)
  return `${path}.copy`
}

test('records that others have broken are asked about', async (t) => {
  const world = await createTableWorld(t)
  world.admit(hourly)
  const file = fs.openSync(join(world.folder, 'usage.table'), 'r+')
  t.teardown(() => fs.closeSync(file))
  fs.writeSync(file, Buffer.alloc(200, 7), 0, 200, 4_096 + 40)
  for (let at = 4_096; at < 4_096 + 100 * 2_048; at += 256) {
    fs.writeSync(file, Buffer.from([9, 9, 9]), 0, 3, at + 100)
  }
  t.equal(world.decide(), 'unknown')
  world.admit(hourly)
  t.strictSame(world.used(), [0])
})

test('what was counted before files were made anew is in offsets', async (t) => {
  const world = await createTableWorld(t)
  const blocks = blocksIn(world.admit(hourly))
  const [read, unread] = [world.end(blocks, 300), world.end(blocks, 200)]
  world.count(read, 300, hourly)
  fs.rmSync(join(world.folder, 'usage.lanes'))
  world.table.beat()
  await reopened(world)
  world.admit(hourly)
  t.strictSame(world.used(), [300])
  world.count(unread, 200, hourly)
  t.strictSame(world.used(), [500])
})

test('a process that is no writer any more leaves the table', async (t) => {
  const world = await createTableWorld(t)
  world.admit(hourly)
  world.state.isWriter = false
  world.table.beat()
  t.equal(world.decide(), 'closed')
  t.equal(world.admit(hourly), undefined)
  await world.table.suspend()
  world.table.withdraw(['hash-one'])
  world.table.resume()
  world.state.isWriter = true
  await reopened(world)
  world.admit(hourly)
  t.strictSame(world.used(), [0])
})

test('a process that is replaced while it creates files leaves those of the new writer', async (t) => {
  const writer = await createTableWorld(t)
  writer.admit(hourly)
  const paths = journalFilesOf(join(writer.folder, 'usage.jsonl'))
  const sizes = { buckets: 10, blocks: 10, templates: 10, lanes: 4 }
  const head = { ...sizes, generation: 1, file: 7, lease: 0, clock: 0 }
  const before = fs.readdirSync(writer.folder)
  t.equal(await inSlices(createTableFiles(paths, 0o600, head, () => false)), undefined)
  t.strictSame(fs.readdirSync(writer.folder), before, 'no draft is left')
  writer.table.beat()
  t.strictSame(writer.used(), [0])
})

test('nothing is decided by a copy of what was withdrawn', async (t) => {
  const withdrawals = {
    'a key': ({ table }: TableWorld) => table.withdraw(['hash-one']),
    'all keys': ({ table }: TableWorld) => table.withdrawAll(),
    'all decisions': ({ table }: TableWorld) => table.suspend().then(table.resume),
  }
  for (const [name, withdraw] of Object.entries(withdrawals)) {
    const world = await createTableWorld(t)
    world.admit(hourly)
    const path = join(world.folder, 'usage.table')
    fs.renameSync(copyOf(path), path)
    const reader = fs.openSync(path, 'r')
    await withdraw(world)
    t.equal(fs.fstatSync(reader).size, 0, `${name}: nor by whoever has it open`)
    fs.closeSync(reader)
    t.equal(world.decide(), 'closed', name)
    await reopened(world)
    world.admit(hourly)
    t.strictSame(world.used(), [0])
  }
})

test('of two writers the later one has the table', async (t) => {
  const first = await createTableWorld(t)
  first.admit(hourly)
  const second = await createTableWorld(t, { folder: first.folder })
  second.admit(hourly)
  t.strictSame(second.used(), [0])
  t.strictSame(first.used(), [0], 'whoever has the file of before open still decides')
  first.table.withdraw(['hash-one'])
  t.equal(first.decide(), 'closed', 'and asks once something is withdrawn there')
  first.state.isWriter = false
  first.table.beat()
  t.equal(first.decide(), 'closed')
  second.table.beat()
  t.strictSame(second.used(), [0])
  t.equal(second.faults.length + first.faults.length, 0)
})

test('two that both write do not end each other', async (t) => {
  const first = await createTableWorld(t)
  const second = await createTableWorld(t, { folder: first.folder })
  for (let i = 0; i < 20; i += 1) {
    for (const world of [first, second]) {
      world.pass(200)
      await new Promise((next) => setTimeout(next, 2))
    }
  }
  first.state.isWriter = false
  first.table.beat()
  second.pass(1_200)
  await second.opened()
  second.admit(hourly)
  t.strictSame(second.used(), [0])
})

test('a clock that was set makes all files anew', async (t) => {
  for (const by of [-3_600_000, 60_000, 150]) {
    const world = await createTableWorld(t)
    world.admit(hourly)
    world.pass(1_000)
    world.now.real += by
    if (Math.abs(by) >= 500) t.equal(world.decide(), 'clock')
    world.table.beat()
    t.equal(world.decide(), 'closed')
    await reopened(world)
    world.admit(hourly)
    t.strictSame(world.used(), [0])
  }
})

test('a machine that was suspended has no lease', async (t) => {
  const world = await createTableWorld(t)
  world.admit(hourly)
  world.now.real += 60_000
  world.now.boot += 60_000
  t.equal(world.decide(), 'closed')
  world.table.beat()
  t.equal(world.decide(), 'stale', 'no record has lived so long')
})

test('what fails to be read or written is not decided by', async (t) => {
  let isBroken = false
  const faults: unknown[] = []
  const world = await createTableWorld(t, {
    isWriter: () => true,
    mayServe: () => true,
    keyLeaseLeftMs: () => 60_000,
    readWindow(counter, at) {
      if (isBroken) throw new Error('broken')
      return world.readWindow(counter, at)
    },
    onFault: (error) => faults.push(error),
  })
  await world.opened()
  world.admit(hourly)
  isBroken = true
  t.equal(world.admit(hourly), undefined)
  t.equal(world.decide(), 'closed')
  t.match(faults, [{ message: 'broken' }])
  isBroken = false
  world.pass(9_000)
  t.notOk(world.table.stats().isOpen, 'not at once again')
  world.pass(1_200)
  await world.opened()
  world.admit(hourly)
  t.strictSame(world.used(), [0])
})

test('without a folder it is tried again', async (t) => {
  const folder = join(memoryFolder(t), 'later')
  const world = await createTableWorld(t, { folder, isWriter: () => true })
  world.table.beat()
  while (world.faults.length === 0) await new Promise((next) => setImmediate(next))
  fs.mkdirSync(folder)
  world.pass(11_000)
  await world.opened()
  t.equal(world.faults.length, 1)
})

test('a closed table is never opened again', async (t) => {
  const world = await createTableWorld(t)
  world.admit(hourly)
  world.table.close()
  t.equal(world.decide(), 'closed')
  world.pass(2_000)
  await new Promise((next) => setTimeout(next, 20))
  t.notOk(world.table.stats().isOpen)
  world.table.withdraw(['hash-one'])
  await world.table.suspend()
})
