import {
  appendFileSync,
  copyFileSync,
  renameSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { type Test, test } from 'tap'
import { fileHeadOf } from '../../src/journal/file-head.ts'
import { createJournalFollower, endMark } from '../../src/journal/follower.ts'
import { openJournalFolder } from '../../src/journal/journal-folder.ts'
import { inSlices } from '../../src/runtime/slices.ts'
import { makeTemporaryFolder } from '../support/temporary-folder.ts'

const name = 'usage.jsonl'
const renamedAt = 1_795_000_000_000

interface World {
  readonly path: string
  at(file: string): string
  position: Map<string, number>
  now: number
  readonly lines: string[]
  /** Heads of files that have lost a line. */
  readonly lost: string[]
  write(text: string, file?: string): void
  rename(to: number): void
  /** Another process, which goes on from this position. */
  restart(from?: ReadonlyMap<string, number>): void
  /** What is new since the last time. */
  read(): Promise<readonly string[]>
  follower: ReturnType<typeof createJournalFollower>
}

/** A folder with a follower of its file, what it has taken, and its time. */
function follow(t: Test): World {
  const folder = makeTemporaryFolder()
  t.teardown(() => folder.remove())
  const at = (file: string): string => join(folder.path, file)
  const create = () =>
    createJournalFollower({
      ...{ folder: openJournalFolder(folder.path), names: [name] },
      position: world.position,
      onLine: (line) => world.lines.push(line),
      onLost: (head) => world.lost.push(head),
      now: () => world.now,
    })
  const world: World = {
    path: at(name),
    at,
    position: new Map(),
    now: renamedAt,
    lines: [],
    lost: [],
    write: (text, file = name) => appendFileSync(at(file), text),
    rename: (to) => renameSync(at(name), at(`${name}.${to}`)),
    restart(from = world.position) {
      world.position = new Map(from)
      world.follower = create()
    },
    async read() {
      await inSlices(world.follower.readAll())
      return world.lines.splice(0)
    },
    follower: undefined as never,
  }
  world.follower = create()
  t.teardown(() => world.follower.close())
  return world
}

test('each whole line is taken once', async (t) => {
  const { write, read } = follow(t)
  t.strictSame(await read(), [], 'no file yet')
  write('\none\n')
  write('\ntwo\n')
  t.strictSame(await read(), ['one', 'two'])
  write('\nthr')
  t.strictSame(await read(), [])
  write('ee\n\n\n')
  t.strictSame(await read(), ['three'])
})

test('a torn line takes no other one with it', async (t) => {
  const { write, read } = follow(t)
  write('\none\n\n{"id":"tor')
  write('\ntwo\n')
  t.strictSame(await read(), ['one', '{"id":"tor', 'two'])
  write('\nlacks only its end')
  t.strictSame(await read(), [])
  write('\nthree\n')
  t.strictSame(await read(), ['lacks only its end', 'three'])
})

test('the ends of files are taken without looking for new ones', async (t) => {
  const world = follow(t)
  world.write('\none\n')
  await world.read()
  world.write('\ntwo\n')
  world.follower.readEnds(65_536)
  t.strictSame(world.lines.splice(0), ['two'])
  world.write(`\n${'x'.repeat(4_000)}\n`.repeat(100))
  world.follower.readEnds(100_000)
  const first = world.lines.splice(0).length
  t.ok(first >= 24 && first < 50, `${first} lines at once`)
  t.equal((await world.read()).length, 100 - first)
})

test('a renamed file is read on', async (t) => {
  const world = follow(t)
  world.write('\none\n')
  await world.read()
  world.rename(renamedAt)
  world.write('\ntwo\n', `${name}.${renamedAt}`)
  world.write('\nthree\n')
  t.strictSame((await world.read()).toSorted(), ['three', 'two'])
  world.write('\nfour\n', `${name}.${renamedAt}`)
  world.follower.readEnds(65_536)
  t.strictSame(world.lines.splice(0), ['four'], 'a thread that was idle had it open')
  world.restart()
  t.strictSame(await world.read(), [], 'known by their first lines')
})

test('who has read the end of a renamed file knows of the next one', async (t) => {
  const world = follow(t)
  world.write('\none\n')
  await world.read()
  for (const [i, torn] of ['', '\ntor', '\n'].entries()) {
    world.write(torn)
    const earlier = `${name}.${renamedAt + i}`
    world.rename(renamedAt + i)
    world.write(endMark.slice(0, 2), earlier)
    world.follower.readEnds(65_536)
    world.write(endMark.slice(2), earlier)
    world.write(`\nlate ${i}\n`, earlier)
    world.write(`\nnext ${i}\n`)
    world.follower.readEnds(65_536)
    t.strictSame(world.lines.splice(0), [
      ...(torn.length > 1 ? ['tor'] : []),
      `late ${i}`,
      `next ${i}`,
    ])
  }
})

test('says which files are read, and which of them grows', async (t) => {
  const world = follow(t)
  world.write('')
  await world.read()
  t.strictSame(world.follower.files(), [], 'none without a line')
  world.write('\none\n')
  await world.read()
  t.match(world.follower.files(), [{ isCurrent: true, isRead: true }])
  world.rename(renamedAt)
  world.write('\ntwo\n\nthr', `${name}.${renamedAt}`)
  world.follower.readEnds(1)
  t.match(world.follower.files(), [{ isCurrent: true }], 'as it was listed last')
  await world.read()
  t.match(world.follower.files(), [{ isCurrent: false, isRead: true }])
  rmSync(world.at(`${name}.${renamedAt}`))
  await world.read()
  t.equal(world.follower.files().length, 1, 'it may still be written')
})

test('a file that was removed is read to its end', async (t) => {
  const world = follow(t)
  world.write('\none\n')
  await world.read()
  world.write('\ntwo\n')
  rmSync(world.path)
  t.strictSame(await world.read(), ['two'])
})

test('of two files with the same lines the longer one is read', async (t) => {
  const world = follow(t)
  world.write('\none\n\ntwo\n')
  await world.read()
  copyFileSync(world.path, world.at(`${name}.${renamedAt}`))
  world.write('\nthree\n')
  t.strictSame(await world.read(), ['three'])
  world.restart()
  t.strictSame(await world.read(), [])
  world.write('\nfour\n')
  t.strictSame(await world.read(), ['four'])
})

test('a file that was put back is known', async (t) => {
  const world = follow(t)
  world.write('\none\n')
  await world.read()
  renameSync(world.path, world.at('elsewhere'))
  world.write('\ntwo\n')
  t.strictSame(await world.read(), ['two'])
  world.now += 61_000
  await world.read()
  world.follower.tidy(world.position, 0)
  renameSync(world.at('elsewhere'), world.at(`${name}.${renamedAt}`))
  t.strictSame(await world.read(), [])
})

test('a file that was emptied and is as long as before is read', async (t) => {
  const world = follow(t)
  world.write('\none\n')
  t.strictSame(await world.read(), ['one'])
  writeFileSync(world.path, '\ntwo\n')
  t.strictSame(await world.read(), ['two'])
})

test('an older state of a file is not read again', async (t) => {
  const world = follow(t)
  world.write('\none\n\ntwo\n')
  await world.read()
  truncateSync(world.path, '\none\n'.length)
  t.strictSame(await world.read(), [])
  t.equal(world.lost.length, 1, 'what it lacks is told')
  world.write('\nthree\n')
  t.strictSame(await world.read(), ['three'])
  writeFileSync(world.path, '\nanother\n')
  t.strictSame(await world.read(), ['another'])
})

test('an overlong line is none', async (t) => {
  const { write, read, lost } = follow(t)
  write(`\none\n\n${'x'.repeat(200_000)}`)
  t.strictSame(await read(), ['one'])
  write(`${'x'.repeat(70_000)}\n\ntwo\n`)
  t.strictSame(await read(), ['two'])
  t.equal(lost.length, 1)
})

test('only renamed files are removed that were saved whole, a minute later', async (t) => {
  const world = follow(t)
  world.write('\none\n')
  await world.read()
  world.rename(renamedAt)
  world.write('\ntwo\n')
  const before = new Map(world.position)
  await world.read()
  const there = () => openJournalFolder(world.at('.')).list().length
  world.follower.tidy(world.position, 0)
  t.equal(there(), 2, 'a thread may still write it')
  world.now += 60_000
  world.write('\nlate\n', `${name}.${renamedAt}`)
  world.follower.tidy(before, 0)
  t.equal(there(), 2, 'its last line was not saved')
  t.strictSame(await world.read(), ['late'])
  world.follower.tidy(world.position, 1)
  t.equal(there(), 2, 'the newest are kept')
  world.follower.tidy(world.position, 0, (_, newer) => newer > 0)
  t.equal(there(), 2, 'another reader needs it')
  world.follower.tidy(world.position, 0)
  t.equal(there(), 1)
})

test('a torn line at the end of a renamed file keeps nobody from removing it', async (t) => {
  const world = follow(t)
  world.write('\none\n\ntor')
  await world.read()
  world.rename(renamedAt)
  await world.read()
  t.match(world.follower.files(), [{ isRead: true, size: 9 }])
  world.now += 61_000
  world.follower.tidy(world.position, 0)
  t.strictSame(openJournalFolder(world.at('.')).list(), [])
})

test('files of others are left alone', async (t) => {
  const world = follow(t)
  world.write('\nno\n', `${name}.gz`)
  world.write('\nno\n', 'usage.envoy.jsonl')
  world.write('\nno\n', `${name}.1`)
  t.strictSame(await world.read(), [])
})

test('a first line identifies a file once it is whole', async (t) => {
  t.equal(fileHeadOf(Buffer.from('')), '')
  t.equal(fileHeadOf(Buffer.from('\n\n{"id"')), '')
  const head = fileHeadOf(Buffer.from('\n\n{"id":1}\n'))
  t.match(head, /^[0-9a-f]{16}$/)
  t.equal(fileHeadOf(Buffer.from('{"id":1}\nmore')), head)
  t.equal(fileHeadOf(Buffer.from('\n{"i\n')), '', 'the beginning of a line has no id')
  t.equal(fileHeadOf(Buffer.from('\n{"i\n{"i\n\n{"id":1}\n')), head)
  const long = Buffer.alloc(5_000, 'x')
  t.equal(fileHeadOf(long.subarray(0, 4_095)), '')
  t.equal(fileHeadOf(long.subarray(0, 4_096)), fileHeadOf(long.subarray(0, 4_096)))
  t.not(fileHeadOf(long.subarray(0, 4_096)), '')
})
