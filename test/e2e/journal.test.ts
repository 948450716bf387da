import {
  copyFileSync,
  existsSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  truncateSync,
} from 'node:fs'
import root, { type Test } from 'tap'
import { openPool } from '../../src/store/postgres/postgres.ts'
import { envoyPath } from '../support/envoy-binary.ts'
import { type Journaled, positionOf, startJournaled } from '../support/journaled.ts'
import { poll } from '../support/poll.ts'
import { skipValkey, startValkey } from '../support/valkey.ts'

const skip = envoyPath() === undefined && 'no Envoy'
const skipRedis = skip || skipValkey

/** Kills the service while ten streams run for each user, and starts it once they have ended. */
async function killWhileStreaming(t: Test, gateway: Journaled): Promise<void> {
  const [service] = gateway.all
  await gateway.spend('ann', 1_000)
  const { open } = await gateway.model.tally()
  const streams = Array.from({ length: 20 }, (_, i) =>
    gateway.spend(i % 2 === 0 ? 'ann' : 'bob', i + 1, { streamMs: 2_000 }),
  )
  await poll(async () => (await gateway.model.tally()).open === open + 20, 'they have begun')
  t.equal(await service?.end('SIGKILL'), 'SIGKILL')
  await Promise.all(streams)
  await service?.start()
  await gateway.readUp()
  t.equal(await gateway.used('ann'), 1_100)
  t.equal(await gateway.used('bob'), 110)
  // And again, where everything has been counted before.
  await service?.end('SIGKILL')
  await service?.start()
  await gateway.readUp()
  t.equal(await gateway.used('ann'), 1_100, 'counted once only')
  t.equal(await gateway.used('bob'), 110, 'counted once only')
}

const named = ['o"neill\\', 'ömer, 🦊', '{"id":"x"}', 'a%20b\tc', 'broken']
let starting: Promise<Journaled> | undefined

/** What the tests share that ask nothing special of it; each has users of its own. */
function shared(): Promise<Journaled> {
  const users = ['ann', 'bob', 'cyd', 'dan', 'eve', 'fay', ...named]
  starting ??= startJournaled(root as unknown as Test, { users })
  return starting
}

root.test('what ends while the service is dead counts', { skip }, async (t) => {
  await killWhileStreaming(t, await shared())
})

root.test('and counts once in Redis', { skip: skipRedis }, async (t) => {
  const valkey = await startValkey(t)
  const gateway = await startJournaled(t, { env: { REDIS_URL: valkey.url } })
  await killWhileStreaming(t, gateway)

  const [service] = gateway.all
  await service?.end('SIGKILL')
  rmSync(positionOf(gateway.path))
  await service?.start()
  await gateway.readUp()
  t.equal(await gateway.used('ann'), 1_100, 'without the position')
})

root.test('stream and journal count once together', { skip }, async (t) => {
  const users = ['cyd', 'dan', ...named]
  const gateway = await shared()
  // No identity token has such a name; a table that was taken over may.
  const sql = openPool({ url: gateway.database, connections: 1 })
  const renamed = await sql`
    update api_keys set username = ${'line\n{"break"}\r\n\u0001\u2028'} where username = 'broken'`
  t.equal(renamed.count, 1)
  await sql.end()
  const ids: string[] = []
  for (const user of users) {
    for (const headers of [{}, { 'x-request-id': 'mine' }, { 'x-request-id': ids[0] ?? '' }]) {
      ids.push(await gateway.spend(user, 10, { headers }))
    }
  }
  t.equal(new Set(ids).size, ids.length, 'no id is the client’s')
  await gateway.readUp()
  for (const user of users) t.equal(await gateway.used(user), 30, user)

  const [service] = gateway.all
  await service?.end('SIGTERM')
  await service?.start()
  for (const user of users) t.equal(await gateway.used(user), 30, `${user}, by the journal alone`)
})

root.test('rotation under load loses and doubles nothing', { skip }, async (t) => {
  const gateway = await startJournaled(t, { streamed: false, env: { USAGE_JOURNAL_BYTES: '8192' } })
  const total = { ann: 0, bob: 0 }
  const giveUpAt = Date.now() + 60_000
  const seen = new Set<string>()
  const caller = async (user: 'ann' | 'bob'): Promise<void> => {
    for (let i = 1; seen.size < 4 && Date.now() < giveUpAt; i += 1) {
      await gateway.spend(user, i)
      total[user] += i
      for (const file of gateway.files()) seen.add(file)
    }
  }
  await Promise.all(Array.from({ length: 10 }, (_, i) => caller(i < 5 ? 'ann' : 'bob')))
  t.ok(seen.size >= 4, 'it was rotated')
  await gateway.readUp()
  t.equal(await gateway.used('ann'), total.ann)
  t.equal(await gateway.used('bob'), total.bob)
  await poll(() => gateway.files().length <= 5, 'what was read is removed')
})

