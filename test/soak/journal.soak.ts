import { copyFileSync, truncateSync } from 'node:fs'
import { setTimeout as delay } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { envoyPath } from '../support/envoy-binary.ts'
import { type Journaled, startJournaled } from '../support/journaled.ts'
import { poll } from '../support/poll.ts'
import { createRandom } from '../support/random.ts'
import { redisKey } from '../support/redis-world.ts'
import { type RunningValkey, skipValkey, startValkey } from '../support/valkey.ts'

const skip = envoyPath() === undefined ? 'no Envoy' : skipValkey
const processes = 4
const connections = 64
const responses = 20_000
const hour = 3_600_000
const users = Array.from({ length: 200 }, (_, i) => `user-${i}`)

interface Outcome {
  /** The tokens of each user that the model reported, and those that Redis has in the end. */
  readonly sums: readonly number[]
  readonly stored: readonly number[]
  /** The part of `sums` that was requested in the seconds around the loss of Redis. */
  readonly aroundLoss: readonly number[]
  readonly refused: number
  readonly comment: string
}

/** Sends requests on many connections, kills a process and Redis midway, and adds up the tokens. */
async function spendThrough(
  t: Test,
  valkey: RunningValkey,
  gateway: Journaled,
  midway: () => Promise<void>,
): Promise<Outcome> {
  const random = createRandom()
  t.comment(`seed ${random.seed}`)
  const [sums, aroundLoss] = [users.map(() => 0), users.map(() => 0)]
  let sent = 0
  let refused = 0
  let isAround = false
  let happening: Promise<void> | undefined

  async function caller(): Promise<void> {
    while (sent < responses) {
      sent += 1
      if (sent === responses / 2) {
        happening = midway().finally(() => {
          isAround = false
        })
      }
      // Requests that are pending when Redis is lost may be lost as well.
      if (sent === responses / 2 - 2 * connections) isAround = true
      const user = random.below(users.length)
      const tokens = 1 + random.below(5_000)
      const streamed = random.below(4) === 0
      const isOfLoss = isAround
      try {
        await gateway.spend(users[user] as string, tokens, streamed ? { streamMs: 100 } : {})
        sums[user] = (sums[user] as number) + tokens
        if (isOfLoss) aroundLoss[user] = (aroundLoss[user] as number) + tokens
      } catch {
        // Its Check was pending at the killed process: 503, and the model got no request.
        refused += 1
      }
    }
  }
  const begin = performance.now()
  await Promise.all(Array.from({ length: connections }, caller))
  await happening
  const seconds = (performance.now() - begin) / 1_000
  await poll(async () => (await gateway.model.tally()).open === 0, 'all responses have ended')
  await gateway.readUp()
  t.ok(refused < connections + processes, `${refused} refused`)
  const total = sum(sums)
  t.equal((await gateway.model.tally()).totalTokens, total, 'the sum that the model reported')
  const keys = users.map((user) =>
    redisKey({ key: `plenty\nllm/sim\n${hour}\n${user}`, windowMs: hour }),
  )
  const stored = (await valkey.client.mget(keys)).map(Number)
  const comment =
    `${responses - refused} responses, ${total} tokens in ${seconds.toFixed(0)} s, ` +
    `${refused} refused, ${gateway.files().length} files`
  return { sums, stored, aroundLoss, refused, comment }
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, each) => total + each, 0)
}

t.test('kill -9 and a restarted Redis lose nothing', { skip }, async (t) => {
  const valkey = await startValkey(t, ['--appendonly', 'yes', '--appendfsync', 'always'])
  const gateway = await startJournaled(t, {
    count: processes,
    users,
    env: { REDIS_URL: valkey.url, LOG_LEVEL: 'warn', USAGE_JOURNAL_BYTES: '1048576' },
  })
  const { stored, sums, comment } = await spendThrough(t, valkey, gateway, async () => {
    // The first process claimed the journal; it is killed while it reads.
    const [victim] = gateway.all
    await victim?.end('SIGKILL')
    await valkey.kill()
    await delay(1_500)
    await valkey.start()
    await delay(3_000)
    await victim?.start()
  })
  t.strictSame(stored, sums)
  t.comment(`${comment}; each of ${users.length} sums exact`)
})

t.test('an empty Redis never counts too much', { skip }, async (t) => {
  const valkey = await startValkey(t)
  const gateway = await startJournaled(t, {
    count: processes,
    users,
    env: { REDIS_URL: valkey.url, LOG_LEVEL: 'warn' },
  })
  const outcome = await spendThrough(t, valkey, gateway, async () => {
    await valkey.kill()
    // As logrotate does; no process knows that the copy has been counted.
    copyFileSync(gateway.path, `${gateway.path}.1`)
    truncateSync(gateway.path)
    await delay(1_500)
    await valkey.start()
    // A new Redis accepts single responses after five seconds.
    await delay(6_000)
  })
  const { sums, stored, aroundLoss } = outcome
  for (const [user, most] of sums.entries()) {
    const [has, least] = [stored[user] as number, most - (aroundLoss[user] as number)]
    t.ok(least <= has && has <= most, `${users[user]}: ${least} <= ${has} <= ${most}`)
  }
  t.comment(
    `${outcome.comment}; ${sum(sums) - sum(stored)} tokens missing, ` +
      `of ${sum(aroundLoss)} that came in around the loss`,
  )
})
