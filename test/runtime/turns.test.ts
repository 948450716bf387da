import { test } from 'tap'
import { createTurns } from '../../src/runtime/turns.ts'

/** Turns, and work that begins at its turn and ends on request. */
function createWorld(timeoutMs = 60_000) {
  const turns = createTurns({ atOnce: 2, timeoutMs, onTooLong: () => new Error('too long') })
  const begun: string[] = []
  const ends = new Map<string, () => void>()
  return {
    begun,
    /** Asks for a turn; the first letter of the name is the caller. */
    ask: (name: string) =>
      turns.take(name.slice(0, 1), async () => {
        begun.push(name)
        await new Promise<void>((end) => ends.set(name, end))
        return name
      }),
    async end(name: string) {
      ends.get(name)?.()
      await new Promise((next) => setImmediate(next))
    },
    turns,
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
  const { turns } = createWorld()
  for (let i = 0; i < 3; i += 1) {
    await t.rejects(
      turns.take('a', async () => {
        throw new Error('failed')
      }),
      { message: 'failed' },
    )
  }
})
