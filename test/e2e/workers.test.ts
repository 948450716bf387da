import { setTimeout as delay } from 'node:timers/promises'
import root, { type Test } from 'tap'
import { envoyPath } from '../support/envoy-binary.ts'
import { freePorts } from '../support/free-ports.ts'
import { gatewayTests, meter, models, subscriptions } from '../support/gateway.ts'
import { type Journaled, startJournaled } from '../support/journaled.ts'
import { readScrape, type Scrape } from '../support/metrics.ts'
import { poll } from '../support/poll.ts'
import { startRevoking } from '../support/revoking.ts'
import { gone, workersOf } from '../support/workers.ts'

const skip = envoyPath() === undefined && 'no Envoy'

/** Settings of a service of two workers that write to its log. */
async function ofTwo(): Promise<Record<string, string>> {
  const ports = await freePorts(3)
  const [first, second, metrics] = ports.map((port) => `127.0.0.1:${port}`)
  return { WORKERS: '2', GRPC_ADDRESS: `${first},${second}`, METRICS_ADDRESS: metrics as string }
}

async function scrape({ METRICS_ADDRESS: at }: Record<string, string>): Promise<Scrape> {
  return readScrape(await (await fetch(`http://${at}/metrics`)).text())
}

async function readiness(at: string): Promise<{ status: number; degraded?: readonly string[] }> {
  const answer = await fetch(`http://${at}/readyz`)
  return { ...((await answer.json()) as object), status: answer.status }
}

/** Waits until every worker knows of so many tokens, which a view may take 80 ms for; and not more. */
async function counts(gateway: Journaled, user: string, expected: number): Promise<void> {
  let agreed = 0
  let used = 0
  await poll(async () => {
    used = await gateway.used(user)
    if (used > expected) throw new Error(`${used} tokens are counted of ${expected}`)
    agreed = used === expected ? agreed + 1 : 0
    return agreed > 10
  }, `${expected} tokens are counted`).catch((error) => {
    throw new Error(`${user} has used ${used} of ${expected}`, { cause: error })
  })
}

/** Requests side by side until told to stop, each of `tokens`; settles with how many there were. */
function spendOn(gateway: Journaled, user: string, tokens: number, lanes: number) {
  let running = true
  let answered = 0
  const failures: string[] = []
  const lane = async (): Promise<void> => {
    while (running) {
      await gateway.spend(user, tokens).then(
        () => {
          answered += 1
        },
        (error: unknown) => failures.push(String(error)),
      )
    }
  }
  const over = Promise.all(Array.from({ length: lanes }, lane))
  return {
    failures,
    get answered() {
      return answered
    },
    async stop(): Promise<number> {
      running = false
      await over
      return answered
    },
  }
}

