import { setTimeout as delay } from 'node:timers/promises'
import { isDeepStrictEqual } from 'node:util'
import t, { type Test } from 'tap'
import { envoyPath } from '../../support/envoy-binary.ts'
import { type Journaled, startJournaled } from '../../support/journaled.ts'
import { poll } from '../../support/poll.ts'
import { createRandom } from '../../support/random.ts'
import { type RunningValkey, skipValkey, startValkey } from '../../support/valkey.ts'
import { lasting } from '../../support/window-ends.ts'

const skip = envoyPath() === undefined ? 'no Envoy' : skipValkey
const processes = 4
const connections = 64
const responses = 20_000
const hour = 3_600_000
const users = Array.from({ length: 200 }, (_, i) => lasting(`user-${i}`))

/** Sends requests on many connections, kills what `midway` kills, and compares what is known and stored with what was used. */
async function spendThrough(
  t: Test,
  valkey: RunningValkey,
  gateway: Journaled,
  midway: () => Promise<void>,
): Promise<void> {
  const random = createRandom()
  t.comment(`seed ${random.seed}`)
  const sums = users.map(() => 0)
  let sent = 0
  let refused = 0
  let happening: Promise<void> | undefined

  async function caller(): Promise<void> {
    while (sent < responses) {
      sent += 1
      if (sent === responses / 2) {
        happening = midway()
      }
      const user = random.below(users.length)
      const tokens = 1 + random.below(5_000)
      const streamed = random.below(4) === 0
      try {
        await gateway.spend(users[user] as string, tokens, streamed ? { streamMs: 100 } : {})
        sums[user] = (sums[user] as number) + tokens
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
  await gateway.flushed()
  t.ok(refused < connections + processes, `${refused} refused`)
  const total = sum(sums)
  t.equal((await gateway.model.tally()).totalTokens, total, 'the sum that the model reported')
  const known: number[] = []
  for (const user of users) known.push(await gateway.used(user))
  const stored = async (): Promise<readonly number[]> => {
    const totals = new Map<string, number>()
    for (const key of await valkey.client.keys(`tollgate:{*}:w:plenty\nllm/sim\n${hour}\n*`)) {
      const user = key.slice(key.lastIndexOf('\n') + 1, key.lastIndexOf('@'))
      totals.set(user, Number(await valkey.client.hget(key, '+')))
    }
    return users.map((user) => totals.get(user) ?? 0)
  }
  await poll(async () => isDeepStrictEqual(await stored(), sums), 'Redis has all of it', 60_000)
  t.strictSame(known, sums)
  t.comment(
    `${responses - refused} responses, ${total} tokens in ${seconds.toFixed(0)} s, ` +
      `${refused} refused; each of ${users.length} sums exact`,
  )
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
  await spendThrough(t, valkey, gateway, async () => {
    // The first process writes for the gateway; it is killed while it does.
    const [victim] = gateway.all
    await victim?.end('SIGKILL')
    await valkey.kill()
    await delay(1_500)
    await valkey.start()
    await delay(3_000)
    await victim?.start()
  })
})

t.test('an empty Redis gets everything again', { skip }, async (t) => {
  const valkey = await startValkey(t)
  const gateway = await startJournaled(t, {
    count: processes,
    users,
    env: { REDIS_URL: valkey.url, LOG_LEVEL: 'warn' },
  })
  await spendThrough(t, valkey, gateway, async () => {
    await valkey.kill()
    await delay(1_500)
    await valkey.start()
  })
})
