import { randomUUID } from 'node:crypto'
import { type Test, test } from 'tap'
import type { Counter, CounterState } from '../../../src/core/decision/counter.ts'
import type { Report } from '../../../src/store/counters.ts'
import type { CounterWorld } from './counter-store.contract.ts'

const second = 1_000
const minute = 60_000
const a: Counter = { key: 'basic\nllm/small\n60000\nada', windowMs: minute }
const b: Counter = { key: 'basic\nllm/small\n600000\nada', windowMs: 10 * minute }

type Claimed = CounterWorld & {
  /** Reads what both agree on. */
  read(...asked: Counter[]): Promise<(CounterState | undefined)[]>
  /** A report of a response that ended `agoMs` ago; by default from the journal. */
  report(agoMs: number, by?: Report['by'], id?: string): Report
}

/** The promises of every backend about responses that are reported more than once. */
export function testCountedOnce(name: string, createWorld: () => Promise<CounterWorld>): void {
  const claim = (title: string, body: (t: Test, world: Claimed) => Promise<void>): void => {
    test(`${name}: ${title}`, async (t) => {
      const world = await createWorld()
      t.teardown(() => world.close())
      const read = async (...asked: Counter[]) => {
        await world.agree(asked)
        return [...(await world.counters.read(asked, world.now()))]
      }
      const report = (agoMs: number, by: Report['by'] = 'journal', id: string = randomUUID()) => ({
        id,
        endedAt: world.now() - agoMs,
        by,
      })
      await body(t, { ...world, read, report })
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

  for (const order of [
    ['stream', 'journal'],
    ['journal', 'stream'],
    ['journal', 'journal', 'stream', 'stream', 'journal'],
  ] as const) {
    claim(`reported by ${order.join(', ')}, a response is counted once`, async (t, world) => {
      const { counters, other, read, report, now } = world
      await read(a, b)
      const ids = ['here', 'elsewhere', randomUUID(), randomUUID().toUpperCase(), '']
      for (const id of ids) {
        for (const [i, by] of order.entries()) {
          const told = i % 2 === 0 ? counters : other
          told.add([a, b], 7, now(), { ...report(1_500, by), id })
          if (id === 'elsewhere') await told.kept()
        }
      }
      t.match(await read(a, b), [{ used: 7 * ids.length }, { used: 7 * ids.length }])
    })
  }

  claim(
    'reported by both at the same time, a response is counted once',
    async (t, { counters, other, read, report, now }) => {
      for (let i = 0; i < 500; i += 1) {
        const told = report(i)
        counters.add([a, b], 3, now(), { ...told, by: 'stream' })
        other.add([a, b], 3, now(), told)
      }
      t.match(await read(a, b), [{ used: 1_500 }, { used: 1_500 }])
    },
  )

  claim('exactly one report of a response is told that it counts', async (t, world) => {
    const { counters, other, read, report, now } = world
    await read(a)
    const counted: string[] = []
    const tell = (told: Report, to = counters, hit: readonly Counter[] = [a]) =>
      to.add(hit, 7, now(), { ...told, onCounted: () => counted.push(`${told.by} ${told.id}`) })
    for (const [id, first, second] of [
      ['x', 'stream', 'journal'],
      ['y', 'journal', 'stream'],
    ] as const) {
      tell(report(10, first, id))
      await counters.kept()
      tell(report(10, second, id), other)
      await other.kept()
    }
    tell(report(30 * 60 * second, 'journal', 'window over'))
    tell(report(10, 'stream', 'no limit'), counters, [])
    await counters.kept()
    tell(report(10, 'journal', 'no limit'), other, [])
    tell(report(30 * second, 'stream', 'late'))
    await Promise.all([counters.kept(), other.kept()])
    const expected = ['journal window over', 'journal y', 'stream no limit', 'stream x']
    t.strictSame(counted.sort(), expected)
  })

  claim(
    'the times of the two sources may differ slightly',
    async (t, { counters, other, read, report, now }) => {
      const edge = Math.floor(now() / minute) * minute
      let count = 0
      for (const around of [0, 500, -500, 999, -999]) {
        for (const offMs of [-1, 1, 0.4, -0.4]) {
          const told = { ...report(0), endedAt: edge + around }
          counters.add([b], 1, now(), told)
          await counters.kept()
          other.add([b], 1, now(), { ...told, endedAt: told.endedAt + offMs })
          count += 1
        }
      }
      t.match(await read(b), [{ used: count }])
    },
  )

  claim(
    'additions without a response are all counted',
    async (t, { counters, read, report, now }) => {
      for (let i = 0; i < 3; i += 1) counters.add([a], 5, now())
      counters.add([a], 2, now(), report(0, 'stream'))
      counters.add([a], 5, now())
      t.match(await read(a), [{ used: 22 }])
    },
  )

  claim('a response opens a window from its end', async (t, world) => {
    const { counters, read, report, now } = world
    const told = report(20 * second)
    counters.add([a, b], 5, now(), told)
    const [short, long] = await read(a, b)
    t.equal(short?.used, 5)
    endsAt(t, world, short, told.endedAt + minute)
    endsAt(t, world, long, told.endedAt + 10 * minute)
  })

  claim('the same for a report of the stream', async (t, world) => {
    const { counters, read, report, now } = world
    const told = report(9 * second, 'stream')
    counters.add([a], 5, now(), told)
    endsAt(t, world, [...(await counters.read([a], now()))][0], told.endedAt + minute)
    const [state] = await read(a)
    t.equal(state?.used, 5)
    endsAt(t, world, state, told.endedAt + minute)
  })

  claim('an open window takes late tokens', async (t, world) => {
    const { counters, read, report, now, advance } = world
    const openedAt = now()
    counters.add([a], 100, openedAt)
    await advance(30 * second)
    for (const agoMs of [0, 31, 55 * second, 10]) counters.add([a], 1, now(), report(agoMs))
    counters.add([a], 1, now(), report(5 * second, 'stream'))
    const [state] = await read(a)
    t.equal(state?.used, 105)
    endsAt(t, world, state, openedAt + minute)
  })

  claim('tokens of a window that has ended are not counted', async (t, world) => {
    const { counters, read, report, now, advance } = world
    counters.add([a, b], 5, now(), report(70 * second))
    t.match(await read(a, b), [undefined, { used: 5 }])
    counters.add([a, b], 7, now())
    counters.add([a, b], 5, now(), report(70 * second))
    t.match(await read(a, b), [{ used: 7 }, { used: 17 }])
    await advance(minute)
    t.match(await read(a, b), [undefined, { used: 17 }])
  })

  claim('an end in the future is taken as now', async (t, world) => {
    const { counters, read, report, now } = world
    counters.add([a], 5, now(), report(-10 * minute, 'stream'))
    counters.add([a], 5, now(), report(-10 * minute))
    const [state] = await read(a)
    t.equal(state?.used, 10)
    endsAt(t, world, state, now() + minute)
  })

  claim('a late report of the stream is left to the journal', async (t, world) => {
    const { counters, other, read, report, now } = world
    const told = report(30 * second)
    counters.add([a], 5, now(), { ...told, by: 'stream' })
    t.strictSame(await read(a), [undefined])
    other.add([a], 5, now(), told)
    t.match(await read(a), [{ used: 5 }])
    counters.add([a], 5, now(), { ...told, by: 'stream' })
    t.match(await read(a), [{ used: 5 }])
  })

  claim('large sums with reports are exact', async (t, { counters, read, report, now }) => {
    counters.add([a], 2 ** 52, now(), report(0))
    counters.add([a], 1, now(), report(0))
    counters.add([a], 1, now())
    t.match(await read(a), [{ used: 2 ** 52 + 2 }])
    counters.add([a], 1, now(), report(0))
    t.match(await read(a), [{ used: 2 ** 52 + 3 }])
  })

  claim('what is kept stays kept', async (t, { counters, read, report, now }) => {
    await counters.kept()
    for (let i = 0; i < 3_000; i += 1) {
      counters.add([{ key: `basic\nllm/small\n60000\n${i}`, windowMs: minute }], 1, now())
      counters.add([a], 1, now(), report(100))
    }
    await counters.kept()
    t.match(await read(a), [{ used: 3_000 }])
  })

  claim(
    'only responses that ended earlier are forgotten',
    async (t, { counters, read, report, now, other }) => {
      const [old, young] = [report(20 * minute), report(5 * minute)]
      const long = { ...b, key: 'basic\nllm/small\n86400000\nada', windowMs: 24 * 60 * minute }
      const tell = async () => {
        for (const told of [old, young]) counters.add([long], 1, now(), told)
        await counters.kept()
      }
      await tell()
      await other.forgetReports(now() - 30 * minute)
      await tell()
      t.match(await read(long), [{ used: 2 }])
      await other.forgetReports(now() - 10 * minute)
      await tell()
      t.match(await read(long), [{ used: 3 }], 'the old one again, which may no longer be reported')
    },
  )
}
