import { test } from 'tap'
import { createMutex } from '../../src/runtime/mutex.ts'

test('work is done in the order of the calls, after a failure too', async (t) => {
  const withLock = createMutex()
  const done: string[] = []
  const first = Promise.withResolvers<void>()
  const results = [
    withLock(async () => {
      await first.promise
      done.push('first')
      throw new Error('broken')
    }),
    withLock(async () => done.push('second')),
  ]
  t.strictSame(done, [])
  first.resolve()
  t.match(await Promise.allSettled(results), [{ reason: { message: 'broken' } }, { value: 2 }])
  t.strictSame(done, ['first', 'second'])
})
