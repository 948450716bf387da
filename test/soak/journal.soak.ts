import { setTimeout as delay } from 'node:timers/promises'
import t from 'tap'
import { envoyPath } from '../support/envoy-binary.ts'
import { startJournaled } from '../support/journaled.ts'
import { poll } from '../support/poll.ts'
import { createRandom } from '../support/random.ts'
import { redisKey } from '../support/redis-world.ts'
import { skipValkey, startValkey } from '../support/valkey.ts'

const skip = envoyPath() === undefined ? 'no Envoy' : skipValkey
const processes = 4
const connections = 64
const responses = 20_000
const hour = 3_600_000
const users = Array.from({ length: 200 }, (_, i) => `user-${i}`)

t.test('a kill -9 and a restarted Redis lose nothing', { skip }, async (t) => {
  const random = createRandom()
  t.comment(`seed ${random.seed}`)
  const valkey = await startValkey(t, ['--appendonly', 'yes', '--appendfsync', 'always'])
  const gateway = await startJournaled(t, {
    count: processes,
    users,
    env: { REDIS_URL: valkey.url, LOG_LEVEL: 'warn', USAGE_JOURNAL_BYTES: '1048576' },
  })
  const sums = users.map(() => 0)
  let sent = 0
  let refused = 0
  let happening: Promise<void> | undefined

  async function midway(): Promise<void> {
    // The first one claimed the journal; it is killed in the middle of reading it.
    const [victim] = gateway.all
    await victim?.end('SIGKILL')
    await valkey.kill()
    await delay(1_500)
    await valkey.start()
    await delay(3_000)
    await victim?.start()
  }
  async function caller(): Promise<void> {
    while (sent < responses) {
      sent += 1
      if (sent === responses / 2) happening = midway()
      const user = random.below(users.length)
      const tokens = 1 + random.below(5_000)
      const streamed = random.below(4) === 0
      try {
        await gateway.spend(users[user] as string, tokens, streamed ? { streamMs: 100 } : {})
        sums[user] = (sums[user] as number) + tokens
      } catch {
        // Its Check was under way to the process that died: 503, and the model was not asked.
        refused += 1
      }
    }
  }
  const begin = performance.now()
  await Promise.all(Array.from({ length: connections }, caller))
  await happening
  const seconds = (performance.now() - begin) / 1_000
  await poll(async () => (await gateway.model.tally()).open === 0, 'the model is done')
  await gateway.readUp()

  const keys = users.map((user) =>
    redisKey({ key: `plenty\nllm/sim\n${hour}\n${user}`, windowMs: hour }),
  )
  t.strictSame((await valkey.client.mget(keys)).map(Number), sums)
  const total = sums.reduce((sum, each) => sum + each, 0)
  t.equal((await gateway.model.tally()).totalTokens, total, 'as the model has reported')
  t.ok(refused < connections + processes, `${refused} refused`)
  t.comment(
    `${responses - refused} responses, ${total} tokens in ${seconds.toFixed(0)} s, ` +
      `${refused} refused, each of ${users.length} sums exact, ${gateway.files().length} files`,
  )
})
