import { test } from 'tap'
import { watchAnswers } from '../../../src/wiring/workers/answer-watch.ts'

/** A watch of a process that answers when the test says so; counts questions and hangs. */
function watched(mostMissed: number) {
  const open: PromiseWithResolvers<void>[] = []
  const seen = { asked: 0, hung: 0 }
  const watch = watchAnswers(
    () => {
      seen.asked += 1
      const asked = Promise.withResolvers<void>()
      open.push(asked)
      return asked.promise
    },
    mostMissed,
    () => {
      seen.hung += 1
    },
  )
  return {
    seen,
    ticks(count: number) {
      for (let i = 0; i < count; i += 1) watch.tick()
    },
    async answer(error?: Error) {
      const asked = open.shift()
      if (error === undefined) asked?.resolve()
      else asked?.reject(error)
      await asked?.promise.catch(() => {})
    },
  }
}

test('a process that answers is asked again', async (t) => {
  const { seen, ticks, answer } = watched(3)
  for (let i = 0; i < 20; i += 1) {
    ticks(1)
    await answer()
  }
  t.strictSame(seen, { asked: 20, hung: 0 })
})

test('a process that answers late does not hang', async (t) => {
  const { seen, ticks, answer } = watched(3)
  for (let i = 0; i < 5; i += 1) {
    ticks(3)
    t.equal(seen.asked, i + 1, 'the next question waits for the answer')
    await answer()
  }
  t.equal(seen.hung, 0)
})

test('a process that does not answer hangs, reported once', async (t) => {
  const { seen, ticks } = watched(3)
  ticks(3)
  t.equal(seen.hung, 0)
  ticks(1)
  t.equal(seen.hung, 1)
  ticks(10)
  t.strictSame(seen, { asked: 1, hung: 1 })
})

test('a refusal is an answer', async (t) => {
  const { seen, ticks, answer } = watched(2)
  for (let i = 0; i < 5; i += 1) {
    ticks(2)
    await answer(new Error('no'))
  }
  t.strictSame(seen, { asked: 5, hung: 0 })
})
