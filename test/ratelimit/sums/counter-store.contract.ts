import { type Test, test } from 'tap'
import { addExact, type ExactInt, maxExactInt } from '../../../src/formats/exact.ts'
import { maxResets, type ResettableCounters } from '../../../src/ratelimit/counters.ts'
import type { HoldStore } from '../../../src/ratelimit/holds.ts'
import type { Counter, CounterState } from '../../../src/ratelimit/rules/counter.ts'
import { emptyHold } from '../../../src/ratelimit/rules/hold.ts'
import { windowAt } from '../../../src/ratelimit/rules/windows.ts'
import { poll } from '../../support/poll.ts'

/** The counters of a gateway, and of another one that shares them; the same object if they are not shared. */
export interface CounterWorld {
  readonly counters: ResettableCounters
  readonly other: ResettableCounters
  readonly holds: HoldStore
  /** The clock of both. */
  now(): number
  /** Writes a line of the first gateway that counts this. */
  log(counters: readonly Counter[], amount: ExactInt, at?: number): void
  advance(ms: number): void
  close(): Promise<void>
}

const minute = 60_000

function counterOf(ms: number, user = 'ada', kind = ''): Counter {
  return { key: `basic\nllm/small\n${kind}${ms}\n${user}`, owner: user, window: { ms } }
}
const a = counterOf(minute)
const b = counterOf(600 * minute)

/** What every store of counters keeps (contract, 8.2). */
export function testCounterStore(name: string, createWorld: () => Promise<CounterWorld>): void {
  interface Reads {
    read(...asked: Counter[]): Promise<readonly CounterState[]>
    used(from: ResettableCounters, ...asked: Counter[]): Promise<readonly ExactInt[]>
  }
  const claim = (
    title: string,
    body: (t: Test, world: CounterWorld & Reads) => Promise<void>,
  ): void => {
    test(`${name}: ${title}`, async (t) => {
      const world = await createWorld()
      t.teardown(() => world.close())
      await body(t, {
        ...world,
        read: async (...asked) => world.counters.read(asked, world.now()),
        used: async (from, ...asked) =>
          (await from.readFresh(asked, world.now())).map(({ used }) => used),
      })
    })
  }

  claim('counters are returned in the order requested, unused ones too', async (t, world) => {
    const { read, log, now } = world
    log([a], 40)
    log([a, b], 2)
    const unused = counterOf(minute, 'nobody')
    t.match(await read(b, a, unused), [
      { used: 2, resetsAt: windowAt(b, now()).end },
      { used: 42, resetsAt: windowAt(a, now()).end },
      { used: 0, resetsAt: windowAt(unused, now()).end },
    ])
    t.strictSame(await read(), [])
  })

  claim(
    'a line is in every read that begins after it, here at once, there soon',
    async (t, world) => {
      const { read, log, used, other } = world
      for (let i = 1; i <= 20; i += 1) {
        log([b], 1)
        t.equal((await read(b))[0]?.used, i)
      }
      await poll(async () => (await used(other, b))[0] === 20, 'the other knows', 10_000)
    },
  )

  claim('a window ends by time, each limit’s by itself', async (t, world) => {
    const { read, log, now, advance } = world
    log([a, b], 10)
    t.match(await read(a, b), [{ used: 10 }, { used: 10 }])
    advance(windowAt(a, now()).end - now() - 1)
    t.match(await read(a, b), [{ used: 10 }, { used: 10 }])
    advance(1)
    t.match(await read(a, b), [{ used: 0 }, { used: 10 }])
    log([a, b], 7)
    t.match(await read(a, b), [{ used: 7 }, { used: 17 }])
    log([a, b], 1_000, now() - 5_000)
    t.match(await read(a, b), [{ used: 7 }, { used: 1_017 }], 'a late line is in its own window')
  })

  claim('users are kept apart, whatever their names', async (t, { log, used, counters, other }) => {
    const users = ['', 'ada', 'ADA', 'ada\n', 'a b', 'übung', '用户', '{0}', '__proto__', '@1']
    const each = [...users, 'a'.repeat(2_000)].map((user) => counterOf(600 * minute, user))
    for (const [i, counter] of each.entries()) log([counter], i + 1)
    const expected = each.map((_, i) => i + 1)
    t.strictSame(await used(counters, ...each), expected)
    await poll(
      async () => (await used(other, ...each)).join() === expected.join(),
      'the other agrees',
      10_000,
    )
  })

  claim('large sums are exact', async (t, { log, used, counters, other }) => {
    let sum: ExactInt = 0
    for (const amount of [2 ** 52, 1, 2 ** 52 - 2, 1, 1, 2n ** 62n + 1n, 3]) {
      log([b], amount)
      sum = addExact(sum, amount)
      t.strictSame(await used(counters, b), [sum])
    }
    t.equal(sum, 2n ** 62n + 2n ** 53n + 5n)
    await poll(async () => (await used(other, b))[0] === sum, 'the other agrees', 10_000)
    log([b], 2n ** 62n)
    t.strictSame(await used(counters, b), [maxExactInt], 'they do not come round')
    await poll(async () => (await used(other, b))[0] === maxExactInt, 'the other agrees', 10_000)
  })

  claim('a reset begins anew, for what ends after it', async (t, world) => {
    const { counters, other, log, used, read, now, advance } = world
    log([a, b], 100)
    t.match(await read(a, b), [{ used: 100 }, { used: 100 }])
    const { end } = windowAt(b, now())
    await counters.reset([b], now())
    log([a, b], 30, now() - 1)
    log([a, b], 40, now())
    advance(10)
    t.match(await read(a, b), [{ used: 170 }, { used: 0, resetsAt: end }], 'what had ended')
    log([a, b], 1)
    t.strictSame(await used(counters, a, b), [171, 1])
    await poll(async () => (await used(other, b))[0] === 1, 'the other has heard of it', 10_000)
    await counters.reset([b], now(), 500)
    advance(10)
    log([b], 2)
    t.strictSame(await used(counters, b), [502], 'it may begin with something')
    await poll(async () => (await used(other, b))[0] === 502, 'for the other too', 10_000)
  })

  claim('a reset is bounded', async (t, { counters, now }) => {
    const many = Array.from({ length: maxResets + 1 }, (_, i) => counterOf(minute, `user ${i}`))
    await t.rejects(counters.reset(many, now()), RangeError)
  })

  claim('people see requests that are in progress', async (t, world) => {
    const { counters, holds, log, now, used } = world
    const requests = counterOf(600 * minute, 'ada', 'requests-')
    const places = { ...counterOf(0), key: 'basic\nllm/small\nconcurrency\nada' }
    const requestCounters = [requests, places].map((each) => ({ ...each, limit: 10 }))
    for (const id of ['one', 'two']) await holds.hold({ ...emptyHold, id, requestCounters }, now())
    log([b], 7)
    t.strictSame(await used(counters, places, b, requests), [2, 7, 2])
    log([requests], 1)
    await poll(async () => (await used(counters, requests))[0] === 3, 'its line is known', 10_000)
    holds.release(requestCounters, 'one')
    await poll(
      async () => (await used(counters, requests, places)).join() === '2,1',
      'one has ended',
      10_000,
    )
  })
}
