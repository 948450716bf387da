import { queryObjects } from 'node:v8'
import { type Test, test } from 'tap'
import { createRandom } from '../support/random.ts'
import { blocksIn, createTableWorld, grantOf, type TableWorld } from '../support/table-world.ts'

const hourly = grantOf('alice', [[1_000, '1h']])
const minutely = grantOf('alice', [
  [1_000, '1m'],
  [5_000, '1h'],
])

/** The end of the window that the first limit is in. */
function endOf(world: TableWorld): number {
  return world.reader.block(0)?.cells[0]?.end ?? 0
}

test('a response is seen before its line is read', async (t) => {
  const world = await createTableWorld(t)
  const blocks = blocksIn(world.admit(hourly))
  const lines = [world.end(blocks, 300), world.end(blocks, 200, 1)]
  t.strictSame(world.used(), [500])
  for (const [i, line] of lines.entries()) {
    world.count(line, [300, 200][i] as number, hourly)
    t.strictSame(world.used(), [500])
  }
})

test('a sequential client gets exactly its limit', async (t) => {
  const world = await createTableWorld(t)
  const blocks = blocksIn(world.admit(hourly))
  let responses = 0
  while (typeof world.decide() !== 'string') {
    world.end(blocks, 100, responses % 4)
    responses += 1
  }
  t.equal(responses, 10)
  t.equal(world.decide(), 'limit')
})

test('a line that was charged what it added changes nothing', async (t) => {
  const world = await createTableWorld(t)
  const blocks = blocksIn(world.admit(minutely))
  const before = world.reader.block(0)
  for (let i = 0; i < 5; i += 1) world.count(world.end(blocks, 10), 10, minutely)
  t.strictSame(world.reader.block(0), before)
  t.strictSame(world.used(), [50, 50])
})

test('every other line is counted at once', async (t) => {
  const world = await createTableWorld(t)
  const blocks = blocksIn(world.admit(hourly))
  world.count(world.end(blocks, 100), 140, hourly)
  t.strictSame(world.used(), [140], 'charged more than it added')
  world.count(world.end(blocks, 100), 60, hourly)
  t.strictSame(world.used(), [200], 'charged less')
  world.count(world.end(blocks, 50), 0, hourly)
  t.strictSame(world.used(), [200], 'charged nothing')
  world.count(world.end(blocks, 0), 25, hourly)
  t.strictSame(world.used(), [225], 'added nothing')
  const foreign = world.end(blocks, 0)
  world.count({ ...foreign, lane: { file: 1, added: 5, blocks } }, 5, hourly)
  t.strictSame(world.used(), [230], 'added to the lanes of other files')
  const running = world.end(blocks, 10)
  world.count({ ...running, state: 'running' }, 0, hourly)
  t.strictSame(world.used(), [240], 'still runs')
  world.count(running, 10, hourly)
  t.strictSame(world.used(), [240])
})

test('what was used before a block is in its offset', async (t) => {
  const world = await createTableWorld(t)
  world.count(world.end([], 0), 700, hourly)
  const blocks = blocksIn(world.admit(hourly))
  t.strictSame(world.used(), [700])
  world.end(blocks, 300)
  t.equal(world.decide(), 'limit')
})

test('limits of a key have a block of their own', async (t) => {
  const world = await createTableWorld(t)
  const caps = { tokenRateLimits: [{ limit: 100, window: '1h' }] }
  const one = grantOf('alice', [[1_000, '1h']], caps, 'one')
  const two = grantOf('alice', [[1_000, '1h']], caps, 'two')
  const blocks = blocksIn(world.admit(one))
  const others = blocksIn(world.admit(two))
  t.strictSame(
    [blocks, others],
    [
      [0, 1],
      [0, 2],
    ],
  )
  world.count(world.end(blocks, 60), 60, one)
  t.strictSame(world.used('one'), [60, 60])
  t.strictSame(world.used('two'), [60, 0])
  world.end(blocks, 40)
  t.equal(world.decide('one'), 'limit')
  t.strictSame(world.used('two'), [100, 0])
})

test('the next window begins by itself', async (t) => {
  const world = await createTableWorld(t)
  const blocks = blocksIn(world.admit(minutely))
  const line = world.end(blocks, 900)
  const { boot, real } = world.now
  Object.assign(world.now, { real: endOf(world), boot: boot + endOf(world) - real })
  world.table.beat()
  t.equal(world.decide(), 'stale', 'later than a record lives')
  world.admit(minutely)
  t.strictSame(world.used(), [0, 900])
  world.count(line, 900, minutely)
  t.strictSame(world.used(), [0, 900], 'the line of before')
})

/** Goes to just before the end of the minute and publishes. */
async function beforeEnd(t: Test, ms: number) {
  const world = await createTableWorld(t)
  world.admit(minutely)
  const left = endOf(world) - world.now.real - ms
  world.now.real += left
  world.now.boot += left
  world.table.beat()
  const blocks = blocksIn(world.admit(minutely))
  return { world, blocks, end: endOf(world) }
}

test('a window ends under a hit', async (t) => {
  const { world, blocks, end } = await beforeEnd(t, 400)
  world.count(world.end(blocks, 900), 900, minutely)
  world.pass(400)
  t.equal(world.now.real, end)
  t.strictSame(world.used(), [0, 900])
  const line = world.end(blocks, 50)
  t.strictSame(world.used(), [50, 950])
  world.count(line, 50, minutely)
  t.strictSame(world.used(), [50, 950])
  t.equal(endOf(world), end + 60_000, 'its first line tells of the window after it')
})

