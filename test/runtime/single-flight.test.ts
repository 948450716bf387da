import { test } from 'tap'
import { createSingleFlight } from '../../src/runtime/single-flight.ts'
import { withAbort } from '../../src/runtime/with-abort.ts'

test('concurrent calls for a key share a run', async (t) => {
  const begun: string[] = []
  const landing = Promise.withResolvers<void>()
  const ask = createSingleFlight(async (key: string, by: string) => {
    begun.push(`${key} by ${by}`)
    await landing.promise
    return begun.length
  })
  const aborted = AbortSignal.abort(new Error('gave up'))
  const calls = [ask('a', 'first'), ask('a', 'second'), ask('b', 'third')]
  await t.rejects(withAbort(ask('a', 'fourth'), aborted), { message: 'gave up' })
  landing.resolve()
  t.strictSame(await Promise.all(calls), [2, 2, 2], 'who gives up ends nobody else')
  t.strictSame(begun, ['a by first', 'b by third'])
  await ask('a', 'fifth')
  t.equal(begun.at(-1), 'a by fifth', 'a result is not remembered')
})

test('a failure reaches all callers, and no later one', async (t) => {
  let runs = 0
  const ask = createSingleFlight(async () => {
    runs += 1
    if (runs === 1) throw new Error('failed')
    return 'done'
  })
  const [one, two] = await Promise.allSettled([ask(), ask()])
  t.match([one, two], [{ reason: { message: 'failed' } }, { reason: { message: 'failed' } }])
  t.equal(await ask(), 'done')
})
