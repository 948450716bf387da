import { test } from 'tap'
import { createWindowSums } from '../../../src/ratelimit/rules/sums.ts'
import type { WindowedCounter } from '../../../src/ratelimit/rules/windows.ts'
import { createSharedSums } from '../../../src/ratelimit/sums/shared-sums.ts'
import type { LongSums, SumStore } from '../../../src/ratelimit/sums/sum-store.ts'
import { Server } from './model.ts'

const counterOf = (user: string): WindowedCounter => {
  return { key: `s\nm\n1w\n${user}`, owner: 'all', window: { ms: 604_800_000 } }
}
const [ann, bob] = [counterOf('ann'), counterOf('bob')]

function createWorld(longSums: LongSums) {
  const world = { now: 1_800_000_000_000 }
  const server = new Server(() => world.now)
  const store: SumStore = {
    write: async (mark, entries) => server.write(mark, entries),
    read: async (keys) => keys.map((key) => new Map(server.fields(key))),
  }
  const shared = createSharedSums({
    ...{ store, longSums, gateway: 'g', nonce: 'g-process', isWriter: () => true },
    sums: createWindowSums(new Map(), () => world.now),
    ...{ tags: ['ann', 'bob'], tagOf: (key) => key.split('\n').at(-1) as string },
    ...{ now: () => world.now, monotonic: () => world.now },
    ...{ onBeyond: () => {}, onLoss: () => {}, onRival: () => {} },
  })
  return { world, shared }
}

test('windows of several tags are read at once', async (t) => {
  let asked = 0
  let end = (): void => {}
  const ended = new Promise<void>((settle) => {
    end = settle
  })
  const { world, shared } = createWorld({
    async load(ids) {
      asked += 1
      await ended
      return ids.map(() => new Map())
    },
    save: async () => {},
  })
  const reading = shared.fetch([ann, bob], world.now)
  await new Promise(setImmediate)
  t.equal(asked, 2)
  end()
  await reading
})

test('a clock that is wrong at a save of long windows loses none', async (t) => {
  const saved: string[] = []
  const { world, shared } = createWorld({
    load: async () => [],
    async save(_gateway, rows) {
      for (const { id } of rows) saved.push(id.slice(0, 10))
    },
  })
  shared.count({ at: world.now, amount: 1, counters: [ann, bob] })
  const right = world.now
  world.now += 365 * 86_400_000
  await shared.saveLong()
  t.equal(saved.length, 0)
  world.now = right
  await shared.saveLong()
  t.equal(saved.length, 2)
})
