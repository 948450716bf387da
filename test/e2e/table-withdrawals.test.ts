import root, { type Test } from 'tap'
import { envoyPath } from '../support/envoy-binary.ts'
import { startWithdrawals } from '../support/withdrawals.ts'

const skip = envoyPath() === undefined && 'no Envoy'

root.test('nothing is allowed by what has been withdrawn', { skip }, async (t) => {
  const { ways, round } = await startWithdrawals(t as Test)
  for (const way of ways) {
    // A second may be too short for a confirmation on a busy machine.
    const shown = (await round(way, 150)) ?? (await round(way, 150))
    if (shown === undefined) {
      t.comment(`${way}: never confirmed`)
      continue
    }
    t.strictSame(shown.wrong, {}, way)
    t.ok(shown.later > 0, way)
    t.ok(shown.hits > shown.allowed / 2, `${way}: ${shown.hits} hits of ${shown.allowed}`)
  }
})