root.test('another’s rotation and truncation do no harm', { skip }, async (t) => {
  const gateway = await startJournaled(t, { streamed: false })
  await gateway.spend('ann', 1)
  await gateway.readUp()
  renameSync(gateway.path, `${gateway.path}.1`)
  await gateway.spend('ann', 10)
  await fetch(`http://${gateway.envoy.admin}/reopen_logs`, { method: 'POST' })
  await poll(() => existsSync(gateway.path), 'Envoy has begun a new file')
  await gateway.spend('ann', 100)
  await gateway.readUp()
  t.equal(await gateway.used('ann'), 111)
  truncateSync(gateway.path)
  await gateway.spend('ann', 1_000)
  await gateway.readUp()
  t.equal(await gateway.used('ann'), 1_111)
})

root.test('a killed process is made up for', { skip: skipRedis }, async (t) => {
  const valkey = await startValkey(t)
  const gateway = await startJournaled(t, { count: 2, env: { REDIS_URL: valkey.url } })
  // The one that reads it was first to claim it.
  await gateway.readUp()
  const [reader, other] = gateway.all
  let total = 0
  let killed: Promise<unknown> | undefined
  const caller = async (first: number): Promise<void> => {
    for (let i = 1; i <= 60; i += 1) {
      if (first === 0 && i === 30) killed = reader?.end('SIGKILL')
      // What was under way to the dead process is refused; Envoy learns of it at once.
      const done = await gateway.spend('ann', first + i).catch(() => undefined)
      if (done !== undefined) total += first + i
    }
  }
  await Promise.all(Array.from({ length: 8 }, (_, i) => caller(1_000 * i)))
  t.equal(await killed, 'SIGKILL')
  await gateway.readUp()
  t.equal(await gateway.used('ann'), total)
  t.notMatch(other?.log(), 'fault')
  t.match(JSON.parse(readFileSync(positionOf(gateway.path), 'utf8')), { places: [{}] })
})

root.test('a Redis that was flushed counts nothing twice', { skip: skipRedis }, async (t) => {
  const valkey = await startValkey(t)
  const gateway = await startJournaled(t, { count: 2, env: { REDIS_URL: valkey.url } })
  for (let i = 0; i < 50; i += 1) await gateway.spend('ann', 100)
  await gateway.readUp()
  // A Redis that is new takes what answers used after its first five seconds.
  await poll(async () => (await gateway.used('ann')) === 5_000, 'all is counted', 30_000)
  await valkey.client.flushall()
  // Whoever reads the copy finds lines that nobody remembers to have counted.
  copyFileSync(gateway.path, `${gateway.path}.1`)
  truncateSync(gateway.path)
  for (let i = 0; i < 10; i += 1) await gateway.spend('ann', 10)
  await gateway.readUp()
  const spent = await poll(async () => {
    const used = await gateway.used('ann')
    return used >= 5_100 && used
  }, 'what came in since is counted')
  t.equal(spent, 5_100)
  for (const { log } of gateway.all) t.match(log(), 'Redis has lost its counters')
})

async function degraded({ all: [service] }: Journaled): Promise<unknown> {
  const answer = await fetch(`http://${service?.internal}/readyz`)
  return ((await answer.json()) as { degraded?: unknown }).degraded
}

root.test('a journal that was removed is made again', { skip }, async (t) => {
  const gateway = await shared()
  await gateway.spend('eve', 1)
  await gateway.readUp()
  rmSync(gateway.path)
  await poll(() => existsSync(gateway.path), 'it is there again', 5_000)
  const [service] = gateway.all
  await poll(() => service?.log().includes('the usage journal was removed'), 'it says so', 5_000)
  // The counters begin with what the journal holds, which is this alone.
  await gateway.spend('eve', 10)
  await service?.end('SIGKILL')
  await service?.start()
  await gateway.readUp()
  t.equal(await gateway.used('eve'), 10)
})

root.test('a journal that cannot be written is told of', { skip }, async (t) => {
  const gateway = await shared()
  const [service] = gateway.all
  await gateway.spend('fay', 1)
  await gateway.readUp()
  t.equal(await degraded(gateway), undefined)
  // A disk that is full.
  renameSync(gateway.path, `${gateway.path}.1`)
  symlinkSync('/dev/full', gateway.path)
  await fetch(`http://${gateway.envoy.admin}/reopen_logs`, { method: 'POST' })
  const began = performance.now()
  await poll(
    async () => {
      await gateway.spend('fay', 1)
      return degraded(gateway)
    },
    'it is noticed',
    20_000,
  )
  t.comment(`after ${Math.round(performance.now() - began)} ms`)
  t.strictSame(await degraded(gateway), ['journal'])
  const isLogged = (line: string) => poll(() => service?.log().includes(line), `it logs: ${line}`)
  await isLogged('the usage journal does not grow although responses end')
  rmSync(gateway.path)
  await poll(() => existsSync(gateway.path), 'Envoy opens it anew')
  await gateway.spend('fay', 1)
  await poll(async () => (await degraded(gateway)) === undefined, 'all is well')
  await isLogged('the usage journal is written again')
})
