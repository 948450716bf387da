/** Bursts over four processes, while Redis hangs at odd moments and a process is killed. */

import { setTimeout as delay } from 'node:timers/promises'
import root, { type Test } from 'tap'
import { promised, startBurstWorld } from '../../support/bursts.ts'
import { envoyPath } from '../../support/envoy-binary.ts'
import { createRandom } from '../../support/random.ts'
import { skipValkey } from '../../support/valkey.ts'

const skip = skipValkey || (envoyPath() === undefined && 'no Envoy')
const calls = 250
const rounds = 6
const random = createRandom()

for (const onLoss of ['allow', 'deny']) {
  root.test(`bursts with ON_COUNTER_LOSS=${onLoss}`, { skip, timeout: 900_000 }, async (t) => {
    const world = await startBurstWorld(t as Test, 4, { ON_COUNTER_LOSS: onLoss })
    const { valkey, all, mint, burst } = world
    for (let round = 0; round < rounds; round += 1) {
      const key = await mint('reserves')
      const killed = round % 3 === 2 ? all[random.below(all.length)] : undefined
      const [beforeMs, pauseMs] = [random.below(800), 200 + random.below(5_000)]
      const held = await burst({
        ...{ key, calls, takesMs: 1_000 + random.below(8_000), triesForMs: 12_000 },
        async meanwhile() {
          await delay(beforeMs)
          valkey.freeze()
          await delay(pauseMs / 2)
          await killed?.end('SIGKILL')
          await delay(pauseMs / 2)
          valkey.thaw()
          await killed?.start()
        },
      })
      const { produced, charged, byStatus } = held
      t.comment(`${produced} of ${promised} tokens, ${JSON.stringify(byStatus)}`)
      const moment = `hung after ${beforeMs} ms for ${pauseMs}, seed ${random.seed}`
      t.ok(produced <= promised, `${produced} tokens, ${moment}`)
      // What a killed process was told and had not sent on is lost without a journal.
      if (killed === undefined) t.equal(charged, produced, `charged, ${moment}`)
      else t.ok(charged <= produced, `charged ${charged} of ${produced}, ${moment}`)
    }
    const counted = await burst({ key: await mint('counts'), calls, takesMs: 3_000 })
    t.ok(counted.produced > promised, `${counted.produced} tokens if they are only counted`)
  })
}
