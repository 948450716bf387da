import { setTimeout as delay } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { startEmbeddedPostgres } from '../../../dev/postgres/embedded-postgres.ts'
import { envoyPath } from '../../support/envoy-binary.ts'
import { freePorts } from '../../support/free-ports.ts'
import { poll } from '../../support/poll.ts'
import { type RevokingReplicas, startRevoking } from '../../support/revoking.ts'
import { percentile, startLoad, tally } from '../../support/steady-load.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

const skip = envoyPath() === undefined && 'no Envoy'
const perSecond = 500
const revocations = 200

/** Polls a replica until it refuses the key; returns the time of the first refusal. */
async function firstRefusal(pair: RevokingReplicas, replica: number, key: string): Promise<number> {
  for (;;) {
    if ((await pair.status(replica, key)) === 401) return performance.now()
    await delay(1)
  }
}

function show(values: readonly number[]): string {
  return `p50 ${percentile(values, 0.5).toFixed(1)} ms, p99 ${percentile(values, 0.99).toFixed(1)} ms`
}

t.test('200 revocations under load', { skip, timeout: 300_000 }, async (t) => {
  const pair = await startRevoking(t, { count: 2 })
  const lags: number[][] = [[], []]
  const confirmations: number[] = []
  let key = (await pair.mint()).key
  // Responses for a key after its revocation was confirmed.
  const load = startLoad(perSecond, () => pair.chat(key))
  for (let round = 0; round < revocations; round += 1) {
    const fresh = await pair.mint()
    key = fresh.key
    t.strictSame(await pair.statuses(fresh.key), [200, 200])
    await delay(20)
    const sentAt = performance.now()
    const refusals = lags.map((_, replica) => firstRefusal(pair, replica, fresh.key))
    const propagation = await pair.revoke(fresh.id)
    const confirmedAt = performance.now()
    confirmations.push(confirmedAt - sentAt)
    t.strictSame(propagation, { state: 'confirmed', replicas: 2, acknowledged: 2 })
    const since = load.shots.length
    await poll(() => load.shots.length > since + 10, 'later requests')
    const passed = load.shots
      .slice(since)
      .filter(({ sentAt, status }) => sentAt > confirmedAt && status === 200)
    t.equal(passed.length, 0, 'no request is allowed')
    for (const [replica, refusal] of (await Promise.all(refusals)).entries()) {
      lags[replica]?.push(refusal - sentAt)
    }
  }
  const shots = await load.stop()
  t.strictSame(tally(shots.filter(({ status }) => status !== 200 && status !== 401)), {})
  for (const [replica, values] of lags.entries()) {
    t.comment(`first refusal by replica ${replica + 1}: ${show(values)}`)
  }
  t.comment(`confirmed answer: ${show(confirmations)}; ${shots.length} requests in the background`)
})

/** A separate Postgres that can be stopped and started. */
async function startPostgres(t: Test) {
  const directory = temporaryFolder(t)
  const [port = 0] = await freePorts(1)
  let server = await startEmbeddedPostgres({ directory, log() {}, port })
  t.teardown(() => server.stop())
  return {
    url: server.url,
    stop: () => server.stop(),
    async start() {
      server = await startEmbeddedPostgres({ directory, log() {}, port })
    },
  }
}

t.test('a minute without the database', { skip, timeout: 300_000 }, async (t) => {
  const postgres = await startPostgres(t)
  const pair = await startRevoking(t, { count: 2, database: postgres.url })
  const keys = await Promise.all(Array.from({ length: 20 }, () => pair.mint()))
  for (const { key } of keys) t.strictSame(await pair.statuses(key), [200, 200])
  const unused = await pair.mint()
  const load = startLoad(perSecond, (n) =>
    pair.chat((keys[n % keys.length] as { key: string }).key),
  )
  await delay(2_000)
  const before = load.shots.length
  await postgres.stop()
  await delay(60_000)
  t.strictSame(await pair.statuses(unused.key), [503, 503], 'an unknown key is not 401')
  await t.rejects(pair.revoke(unused.id), { message: /503/ })
  await t.rejects(pair.mint(), { message: /503/ })
  const during = load.shots.length
  await postgres.start()
  await poll(
    async () => (await pair.statuses(unused.key)).every((status) => status === 200),
    'both replicas recover',
    30_000,
  )
  const { id, key } = await pair.mint()
  await poll(async () => (await pair.mint()).id !== '', 'keys can be created')
  t.strictSame(await pair.statuses(key), [200, 200])
  t.match(await pair.revoke(id), { state: 'confirmed' })
  t.strictSame(await pair.statuses(key), [401, 401])
  const shots = await load.stop()
  t.strictSame(tally(shots), { 200: shots.length }, 'no request failed')
  const took = (some: typeof shots) => show(some.map(({ sentAt, endedAt }) => endedAt - sentAt))
  t.comment(
    `with the database: ${took(shots.slice(0, before))}; without: ${took(shots.slice(before, during))}`,
  )
})
