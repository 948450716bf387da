import { setImmediate as nextTurn } from 'node:timers/promises'
import { test } from 'tap'
import { inSlices } from '../../src/runtime/slices.ts'

/** The number of steps in each turn of the event loop, until the promise of `works` settles. */
async function stepsOfTurns(works: (step: () => void) => Promise<unknown>): Promise<number[]> {
  const turns = [0]
  let isOver = false
  const ended = works(() => {
    turns[turns.length - 1] = (turns.at(-1) ?? 0) + 1
  }).then(() => {
    isOver = true
  })
  while (!isOver) {
    await nextTurn()
    turns.push(0)
  }
  await ended
  return turns
}

/** Steps that take a millisecond each. */
function* long(steps: number, step: () => void): Generator<void, number> {
  for (let i = 0; i < steps; i += 1) {
    step()
    const until = performance.now() + 1
    while (performance.now() < until);
    yield
  }
  return steps
}

test('concurrent jobs share a slice of each turn', async (t) => {
  const turns = await stepsOfTurns((step) =>
    Promise.all([1, 2, 3].map(() => inSlices(long(20, step)))),
  )
  t.equal(
    turns.reduce((sum, steps) => sum + steps),
    60,
  )
  t.ok(Math.max(...turns) <= 3, `${Math.max(...turns)} steps in one turn`)
})

test('consecutive jobs do not add up in a turn', async (t) => {
  const turns = await stepsOfTurns(async (step) => {
    for (let i = 0; i < 10; i += 1) t.equal(await inSlices(long(2, step)), 2)
  })
  t.ok(Math.max(...turns) <= 2, `${Math.max(...turns)} steps in one turn`)
})

test('awaits promises and passes their errors on', async (t) => {
  function* asks(question: () => Promise<string>): Generator<Promise<string>, unknown> {
    const answer: unknown = yield question()
    return answer
  }
  t.equal(await inSlices(asks(async () => 'yes')), 'yes')
  await t.rejects(inSlices(asks(() => Promise.reject(new Error('no')))), { message: 'no' })
  t.equal(await inSlices(asks(async () => 'again')), 'again', 'other jobs continue')
})
