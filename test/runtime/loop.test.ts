import { type Test, test } from 'tap'
import { createRestTimer, repeat, restAfter } from '../../src/runtime/loop.ts'

const long = 60_000

/** Rests do not keep the process alive. */
function keepAwake(t: Test): void {
  const awake = setInterval(() => {}, long)
  t.teardown(() => clearInterval(awake))
}

test('a step is repeated until the signal', async (t) => {
  keepAwake(t)
  const stop = new AbortController()
  let steps = 0
  await repeat({
    async step() {
      steps += 1
      if (steps === 3) stop.abort()
    },
    restMs: 1,
    onFault: (error) => t.fail(String(error)),
    signal: stop.signal,
  })
  t.equal(steps, 3)
})

test('a fault is reported, and the next step follows', async (t) => {
  keepAwake(t)
  const stop = new AbortController()
  const faults: unknown[] = []
  await repeat({
    step: () => Promise.reject(new Error(`step ${faults.length}`)),
    restMs: () => 1,
    onFault(error) {
      faults.push((error as Error).message)
      if (faults.length === 2) stop.abort()
    },
    signal: stop.signal,
  })
  t.strictSame(faults, ['step 0', 'step 1'])
})

test('the signal ends a rest', async (t) => {
  keepAwake(t)
  const stop = new AbortController()
  const { signal } = stop
  let steps = 0
  const step = async (): Promise<void> => {
    steps += 1
  }
  const over = repeat({ step, restMs: long, restsFirst: true, onFault: () => {}, signal })
  stop.abort()
  await over
  t.equal(steps, 0)
})

test('an alarm ends this rest or the next', async (t) => {
  keepAwake(t)
  const { signal } = new AbortController()
  const alarm = createRestTimer(signal)
  const resting = alarm.rest(undefined)
  alarm.ring()
  await resting
  alarm.ring()
  await alarm.rest(long)
  let isOver = false
  const third = alarm.rest(long).then(() => {
    isOver = true
  })
  await new Promise(setImmediate)
  t.equal(isOver, false, 'a ring ends one rest')
  alarm.ring()
  await third
})

test('rings while an alarm settles count as one', async (t) => {
  keepAwake(t)
  const { signal } = new AbortController()
  const alarm = createRestTimer(signal)
  alarm.ring()
  const begun = performance.now()
  const resting = alarm.rest(long, 30)
  setTimeout(alarm.ring, 5)
  await resting
  t.ok(performance.now() - begun >= 29, 'the second ring does not shorten it')
  let isOver = false
  const next = alarm.rest(long).then(() => {
    isOver = true
  })
  await new Promise(setImmediate)
  t.equal(isOver, false)
  alarm.ring()
  await next
})

test('rests after failures grow to the longest, and spread', async (t) => {
  const backoff = { firstMs: 100, maxMs: 1_000 }
  t.strictSame(
    [1, 2, 3, 4, 5, 2_000].map((failures) => restAfter(failures, backoff)),
    [100, 200, 400, 800, 1_000, 1_000],
  )
  t.equal(restAfter(3, { ...backoff, growth: 1.5 }), 225)
  const spread = Array.from({ length: 200 }, () => restAfter(9, { ...backoff, jitter: 0.25 }))
  t.ok(Math.min(...spread) >= 750 && Math.max(...spread) <= 1_250)
  t.ok(new Set(spread).size > 100)
})

test('a loop knows how many steps have failed in a row, and ends with its last one', async (t) => {
  keepAwake(t)
  const stop = new AbortController()
  const rests: number[] = []
  let steps = 0
  let isDone = false
  await repeat({
    async step() {
      steps += 1
      if (steps === 1 || steps === 2) throw new Error('failed')
      if (steps < 4) return
      stop.abort()
      await new Promise(setImmediate)
      isDone = true
    },
    restMs(failures) {
      rests.push(failures)
      return 1
    },
    onFault() {},
    signal: stop.signal,
  })
  t.strictSame(rests.slice(0, 3), [1, 2, 0])
  t.ok(isDone)
})
