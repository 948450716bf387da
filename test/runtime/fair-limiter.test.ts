import { test } from 'tap'
import { createFairLimiter } from '../../src/runtime/fair-limiter.ts'

/** Turns, and work that begins at its turn and ends on request. */
function createWorld(timeoutMs = 60_000) {
  const inTurn = createFairLimiter({
    atOnce: 2,
    oneEach: true,
    timeoutMs,
    refusal: () => new Error('too long'),
  })
  const begun: string[] = []
  const ends = new Map<string, () => void>()
  return {
    begun,
    /** Asks for a turn; the first letter of the name is the caller. */
    ask: (name: string) =>
      inTurn(name.slice(0, 1), async () => {
        begun.push(name)
        await new Promise<void>((end) => ends.set(name, end))
        return name
      }),
    async end(name: string) {
      ends.get(name)?.()
      await new Promise((next) => setImmediate(next))
    },
    inTurn,
  }
}

test('runs one at a time for a caller and two in all, in turn', async (t) => {
  const { ask, end, begun } = createWorld()
  const asked = ['a1', 'a2', 'a3', 'b1', 'b2', 'c1', 'd1'].map(ask)
  await end('nothing')
  t.strictSame(begun, ['a1', 'b1'])
  for (const [name, next] of [
    ['a1', 'c1'],
    ['c1', 'd1'],
    ['b1', 'a2'],
    ['d1', 'b2'],
    ['a2', 'a3'],
  ] as const) {
    await end(name)
    t.equal(begun.at(-1), next)
  }
  for (const name of ['b2', 'a3']) await end(name)
  t.strictSame(await Promise.all(asked), ['a1', 'a2', 'a3', 'b1', 'b2', 'c1', 'd1'])
})

test('a caller that waits too long gets an error and takes no turn', async (t) => {
  const { ask, end, begun } = createWorld(20)
  const first = ask('a1')
  await t.rejects(ask('a2'), { message: 'too long' })
  await end('a1')
  t.equal(await first, 'a1', 'running work is not interrupted')
  const third = ask('a3')
  await end('nothing')
  await end('a3')
  t.equal(await third, 'a3')
  t.strictSame(begun, ['a1', 'a3'])
})

test('work that fails ends its turn', async (t) => {
  const { inTurn } = createWorld()
  for (let i = 0; i < 3; i += 1) {
    await t.rejects(
      inTurn('a', async () => {
        throw new Error('failed')
      }),
      { message: 'failed' },
    )
  }
})

test('a call that finds no room is refused at once, and others run at will', async (t) => {
  const inTurn = createFairLimiter({ atOnce: 2, room: 1, refusal: () => new Error('full') })
  const end = Promise.withResolvers<string>()
  const asked = [1, 2, 3].map(() => inTurn('a', () => end.promise))
  await t.rejects(
    inTurn('a', () => end.promise),
    { message: 'full' },
  )
  end.resolve('done')
  t.strictSame(await Promise.all(asked), ['done', 'done', 'done'])
})
