import { type Test, test } from 'tap'
import type { Counter, CounterState } from '../../../src/core/decision/counter.ts'
import type { JournaledCounters } from '../../../src/store/counters.ts'

/** A store and its time. */
export interface CounterWorld {
  readonly counters: JournaledCounters
  /** The same counters as another process sees them; the same object if they are not shared. */
  readonly other: JournaledCounters
  /** The process's wall clock. */
  now(): number
  /** Waits until each has seen what the other has added to these counters. */
  agree(asked: readonly Counter[]): Promise<void>
  /** Lets this much time pass. */
  advance(ms: number): Promise<void>
  /** Sets the wall clock back; no time passes. */
  setBack(ms: number): void
  /** The time that may pass by itself during a test (ms); 0 if time stands still. */
  readonly slackMs: number
  close(): Promise<void>
}

const minute = 60_000
const a: Counter = { key: 'basic\nllm/small\n60000\nada', windowMs: minute }
const b: Counter = { key: 'basic\nllm/small\n600000\nada', windowMs: 10 * minute }

/** The window semantics of every backend (contract, 8.2). */
export function testCounterStore(name: string, createWorld: () => Promise<CounterWorld>): void {
  const claim = (
    title: string,
    body: (
      t: Test,
      world: CounterWorld & { read(...asked: Counter[]): Promise<(CounterState | undefined)[]> },
    ) => Promise<void>,
  ): void => {
    test(`${name}: ${title}`, async (t) => {
      const world = await createWorld()
      t.teardown(() => world.close())
      const read = async (...asked: Counter[]) => [
        ...(await world.counters.read(asked, world.now())),
      ]
      await body(t, { ...world, read })
    })
  }

  /** Claims that the window ends at `expected`, allowing for the time that passes by itself. */
  function endsAt(
    t: Test,
    { slackMs }: CounterWorld,
    state: CounterState | undefined,
    expected: number,
  ): void {
    const off = Math.abs((state?.resetsAt ?? Number.NaN) - expected)
    t.ok(off <= slackMs, `${state?.resetsAt} is ${expected}, within ${slackMs} ms`)
  }

  claim('counters are returned in the order requested', async (t, { counters, read, now }) => {
    t.strictSame(await read(a, b), [undefined, undefined])
    counters.add([a], 40, now())
    counters.add([a, b], 2, now())
    t.match(await read(b, a, { ...a, key: 'c' }), [{ used: 2 }, { used: 42 }, undefined])
    t.strictSame(await read(), [])
  })

  claim('the first count opens a window', async (t, world) => {
    const { counters, read, now, advance } = world
    await read(a)
    await advance(5_000)
    const openedAt = now()
    counters.add([a], 1, openedAt)
    endsAt(t, world, (await read(a))[0], openedAt + minute)
    await advance(minute - 10_000)
    counters.add([a], 2, now())
    const [state] = await read(a)
    t.equal(state?.used, 3)
    endsAt(t, world, state, openedAt + minute)
  })

  claim('reading neither counts nor opens', async (t, world) => {
    const { counters, read, now, advance } = world
    for (let i = 0; i < 3; i += 1) t.strictSame(await read(a), [undefined])
    await advance(1_000)
    const openedAt = now()
    counters.add([a], 7, openedAt)
    for (let i = 0; i < 3; i += 1) t.match(await read(a), [{ used: 7 }])
    endsAt(t, world, (await read(a))[0], openedAt + minute)
  })

  claim(
    'an ended window stays closed until the next count',
    async (t, { counters, read, now, advance }) => {
      counters.add([a], 100, now())
      await advance(minute - 5_000)
      t.match(await read(a), [{ used: 100 }])
      await advance(5_000)
      t.strictSame(await read(a), [undefined])
      await advance(30_000)
      t.strictSame(await read(a), [undefined])
      counters.add([a], 7, now())
      t.match(await read(a), [{ used: 7 }])
    },
  )

  claim('every limit has its own window', async (t, { counters, read, now, advance }) => {
    counters.add([a, b], 10, now())
    await advance(minute)
    t.match(await read(a, b), [undefined, { used: 10 }])
    counters.add([a, b], 10, now())
    t.match(await read(a, b), [{ used: 10 }, { used: 20 }])
  })

  claim('zero tokens add nothing', async (t, { counters, read, now }) => {
    counters.add([a], 5, now())
    counters.add([a], 0, now())
    t.match(await read(a), [{ used: 5 }])
  })

  claim('a clock that is set back lengthens no window', async (t, world) => {
    const { counters, read, now, advance, setBack } = world
    counters.add([a], 100, now())
    setBack(60 * minute)
    const [state] = await read(a)
    t.equal(state?.used, 100)
    endsAt(t, world, state, now() + minute)
    await advance(minute + world.slackMs)
    t.strictSame(await read(a), [undefined])
  })

  claim('users are kept apart, whatever their names', async (t, { counters, read, now }) => {
    const users = [
      '',
      'ada',
      'ADA',
      'ada\n',
      'übung',
      '用户',
      '{0}',
      '__proto__',
      'a'.repeat(2_000),
    ]
    const each = users.map((user) => ({
      key: `basic\nllm/small\n60000\n${user}`,
      windowMs: minute,
    }))
    for (const [i, counter] of each.entries()) counters.add([counter], i + 1, now())
    t.match(
      await read(...each),
      users.map((_, i) => ({ used: i + 1 })),
    )
  })

  claim('large sums are exact', async (t, { counters, read, now }) => {
    counters.add([a], 2 ** 52, now())
    counters.add([a], 1, now())
    t.match(await read(a), [{ used: 2 ** 52 + 1 }])
  })
}
