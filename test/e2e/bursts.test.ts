/** 100 calls at once against room for some forty, over four processes, while Redis answers or hangs. */

import { setTimeout as delay } from 'node:timers/promises'
import root, { type Test } from 'tap'
import { holdLeaseMs } from '../../src/ratelimit/rules/hold.ts'
import { type Burst, promised, startBurstWorld } from '../support/bursts.ts'
import { envoyPath } from '../support/envoy-binary.ts'
import { poll } from '../support/poll.ts'
import { skipValkey } from '../support/valkey.ts'

const skip = skipValkey || (envoyPath() === undefined && 'no Envoy')
/** With 250 in `npm run soak`: bursts.soak.ts. */
const calls = 100

root.test('a burst over four processes', { skip, timeout: 300_000 }, async (t) => {
  const { valkey, model, envoy, mint, burst, leaseEnds } = await startBurstWorld(t as Test, 4)

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
      ...{ key, calls, takesMs: 8_000, triesForMs: 15_000, triesAfterMs: 1_000 },
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

  await t.test('is not refused for a lost connection', async (t) => {
    const key = await mint('reserves')
    const seen: object[] = []
    for (let i = 0; i < 5; i += 1) {
      await valkey.client.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes')
      seen.push((await burst({ key, calls: 4, takesMs: 0 })).byStatus)
    }
    t.strictSame(seen, Array(5).fill({ 200: 4 }))
  })

  await t.test('does not if requests are only counted', async (t) => {
    const counted = await burst({ key: await mint('counts'), calls, takesMs: 3_000 })
    t.ok(counted.produced > promised, `${counted.produced} tokens`)
  })

  await t.test('leaves nothing held for longer than a minute if Envoy is killed', async (t) => {
    await poll(async () => (await leaseEnds()).length === 0, 'nothing is held')
    const doom = async () =>
      burst({ key: await mint('reserves'), calls, takesMs: 30_000 }).catch(() => {})
    const doomed = [doom()]
    await poll(async () => (await leaseEnds()).length > 20, 'room is held')
    const first = Math.max(...(await leaseEnds()))
    const isFollowed = async () => Math.min(...(await leaseEnds())) > first
    await poll(isFollowed, 'each is followed before its response begins', 20_000)
    const followed = (await leaseEnds()).length
    doomed.push(doom())
    await poll(async () => (await leaseEnds()).length > followed + 10, 'others are admitted')
    process.kill(envoy.pid, 'SIGKILL')
    await Promise.all(doomed)
    const ends = await leaseEnds()
    const [seconds, micros] = (await valkey.client.time()).map(Number) as [number, number]
    const now = 1_000 * seconds + micros / 1_000
    t.ok(ends.length > followed, `${ends.length} are held`)
    t.ok(Math.max(...ends) <= now + holdLeaseMs, `${Math.max(...ends) - now} ms are left`)
  })
})