test('a line at the edge of its window is rather counted twice', async (t) => {
  const { world, blocks } = await beforeEnd(t, 100)
  const startedAt = world.now.real
  const addedBefore = world.end(blocks, 70)
  world.pass(200)
  const { usage } = world.end(blocks, 0)
  world.count({ ...addedBefore, usage }, 70, minutely)
  t.strictSame(world.used(), [70, 70], 'it may have been added to the window before')
  world.count(world.end(blocks, 10, 0, startedAt), 10, minutely)
  t.strictSame(world.used(), [90, 80])
})

test('after both windows that a block knows everything is asked', async (t) => {
  const world = await createTableWorld(t)
  const second = grantOf('alice', [[1_000, '1s']])
  world.admit(second)
  world.pass(2_000)
  t.equal(world.decide(), 'window')
  world.admit(second)
  t.strictSame(world.used(), [0])
})

test('a clock that was set back by little gives nothing away', async (t) => {
  const { world, blocks } = await beforeEnd(t, 100)
  world.count(world.end(blocks, 900), 900, minutely)
  world.pass(140)
  world.count(world.end(blocks, 10), 10, minutely)
  world.now.real -= 80
  t.equal(world.decide(), 'window')
  const next = blocksIn(world.admit(minutely))
  t.notSame(next, blocks, 'its lanes have another start')
  t.strictSame(world.used(), [900, 910])
})

test('others may use what is left of the upper half', async (t) => {
  const world = await createTableWorld(t)
  world.others.used = 100
  const blocks = blocksIn(world.admit(hourly))
  t.strictSame(world.used(), [100])
  world.end(blocks, 399)
  t.strictSame(world.used(), [499])
  world.end(blocks, 1)
  t.equal(world.decide(), 'limit', 'half of it is used')
})

test("others' use is known for a second", async (t) => {
  const world = await createTableWorld(t)
  Object.assign(world.others, { used: 100, ageMs: 300 })
  world.admit(hourly)
  world.now.boot += 699
  world.now.real += 699
  t.strictSame(world.used(), [100])
  world.now.boot += 1
  world.now.real += 1
  t.equal(world.decide(), 'fresh')
  Object.assign(world.others, { used: 150, ageMs: 0 })
  world.admit(hourly)
  t.strictSame(world.used(), [150])
  world.others.ageMs = -1
  world.admit(hourly)
  t.equal(world.decide(), 'fresh', 'never told')
})

test('other limits of a user are other counters', async (t) => {
  const world = await createTableWorld(t)
  const place = world.admit(hourly)
  t.notSame(world.admit(minutely), place)
  t.equal(world.reader.block(0), undefined, 'the one before is withdrawn')
  t.strictSame(world.used(), [0, 0])
})

test('no schedule gives away more than is left', async (t) => {
  for (let seed = 1; seed <= 12; seed += 1) {
    const world = await createTableWorld(t)
    const random = createRandom(seed)
    const grant = grantOf('alice', [
      [400, '1s'],
      [1_500, '1m'],
    ])
    let blocks: readonly number[] = []
    const unread: (() => void)[] = []
    /** Ends of responses with what is known of them: what was added, later what was charged. */
    const ends: { at: number; tokens: number }[] = []
    let hits = 0
    const step = () => {
      const kind = random.below(10)
      if (kind < 3) {
        const hit = world.decide()
        if (typeof hit === 'string') {
          blocks = blocksIn(world.admit(grant))
          return
        }
        hits += 1
        const spans = world.reader.block(hit.blocks[0] ?? 0)?.cells ?? []
        for (const [i, { start, end }] of spans.entries()) {
          const from = world.now.real < end ? start : end
          const real = ends.filter(({ at }) => at >= from && at <= world.now.real)
          const used = real.reduce((sum, { tokens }) => sum + tokens, 0)
          if ((hit.used[i] as number) < used) t.fail(`seed ${seed}: ${hit.used[i]} of ${used}`)
        }
      } else if (kind < 6) {
        const added = random.below(4) === 0 ? 0 : 1 + random.below(40)
        const line = world.end(blocks, added, random.below(4), world.now.real - random.below(900))
        const charged = random.below(3) === 0 ? random.below(60) : added
        const end = { at: world.now.real, tokens: line.lane === undefined ? 0 : added }
        ends.push(end)
        unread.push(() => {
          end.tokens = charged
          world.count(line, charged, grant)
        })
      } else if (kind < 9) {
        unread.splice(random.below(unread.length + 1), 1)[0]?.()
      } else {
        world.pass(random.below(500))
        if (random.below(4) === 0) world.now.real -= random.below(90)
      }
    }
    for (let i = 0; i < 600; i += 1) step()
    t.ok(hits > 10, `seed ${seed} has hits`)
    world.table.close()
  }
})

test('a block retains no buffers of others', async (t) => {
  const world = await createTableWorld(t)
  const retained = () => {
    // It collects garbage first.
    queryObjects(Map, { format: 'count' })
    return process.memoryUsage().arrayBuffers
  }
  const before = retained()
  for (let i = 0; i < 300; i += 1) {
    world.admit(grantOf(`user-${i}`, [[1_000, '1h']]))
    // What others do meanwhile uses up the pool from which small buffers are.
    for (let other = 0; other < 3; other += 1) Buffer.allocUnsafe(30_000)
  }
  const bytes = retained() - before
  t.ok(bytes < 2 ** 21, `${bytes} bytes`)
})
