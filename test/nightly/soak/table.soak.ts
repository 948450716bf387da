/** The decision table for long: random requests to twin gateways, and withdrawals under load. */

import root, { type Test } from 'tap'
import { envoyPath } from '../../support/envoy-binary.ts'
import { createRandom } from '../../support/random.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'
import '../../support/time-limit.ts'
import { runTwins } from '../../support/twins/run-twins.ts'
import { startTwins } from '../../support/twins/twin-gateways.ts'
import { documentsOf, first } from '../../support/twins/twin-world.ts'
import { startWithdrawals } from '../../support/withdrawals.ts'

const skip = envoyPath() === undefined && 'no Envoy'
const requests = Number(process.env.REQUESTS ?? 20_000)
const later = Number(process.env.LATER ?? 100_000)

for (const charges of ['false', 'true']) {
  root.test(
    `${requests / 2} random requests, CHARGE_UNREPORTED=${charges}`,
    { skip },
    async (t) => {
      const random = createRandom()
      t.comment(`SEED=${random.seed}`)
      const twins = await startTwins(t as Test, {
        env: {
          METER_PATHS: 'chat,messages,completions,responses,embeddings',
          SECRETS_DIR: temporaryFolder(t as Test, { llm: { secret: 'of-the-model' } }),
          CHARGE_UNREPORTED: charges,
        },
        resources: (backendUrl) => documentsOf(backendUrl, first),
      })
      const run = await runTwins(twins, {
        ...{ random, requests: requests / 2, changeEvery: 80, keyChangeEvery: 30 },
      })
      t.strictSame(run.apart, [])
      t.comment(`${run.hits} hits of ${run.asked}; ${JSON.stringify(run.statuses)}`)
      t.ok(run.hits > run.asked / 10, `${run.hits} hits`)
      t.ok(run.byEstimates <= run.asked / 100, `${run.byEstimates} by estimates`)
    },
  )
}

root.test(`${later} requests begun after a withdrawal`, { skip }, async (t) => {
  const { ways, round } = await startWithdrawals(t as Test)
  const sums = { later: 0, allowed: 0, hits: 0, rounds: 0, unconfirmed: 0 }
  while (sums.later < later) {
    for (const way of ways) {
      const shown = await round(way, 500)
      sums.rounds += 1
      if (shown === undefined) {
        sums.unconfirmed += 1
        continue
      }
      t.strictSame(shown.wrong, {}, way)
      for (const each of ['later', 'allowed', 'hits'] as const) sums[each] += shown[each]
    }
  }
  t.comment(JSON.stringify(sums))
  t.ok(sums.hits > sums.allowed / 2)
})
