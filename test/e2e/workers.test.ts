import root, { type Test } from 'tap'
import { everyProcessIsAsked } from '../support/envoy.ts'
import { envoyPath } from '../support/envoy-binary.ts'
import { type Journaled, startJournaled } from '../support/journaled.ts'
import { readScrape, type Scrape } from '../support/metrics.ts'
import { poll } from '../support/poll.ts'
import { counts, ofTwo, workersOf } from '../support/workers.ts'

const skip = envoyPath() === undefined && 'no Envoy'

async function scrape({ METRICS_ADDRESS: at }: Record<string, string>): Promise<Scrape> {
  return readScrape(await (await fetch(`http://${at}/metrics`)).text())
}

async function readiness(at: string): Promise<{ status: number; degraded?: readonly string[] }> {
  const answer = await fetch(`http://${at}/readyz`)
  return { ...((await answer.json()) as object), status: answer.status }
}

/** Sends concurrent requests of `tokens` each until stopped; resolves with their number. */
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

root.test('a service with two workers', { skip }, async (t) => {
  const env = await ofTwo()
  const gateway = await startJournaled(t as Test, { env })
  const [service] = gateway.all
  if (service === undefined) throw new Error('no service')
  t.equal(workersOf(service.pid).length, 2)
  /** Waits until both workers are running and Envoy uses both. */
  const bothAreAsked = async (): Promise<void> => {
    await poll(
      async () => (await scrape(env)).value('tollgate_workers') === 2,
      'both workers are running',
      60_000,
    )
    await everyProcessIsAsked(gateway.envoy)
  }

  await t.test('both respond, and one scrape has the sum', async (t) => {
    const load = spendOn(gateway, 'ann', 7, 8)
    await poll(() => load.answered >= 200, 'many responses', 60_000)
    const answered = await load.stop()
    t.strictSame(load.failures, [])
    await poll(async () => {
      const hits = (await scrape(env)).value('authorized_hits_total', {
        ...{ user: 'ann', subscription: 'plenty', model: 'llm/sim' },
      })
      return hits === 7 * answered
    }, 'the metrics include all responses')
    const shown = await scrape(env)
    const labels = { user: 'ann', subscription: 'plenty' }
    // On a slow machine Envoy retries a late Check at the other worker.
    t.ok((shown.value('authorized_calls_total', labels) ?? 0) >= answered)
    t.equal(shown.value('tollgate_workers'), 2)
    const checks = shown.value('tollgate_check_duration_seconds_count') ?? 0
    t.ok(checks >= answered, 'histograms are summed too')
    await counts(gateway, 'ann', 7 * answered)
  })

  await t.test('a killed worker loses no response and no token', async (t) => {
    const before = await gateway.used('bob')
    const asked = (await gateway.model.tally()).totalTokens
    const hitsOf = async () =>
      (await scrape(env)).value('authorized_calls_total', { user: 'bob', subscription: 'plenty' })
    const load = spendOn(gateway, 'bob', 11, 8)
    let most = 0
    for (let kill = 0; kill < 2; kill += 1) {
      const beginning = load.answered
      await poll(() => load.answered >= beginning + 40, 'it is under load', 60_000)
      const shown = (await hitsOf()) ?? 0
      t.ok(shown >= most, 'no counter decreases')
      most = shown
      const [victim = 0] = workersOf(service.pid)
      process.kill(victim, 'SIGKILL')
      await poll(async () => {
        const { status, degraded } = await readiness(service.internal)
        return status === 200 && degraded?.includes('workers')
      }, '/readyz reports the missing worker')
      await bothAreAsked()
    }
    const answered = await load.stop()
    t.strictSame(load.failures, [], 'each response was 200')
    await gateway.readUp()
    // Exactly these responses are counted; the model server's own tally may be larger.
    await counts(gateway, 'bob', before + 11 * answered)
    const { totalTokens } = await gateway.model.tally()
    t.ok(totalTokens - asked >= 11 * answered)
    t.equal((await scrape(env)).value('tollgate_worker_restarts_total'), 2)
  })

  await t.test('a worker that gets SIGTERM hands over and is replaced', async (t) => {
    const used = await gateway.used('ann')
    await gateway.spend('ann', 13)
    for (const worker of workersOf(service.pid)) process.kill(worker, 'SIGTERM')
    await poll(
      async () => (await scrape(env)).value('tollgate_worker_restarts_total') === 4,
      'both were replaced',
      60_000,
    )
    await bothAreAsked()
    const labels = { user: 'ann', subscription: 'plenty', model: 'llm/sim' }
    t.ok(((await scrape(env)).value('authorized_hits_total', labels) ?? 0) >= 13)
    await counts(gateway, 'ann', used + 13)
  })

  await t.test('a hanging worker is killed and replaced', async (t) => {
    const restarts = async () => (await scrape(env)).value('tollgate_worker_restarts_total') ?? 0
    const [before, used] = [await restarts(), await gateway.used('bob')]
    const [victim = 0] = workersOf(service.pid)
    process.kill(victim, 'SIGSTOP')
    const load = spendOn(gateway, 'bob', 3, 4)
    await poll(async () => (await restarts()) === before + 1, 'the worker was replaced', 60_000)
    await bothAreAsked()
    const answered = await load.stop()
    t.strictSame(load.failures, [], 'each response was 200')
    await gateway.readUp()
    await counts(gateway, 'bob', used + 3 * answered)
    t.notOk(workersOf(service.pid).includes(victim))
  })
})
