import { test } from 'tap'
import { type Stop, stopInOrder } from '../../src/runtime/shutdown.ts'

/** A clock that advances only to the next alarm that is waited for. */
function createClock() {
  let time = 1_000
  const alarms = new Set<{ at: number; ring: () => void }>()
  return {
    monotonic: () => time,
    pause(ms: number, signal?: AbortSignal): Promise<void> {
      return new Promise((settle) => {
        const alarm = { at: time + ms, ring: settle }
        alarms.add(alarm)
        signal?.addEventListener('abort', () => alarms.delete(alarm))
      })
    },
    /** Runs the clock until `over` is settled. */
    async run<T>(over: Promise<T>): Promise<T> {
      let running = true
      const ended = over.finally(() => {
        running = false
      })
      while (running) {
        await new Promise((resolve) => setImmediate(resolve))
        const [next] = [...alarms].sort((a, b) => a.at - b.at)
        if (next === undefined || !running) continue
        alarms.delete(next)
        time = next.at
        next.ring()
      }
      return await ended
    },
  }
}

interface World {
  /** The parts that began to stop, when, and with how much time. */
  readonly begun: [name: string, at: number, graceMs: number][]
  readonly logged: object[]
  /** A part that takes this long to stop; forever if undefined. */
  part(name: string, shareMs: number, takesMs?: number, maxMs?: number): Stop
  stop(parts: Stop[], budgetMs: number): Promise<boolean>
  now(): number
}

function createWorld(): World {
  const clock = createClock()
  const begun: World['begun'] = []
  const logged: object[] = []
  const now = () => clock.monotonic() - 1_000
  return {
    begun,
    logged,
    now,
    part: (name, shareMs, takesMs, maxMs = 10_000) => ({
      name,
      shareMs,
      maxMs,
      lost: `what ${name} had`,
      async stop(graceMs) {
        begun.push([name, now(), graceMs])
        await (takesMs === undefined ? new Promise(() => {}) : clock.pause(takesMs))
      },
    }),
    stop: (parts, budgetMs) =>
      clock.run(
        stopInOrder(parts, {
          log: { error: (fields: object) => void logged.push(fields) },
          budgetMs,
          ...clock,
        }),
      ),
  }
}

test('time that a part leaves is given to the parts after it', async (t) => {
  const { part, begun, logged, stop } = createWorld()
  t.equal(await stop([part('calls', 500, 200), part('counters', 400, 100)], 1_000), true)
  t.strictSame(begun, [
    ['calls', 0, 500],
    ['counters', 200, 700],
  ])
  t.strictSame(logged, [])
})

test('a part gets no more time than it can use', async (t) => {
  const { part, begun, stop } = createWorld()
  const parts = [part('calls', 500, 0), part('pool', 100, undefined, 150), part('data', 400, 0)]
  t.equal(await stop(parts, 1_000), false)
  t.strictSame(begun, [
    ['calls', 0, 500],
    ['pool', 0, 150],
    ['data', 250, 750],
  ])
})

test('parts that hang are abandoned and take no time from others', async (t) => {
  const { part, begun, logged, stop, now } = createWorld()
  const parts = [part('calls', 500), part('counters', 400, 250), part('pool', 100), () => {}]
  t.equal(await stop(parts, 1_000), false)
  t.strictSame(begun, [
    ['calls', 0, 500],
    ['counters', 600, 300],
    ['pool', 850, 150],
  ])
  t.strictSame(logged, [
    { code: 'shutdown_part_abandoned', part: 'calls', graceMs: 500, lost: 'what calls had' },
    { code: 'shutdown_part_abandoned', part: 'pool', graceMs: 150, lost: 'what pool had' },
  ])
  t.equal(now(), 1_100, 'everything within the budget and a margin')
})

test('shares beyond the budget are reduced in proportion', async (t) => {
  const { part, begun, stop } = createWorld()
  await stop([part('calls', 3_000), part('counters', 1_000, 10)], 2_000)
  t.strictSame(begun, [
    ['calls', 0, 1_500],
    ['counters', 1_600, 400],
  ])
})

test('a part that fails does not keep others from stopping', async (t) => {
  const { part, begun, logged, stop } = createWorld()
  const error = new Error('no')
  const failing: Stop[] = [
    () => {
      throw error
    },
    { name: 'pool', shareMs: 10, lost: 'little', stop: () => Promise.reject(error) },
  ]
  t.equal(await stop([...failing, part('counters', 400, 0)], 1_000), false)
  t.strictSame(begun, [['counters', 0, 410]])
  t.strictSame(logged, [
    {
      code: 'shutdown_part_failed',
      part: 'a part that stops at once',
      lost: 'nothing',
      err: error,
    },
    { code: 'shutdown_part_failed', part: 'pool', lost: 'little', err: error },
  ])
})
