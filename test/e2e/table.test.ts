/** Decisions by the table are those of Check, seen from outside. */

import root, { type Test } from 'tap'
import { envoyPath } from '../support/envoy-binary.ts'
import { createRandom } from '../support/random.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { runTwins } from '../support/twins/run-twins.ts'
import { startTwins } from '../support/twins/twin-gateways.ts'
import { documentsOf, first } from '../support/twins/twin-world.ts'

const skip = envoyPath() === undefined && 'no Envoy'

root.test('both ways answer random requests alike', { skip }, async (t) => {
  const random = createRandom()
  t.comment(`SEED=${random.seed}`)
  const requests = Number(process.env.REQUESTS ?? 300)
  const twins = await startTwins(t as Test, {
    env: {
      METER_PATHS: 'chat,messages,completions,responses,embeddings',
      SECRETS_DIR: temporaryFolder(t as Test, { llm: { secret: 'of-the-model' } }),
      CHARGE_UNREPORTED: String(random.below(2) === 0),
    },
    resources: (backendUrl) => documentsOf(backendUrl, first),
  })
  const run = await runTwins(twins, { random, requests, changeEvery: 60, keyChangeEvery: 25 })
  t.strictSame(run.apart, [])
  t.comment(`${run.hits} hits of ${run.asked}; ${JSON.stringify(run.statuses)}`)
  t.ok(run.hits > run.asked / 10, `${run.hits} hits`)
})
