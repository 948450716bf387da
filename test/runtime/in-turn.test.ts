import { test } from 'tap'
import { createTurn } from '../../src/runtime/in-turn.ts'

test('work is done in the order of the calls, after a failure too', async (t) => {
  const inTurn = createTurn()
  const done: string[] = []
  const first = Promise.withResolvers<void>()
  const results = [
    inTurn(async () => {
      await first.promise
      done.push('first')
      throw new Error('broken')
    }),
    inTurn(async () => done.push('second')),
  ]
  t.strictSame(done, [])
  first.resolve()
  t.match(await Promise.allSettled(results), [{ reason: { message: 'broken' } }, { value: 2 }])
  t.strictSame(done, ['first', 'second'])
})
