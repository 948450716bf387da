import { mkdirSync, readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'tap'
import { type ExactInt, maxExactInt } from '../../src/formats/exact.ts'
import { createCheckpoint, type KeptState } from '../../src/journal/checkpoint.ts'
import { openDurableFiles } from '../../src/journal/durable-files.ts'
import type { OwnSum } from '../../src/ratelimit/rules/sums.ts'
import { Disk, Killed, keptOf, type Life } from '../ratelimit/sums/model.ts'
import { makeTemporaryFolder } from '../support/temporary-folder.ts'

const names = ['usage.jsonl', 'usage.envoy.jsonl']
const windows = { since: 1_000, end: 61_000, ms: 60_000 }
const one: OwnSum = { id: 'a\nb\nc@1000', ...windows, sum: 40, base: 2 }

/** With so many windows, each of this sum, and this much read. */
function stateOf(count: number, sum: ExactInt): KeptState {
  return {
    position: new Map([['f00d', Number(sum)]]),
    own: Array.from({ length: count }, (_, i) => ({ ...one, id: `${i}@1000`, sum })),
    resets: new Map([
      [
        'a\nb\nc',
        [
          { at: 7, used: 0 },
          { at: 9, used: 2n ** 53n + 1n },
        ],
      ],
    ]),
  }
}

test('a checkpoint is loaded as it was saved', async (t) => {
  const folder = makeTemporaryFolder()
  t.teardown(() => folder.remove())
  const path = join(folder.path, 'below')
  const files = openDurableFiles(path)
  const checkpoint = createCheckpoint(files, 'usage.sums', names, 'first')
  t.strictSame(await checkpoint.load([]), { position: new Map(), own: [], resets: new Map() })
  const large = { ...one, id: 'large@1000', sum: 2n ** 53n + 1n, base: maxExactInt }
  const state = { ...stateOf(2_000, 5), own: [...stateOf(2_000, 5).own, large, one] }
  t.strictSame(await checkpoint.save(() => state), state.position)
  const heir = createCheckpoint(files, 'usage.sums', names, 'second')
  t.strictSame(await heir.load(['first']), state)
  await checkpoint.noteBase(one, 2n ** 53n + 3n)
  await checkpoint.noteBase(one, 12)
  writeFileSync(join(path, readdirSync(path)[0] as string), '["sum","torn', { flag: 'a' })
  const { own } = await heir.load([])
  t.strictSame(own.at(-1), { ...one, base: 2n ** 53n + 3n }, 'the highest of three')
  // As after a write that filled the disk.
  await checkpoint.noteBase(one, maxExactInt)
  t.strictSame(
    (await heir.load([])).own.at(-1)?.base,
    maxExactInt,
    'what follows a torn line counts',
  )
})

test('a checkpoint that is replaced while it is loaded is not taken for none', async (t) => {
  const folder = makeTemporaryFolder()
  t.teardown(() => folder.remove())
  const files = openDurableFiles(folder.path)
  const earlier = createCheckpoint(files, 'usage.sums', names, 'earlier')
  await earlier.save(() => stateOf(1, 5))
  const writer = createCheckpoint(files, 'usage.sums', names, 'writer')
  await writer.load([])
  let isReplaced = false
  const replacing = {
    ...files,
    async read(name: string) {
      if (!isReplaced) {
        isReplaced = true
        await writer.save(() => stateOf(1, 6))
        await writer.removeEarlier()
      }
      return await files.read(name)
    },
  }
  const heir = createCheckpoint(replacing, 'usage.sums', names, 'heir')
  t.strictSame(await heir.load(['writer', 'earlier']), stateOf(1, 6))
  writeFileSync(join(folder.path, 'usage.sums.9.empty'), '')
  t.strictSame((await heir.load([])).own, [], 'nor is it waited for without end')
})

test('nothing is added to a checkpoint that is not there', async (t) => {
  const folder = makeTemporaryFolder()
  t.teardown(() => folder.remove())
  const checkpoint = createCheckpoint(openDurableFiles(folder.path), 'usage.sums', names, 'first')
  await t.rejects(checkpoint.noteBase(one, 12))
  t.strictSame(readdirSync(folder.path), [])
})

test('what is saved is what was there at its turn', async (t) => {
  const folder = makeTemporaryFolder()
  t.teardown(() => folder.remove())
  const checkpoint = createCheckpoint(openDurableFiles(folder.path), 'usage.sums', names, 'first')
  const state = stateOf(3_000, 5)
  const saving = checkpoint.save(() => state)
  await new Promise(setImmediate)
  for (const each of state.own) Object.assign(each, { sum: 6 })
  state.position.set('f00d', 6)
  await saving
  t.strictSame(await checkpoint.load([]), stateOf(3_000, 5))
})

test('killed at any step a process leaves the old state or the new one', async (t) => {
  let steps = 1
  for (let at = 1; at <= steps; at += 1) {
    const disk = new Disk()
    const old = createCheckpoint(
      keptOf(disk, immortal, () => false),
      'usage.sums',
      names,
      'old',
    )
    await old.save(() => stateOf(600, 1))
    let seen = 0
    const life: Life = {
      isDead: false,
      strike() {
        seen += 1
        life.isDead ||= seen === at
        if (life.isDead) throw new Killed()
      },
    }
    const next = createCheckpoint(
      keptOf(disk, life, () => false),
      'usage.sums',
      names,
      'next',
    )
    await next
      .load(['old'])
      .then(() => next.save(() => stateOf(600, 2)))
      .then(() => next.removeEarlier())
      .catch(() => {})
    // It has got further than its last step: there is another one.
    if (life.isDead) steps = at + 1
    const heir = createCheckpoint(
      keptOf(disk, immortal, () => false),
      'usage.sums',
      names,
      'heir',
    )
    const found = await heir.load(['next', 'old'])
    const [sum = 0] = found.own.map((each) => each.sum)
    t.strictSame(found, stateOf(600, sum), `step ${at}`)
    t.ok(sum === 1 || sum === 2)
  }
  t.ok(steps > 10, `${steps} steps`)
})

const immortal: Life = { isDead: false, strike() {} }

test('a writer that has lost its place puts nothing over the next one', async (t) => {
  const disk = new Disk()
  const files = keptOf(disk, immortal, () => false)
  const [first, second, third] = ['first', 'second', 'third'].map((nonce) => {
    return createCheckpoint(files, 'usage.sums', names, nonce)
  }) as [Checkpoint, Checkpoint, Checkpoint]
  await first.load([])
  await first.save(() => stateOf(1, 1))
  await second.load(['second', 'first'])
  await second.save(() => stateOf(1, 3))
  await second.removeEarlier()
  await first.save(() => stateOf(1, 2))
  await first.removeEarlier()
  t.strictSame(await third.load(['third', 'second', 'first']), stateOf(1, 3))
  t.strictSame(await third.load([]), stateOf(1, 3), 'the list of writers was lost')
})

type Checkpoint = ReturnType<typeof createCheckpoint>

test('of two that began with the same the later writer is believed', async (t) => {
  const files = keptOf(new Disk(), immortal, () => false)
  for (const [nonce, sum] of [
    ['b', 2],
    ['a', 1],
  ] as const) {
    const checkpoint = createCheckpoint(files, 'usage.sums', names, nonce)
    await checkpoint.save(() => stateOf(1, sum))
  }
  const heir = createCheckpoint(files, 'usage.sums', names, 'c')
  t.strictSame(await heir.load(['c', 'b', 'a']), stateOf(1, 2))
})

test('what is no checkpoint is passed over', async (t) => {
  const folder = makeTemporaryFolder()
  t.teardown(() => folder.remove())
  mkdirSync(join(folder.path, 'usage.sums.9.folder'))
  for (const name of ['usage.sums', 'usage.sums.x.y', 'usage.sums.8.dead.7.tmp', 'other.1.a']) {
    writeFileSync(join(folder.path, name), '["sum","a@1",1,2,1,9,9]\n')
  }
  const checkpoint = createCheckpoint(openDurableFiles(folder.path), 'usage.sums', names, 'me')
  await checkpoint.save(() => stateOf(1, 1)).catch(() => {})
  t.match(readdirSync(folder.path), /usage\.sums\.1\.me/)
})
