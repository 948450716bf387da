import { test } from 'tap'
import { createFirstByteTimes } from '../../src/telemetry/first-bytes.ts'

test('without a response there is no figure', async (t) => {
  t.equal(createFirstByteTimes().read(), undefined)
})

test('median and 95 % are of the responses', async (t) => {
  const firstBytes = createFirstByteTimes()
  firstBytes.note(7)
  t.strictSame(firstBytes.read(), { responses: 1, medianMs: 7, p95Ms: 7 })
  const other = createFirstByteTimes()
  for (let ms = 100; ms > 0; ms -= 1) other.note(ms)
  t.strictSame(other.read(), { responses: 100, medianMs: 50, p95Ms: 95 })
})

test('only the last ones count', async (t) => {
  const firstBytes = createFirstByteTimes(3)
  for (const ms of [900, 900, 1, 2, 3]) firstBytes.note(ms)
  t.strictSame(firstBytes.read(), { responses: 3, medianMs: 2, p95Ms: 3 })
})
