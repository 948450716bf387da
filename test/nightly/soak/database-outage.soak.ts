import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import t from 'tap'
import { startEmbeddedPostgres } from '../../../dev/postgres/embedded-postgres.ts'
import { envoyPath } from '../../support/envoy-binary.ts'
import { poll } from '../../support/poll.ts'
import { startRevoking } from '../../support/revoking.ts'
import { percentile, type Shot, startLoad, tally } from '../../support/steady-load.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

const skip = envoyPath() === undefined && 'no Envoy'
const perSecond = 500
const knownKeys = 50
const awayMs = 60_000

function show(shots: readonly Shot[]): string {
  const tookMs = shots.map(({ sentAt, endedAt }) => endedAt - sentAt)
  const at = (share: number) => percentile(tookMs, share).toFixed(1)
  return `${shots.length} requests, p50 ${at(0.5)} ms, p99 ${at(0.99)} ms, most ${at(1)} ms`
}

t.test('Postgres is stopped for a minute', { skip, timeout: 300_000 }, async (t) => {
  const directory = join(temporaryFolder(t), 'postgres')
  let database = await startEmbeddedPostgres({ directory, log() {} })
  t.teardown(() => database.stop())
  const { port, url } = database
  const world = await startRevoking(t, { count: 1, databaseFor: async () => url })
  const keys: string[] = []
  for (let i = 0; i < knownKeys; i += 1) keys.push((await world.mint()).key)
  const unseen = (await world.mint()).key
  for (const key of keys) t.strictSame(await world.statuses(key), [200])

  const load = startLoad(perSecond, (n) => world.chat(keys[n % knownKeys] as string))
  await delay(5_000)
  const stoppedAt = performance.now()
  await database.stop()
  await delay(awayMs)
  t.strictSame(await world.statuses(unseen), [503], 'a key that is not cached')
  database = await startEmbeddedPostgres({ directory, port, log() {} })
  const startedAt = performance.now()
  await poll(async () => (await world.statuses(unseen))[0] === 200, 'the service recovers', 30_000)
  const healedAt = performance.now()
  await delay(5_000)
  const shots = await load.stop()

  t.strictSame(Object.keys(tally(shots)), ['200'], 'no request failed')
  for (const [name, from, to] of [
    ['before', 0, stoppedAt],
    ['during the outage', stoppedAt, startedAt],
    ['afterwards', healedAt, Number.POSITIVE_INFINITY],
  ] as const) {
    t.comment(`${name}: ${show(shots.filter(({ sentAt }) => sentAt >= from && sentAt < to))}`)
  }
  t.comment(`healed ${(healedAt - startedAt).toFixed(0)} ms after it was back`)
})
