/** 250 calls at once against room for some forty, over four processes, while Redis answers or hangs. */

import { setTimeout as delay } from 'node:timers/promises'
import root, { type Test } from 'tap'
import { type Burst, promised, startBurstWorld } from '../support/bursts.ts'
import { envoyPath } from '../support/envoy-binary.ts'
import { poll } from '../support/poll.ts'
import { skipValkey } from '../support/valkey.ts'

const skip = skipValkey || (envoyPath() === undefined && 'no Envoy')
const calls = 250

root.test('a burst over four processes', { skip, timeout: 300_000 }, async (t) => {
  const { valkey, model, mint, burst } = await startBurstWorld(t as Test, 4)

  function claim(t: Test, { allowed, byStatus, produced, charged }: Burst): void {
    t.comment(`${produced} of ${promised} tokens, answers: ${JSON.stringify(byStatus)}`)
    t.ok(produced <= promised, `${produced} tokens`)
    t.equal(charged, produced, 'charged is what the model server says')
    t.ok(allowed >= 20, `${allowed} are allowed`)
  }

  await t.test('stays within the bound', async (t) => {
    const key = await mint('reserves')
    claim(t as Test, await burst({ key, calls, takesMs: 3_000 }))
  })

  await t.test('also if Redis hangs meanwhile', async (t) => {
    const key = await mint('reserves')
    const held = await burst({
      ...{ key, calls, takesMs: 8_000, triesForMs: 10_000 },
      async meanwhile() {
        await poll(async () => (await model.tally()).open > 0, 'the first are admitted')
        valkey.freeze()
        await delay(5_000)
        valkey.thaw()
      },
    })
    claim(t as Test, held)
    t.ok((held.byStatus[503] ?? 0) > 0, 'nobody is admitted without Redis')
  })

  await t.test('does not if requests are only counted', async (t) => {
    const counted = await burst({ key: await mint('counts'), calls, takesMs: 3_000 })
    t.ok(counted.produced > promised, `${counted.produced} tokens`)
  })
})
