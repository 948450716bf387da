import { setImmediate as turn } from 'node:timers/promises'
import { test } from 'tap'
import { withAbort } from '../../src/runtime/with-abort.ts'

test('work that fails after the signal is nobody’s unhandled rejection', async (t) => {
  const unhandled: unknown[] = []
  const note = (error: unknown): void => void unhandled.push(error)
  process.on('unhandledRejection', note)
  t.teardown(() => process.off('unhandledRejection', note))
  const reason = new Error('stopped')
  await t.rejects(withAbort(Promise.reject(new Error('before')), AbortSignal.abort(reason)), reason)
  const stopping = new AbortController()
  const { promise, reject } = Promise.withResolvers<never>()
  const waiting = withAbort(promise, stopping.signal)
  stopping.abort(reason)
  await t.rejects(waiting, reason)
  reject(new Error('after'))
  await turn()
  await turn()
  t.strictSame(unhandled, [])
})

test('the result of work, or its failure', async (t) => {
  const { signal } = new AbortController()
  t.equal(await withAbort(Promise.resolve(1), signal), 1)
  await t.rejects(withAbort(Promise.reject(new Error('failed')), signal), { message: 'failed' })
})