root.test('a service of two workers', { skip }, async (t) => {
  const env = await ofTwo()
  const gateway = await startJournaled(t as Test, { env })
  const [service] = gateway.all
  if (service === undefined) throw new Error('there is none')
  t.equal(workersOf(service.pid).length, 2)

  await t.test('both answer, and one scrape tells of all', async (t) => {
    const load = spendOn(gateway, 'ann', 7, 8)
    await poll(() => load.answered >= 200, 'many have been answered', 60_000)
    const answered = await load.stop()
    t.strictSame(load.failures, [])
    await poll(async () => {
      const hits = (await scrape(env)).value('authorized_hits_total', {
        ...{ user: 'ann', subscription: 'plenty', model: 'llm/sim' },
      })
      return hits === 7 * answered
    }, 'the metrics have all of it')
    const shown = await scrape(env)
    const labels = { user: 'ann', subscription: 'plenty' }
    t.equal(shown.value('authorized_calls_total', labels), answered)
    t.equal(shown.value('tollgate_workers'), 2)
    const checks = shown.value('tollgate_check_duration_seconds_count') ?? 0
    t.ok(checks >= answered, 'a histogram is added up too')
    await counts(gateway, 'ann', 7 * answered)
  })

  await t.test('a killed worker costs no answer and no token', async (t) => {
    const before = await gateway.used('bob')
    const asked = (await gateway.model.tally()).totalTokens
    const hitsOf = async () =>
      (await scrape(env)).value('authorized_calls_total', { user: 'bob', subscription: 'plenty' })
    const load = spendOn(gateway, 'bob', 11, 8)
    let most = 0
    for (let kill = 0; kill < 4; kill += 1) {
      const beginning = load.answered
      await poll(() => load.answered >= beginning + 40, 'it is under load', 60_000)
      const shown = (await hitsOf()) ?? 0
      t.ok(shown >= most, 'no counter goes back')
      most = shown
      const [victim = 0] = workersOf(service.pid)
      process.kill(victim, 'SIGKILL')
      await poll(async () => {
        const { status, degraded } = await readiness(service.internal)
        return status === 200 && degraded?.join() === 'workers'
      }, 'it is missed')
      await poll(async () => (await scrape(env)).value('tollgate_workers') === 2, 'back', 60_000)
    }
    const answered = await load.stop()
    t.strictSame(load.failures, [], 'each was answered with 200')
    await gateway.readUp()
    // What the model server has answered is what is counted, that of the marker left out.
    await counts(gateway, 'bob', before + 11 * answered)
    const { totalTokens } = await gateway.model.tally()
    t.ok(totalTokens - asked >= 11 * answered)
    t.equal((await scrape(env)).value('tollgate_worker_restarts_total'), 4)
  })

  await t.test('the parent takes its workers with it', async (t) => {
    const workers = workersOf(service.pid)
    const used = await gateway.used('bob')
    t.equal(await service.end('SIGKILL'), 'SIGKILL')
    await gone(workers)
    await service.start()
    await gateway.readUp()
    // Counted again from the journal.
    await counts(gateway, 'bob', used)
  })

  await t.test('a stop drains them', async (t) => {
    const workers = workersOf(service.pid)
    const streams = Array.from({ length: 6 }, () => gateway.spend('ann', 5, { streamMs: 1_000 }))
    await delay(300)
    t.equal(await service.end('SIGTERM'), 0)
    await gone(workers)
    await Promise.all(streams)
    await service.start()
  })

  await t.test('one that is asked to end hands over and is replaced', async (t) => {
    const used = await gateway.used('ann')
    await gateway.spend('ann', 13)
    for (const worker of workersOf(service.pid)) process.kill(worker, 'SIGTERM')
    await poll(async () => (await scrape(env)).value('tollgate_worker_restarts_total') === 2, 'new')
    await poll(async () => (await scrape(env)).value('tollgate_workers') === 2, 'back', 60_000)
    const labels = { user: 'ann', subscription: 'plenty', model: 'llm/sim' }
    t.ok(((await scrape(env)).value('authorized_hits_total', labels) ?? 0) >= 13)
    await counts(gateway, 'ann', used + 13)
  })
})

root.test('a confirmed revocation holds at every worker', { skip }, async (t) => {
  const env = await ofTwo()
  const service = await startRevoking(t as Test, { count: 1, env })
  let confirmed = 0
  for (let round = 0; round < 10 && confirmed < 3; round += 1) {
    const { key, id } = await service.mint()
    t.strictSame(await service.statuses(key), [200, 200])
    const { state, replicas } = await service.revoke(id)
    // Where the machine is too busy for a second to be enough, nothing is claimed.
    if (state !== 'confirmed') continue
    confirmed += 1
    t.equal(replicas, 3, 'the workers, and the process that has started them')
    t.strictSame(await service.statuses(key), [401, 401])
  }
  t.ok(confirmed > 0, 'it was confirmed at least once')
})

const narrow = 3_000
const limited = gatewayTests({
  env: { WORKERS: '2' },
  concurrency: 2,
  resources: (backendUrl) => [
    ...models(backendUrl),
    ...subscriptions({ plenty: 1e9, narrow }),
    meter,
  ],
})

limited('a limit holds across workers', async (t, gateway) => {
  const { key } = await gateway.mint({ subscription: 'narrow' })
  const tokens = 10
  const lanes = 8
  let spent = 0
  const lane = async (): Promise<void> => {
    for (;;) {
      const { status } = await gateway.chat(key, { totalTokens: tokens })
      if (status === 429) return
      t.equal(status, 200)
      spent += tokens
    }
  }
  await Promise.all(Array.from({ length: lanes }, lane))
  t.ok(spent >= narrow, `${spent} of ${narrow}`)
  // What is under way when the limit is reached, and what follows before the workers have told.
  t.ok(spent <= narrow + 4 * lanes * tokens, `${spent} of ${narrow}`)
  // One that was not asked for a while decides by what it knew, and asks meanwhile.
  for (let i = 0; i < 10; i += 1) await gateway.isSpent(key)
  await delay(100)
  for (let i = 0; i < 40; i += 1) t.ok(await gateway.isSpent(key))
})
