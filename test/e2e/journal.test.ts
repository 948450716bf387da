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
import { mountSmallDisk, skipSmallDisk } from '../support/small-disk.ts'
import { skipValkey, startValkey } from '../support/valkey.ts'

const skip = envoyPath() === undefined && 'no Envoy'
const skipRedis = skip || skipValkey

/** Kills the service while ten streams run for each user, and restarts it after they have ended. */
async function killWhileStreaming(t: Test, gateway: Journaled): Promise<void> {
  const [service] = gateway.all
  await gateway.spend('ann', 1_000)
  const { open } = await gateway.model.tally()
  const streams = Array.from({ length: 20 }, (_, i) =>
    gateway.spend(i % 2 === 0 ? 'ann' : 'bob', i + 1, { streamMs: 2_000 }),
  )
  await poll(async () => (await gateway.model.tally()).open === open + 20, 'all streams have begun')
  t.equal(await service?.end('SIGKILL'), 'SIGKILL')
  await Promise.all(streams)
  await service?.start()
  await gateway.readUp()
  t.equal(await gateway.used('ann'), 1_100)
  t.equal(await gateway.used('bob'), 110)
  // Once more, when everything has been counted before.
  await service?.end('SIGKILL')
  await service?.start()
  await gateway.readUp()
  t.equal(await gateway.used('ann'), 1_100, 'counted once')
  t.equal(await gateway.used('bob'), 110, 'counted once')
}

const named = ['o"neill\\', 'ömer, 🦊', '{"id":"x"}', 'a%20b\tc', 'broken']
let starting: Promise<Journaled> | undefined

/** For tests without special requirements; each uses its own users. */
function shared(): Promise<Journaled> {
  const users = ['ann', 'bob', 'cyd', 'dan', 'eve', 'fay', ...named]
  starting ??= startJournaled(root as unknown as Test, { users })
  return starting
}

root.test('counts responses that end while the service is down', { skip }, async (t) => {
  await killWhileStreaming(t, await shared())
})

root.test('counts them once in Redis', { skip: skipRedis }, async (t) => {
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

root.test('counts a response in stream and journal once', { skip }, async (t) => {
  const users = ['cyd', 'dan', ...named]
  const gateway = await shared()
  // Identity tokens cannot have such a name, but a table that was taken over can.
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
  t.equal(new Set(ids).size, ids.length, "the client's request ids are not used")
  await gateway.readUp()
  for (const user of users) t.equal(await gateway.used(user), 30, user)

  const [service] = gateway.all
  await service?.end('SIGTERM')
  await service?.start()
  for (const user of users) t.equal(await gateway.used(user), 30, `${user}, by the journal alone`)
})

root.test('a reset is not undone when the journal is read again', { skip }, async (t) => {
  const gateway = await startJournaled(t, { env: { ADMIN_GROUPS: 'team' } })
  await gateway.spend('ann', 1_000)
  await gateway.spend('bob', 100)
  await gateway.readUp()
  t.equal(await gateway.used('ann'), 1_000)
  const reset = await fetch(`${gateway.url}/v1/counters/reset`, {
    method: 'POST',
    headers: { authorization: 'Bearer token-1' },
    body: JSON.stringify({ user: 'ann' }),
  })
  t.match(await reset.json(), { reset: [{ used: 1_000 }] })
  t.equal(await gateway.used('ann'), 0)
  const [service] = gateway.all
  await service?.end('SIGKILL')
  await service?.start()
  await gateway.readUp()
  t.equal(await gateway.used('ann'), 0)
  t.equal(await gateway.used('bob'), 100)
  await gateway.spend('ann', 10)
  await gateway.readUp()
  t.equal(await gateway.used('ann'), 10)
})

root.test('rotation under load neither loses nor repeats a line', { skip }, async (t) => {
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
  t.ok(seen.size >= 4, 'the journal was rotated')
  await gateway.readUp()
  t.equal(await gateway.used('ann'), total.ann)
  t.equal(await gateway.used('bob'), total.bob)
  await poll(() => gateway.files().length <= 5, 'old files are removed')
})

root.test('tolerates rotation and truncation by others', { skip }, async (t) => {
  const gateway = await startJournaled(t, { streamed: false })
  await gateway.spend('ann', 1)
  await gateway.readUp()
  renameSync(gateway.path, `${gateway.path}.1`)
  await gateway.spend('ann', 10)
  await fetch(`http://${gateway.envoy.admin}/reopen_logs`, { method: 'POST' })
  await poll(() => existsSync(gateway.path), 'Envoy has opened a new file')
  await gateway.spend('ann', 100)
  await gateway.readUp()
  t.equal(await gateway.used('ann'), 111)
  truncateSync(gateway.path)
  await gateway.spend('ann', 1_000)
  await gateway.readUp()
  t.equal(await gateway.used('ann'), 1_111)
})

root.test('the journal makes up for a killed process', { skip: skipRedis }, async (t) => {
  const valkey = await startValkey(t)
  const gateway = await startJournaled(t, { count: 2, env: { REDIS_URL: valkey.url } })
  // The process that reads the journal was the first to claim it.
  await gateway.readUp()
  const [reader, other] = gateway.all
  let total = 0
  let killed: Promise<unknown> | undefined
  const caller = async (first: number): Promise<void> => {
    for (let i = 1; i <= 60; i += 1) {
      if (first === 0 && i === 30) killed = reader?.end('SIGKILL')
      // Requests in progress at the killed process fail; Envoy notices at once.
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

root.test('counts nothing twice after Redis was flushed', { skip: skipRedis }, async (t) => {
  const valkey = await startValkey(t)
  const gateway = await startJournaled(t, { count: 2, env: { REDIS_URL: valkey.url } })
  for (let i = 0; i < 50; i += 1) await gateway.spend('ann', 100)
  await gateway.readUp()
  // A new Redis accepts usage only after its first five seconds.
  await poll(async () => (await gateway.used('ann')) === 5_000, 'everything is counted', 30_000)
  await valkey.client.flushall()
  // The copy has lines that Redis no longer knows to be counted.
  copyFileSync(gateway.path, `${gateway.path}.1`)
  truncateSync(gateway.path)
  for (let i = 0; i < 10; i += 1) await gateway.spend('ann', 10)
  await gateway.readUp()
  const spent = await poll(async () => {
    const used = await gateway.used('ann')
    return used >= 5_100 && used
  }, 'later usage is counted')
  t.equal(spent, 5_100)
  for (const { log } of gateway.all) t.match(log(), 'Redis has lost its counters')
})

async function degraded({ all: [first] }: Journaled, service = first): Promise<unknown> {
  const answer = await fetch(`http://${service?.internal}/readyz`)
  return ((await answer.json()) as { degraded?: unknown }).degraded
}

root.test('recreates a journal that was deleted', { skip }, async (t) => {
  const gateway = await shared()
  await gateway.spend('eve', 1)
  await gateway.readUp()
  rmSync(gateway.path)
  await poll(() => existsSync(gateway.path), 'the journal exists again', 5_000)
  const [service] = gateway.all
  await poll(
    () => service?.log().includes('the usage journal was removed'),
    'the deletion is logged',
    5_000,
  )
  // The counters are rebuilt from the journal, which contains only this line.
  await gateway.spend('eve', 10)
  await service?.end('SIGKILL')
  await service?.start()
  await gateway.readUp()
  t.equal(await gateway.used('eve'), 10)
})

root.test('reports a journal that cannot be written', { skip }, async (t) => {
  const gateway = await shared()
  const [service] = gateway.all
  await gateway.spend('fay', 1)
  await gateway.readUp()
  t.equal(await degraded(gateway), undefined)
  // A full disk.
  renameSync(gateway.path, `${gateway.path}.1`)
  symlinkSync('/dev/full', gateway.path)
  await fetch(`http://${gateway.envoy.admin}/reopen_logs`, { method: 'POST' })
  const began = performance.now()
  await poll(
    async () => {
      await gateway.spend('fay', 1)
      return degraded(gateway)
    },
    'the problem is reported',
    20_000,
  )
  t.comment(`after ${Math.round(performance.now() - began)} ms`)
  t.strictSame(await degraded(gateway), ['journal'])
  const isLogged = (line: string) => poll(() => service?.log().includes(line), `${line} is logged`)
  await isLogged('the usage journal does not grow although responses end')
  rmSync(gateway.path)
  await poll(() => existsSync(gateway.path), 'Envoy reopens the journal')
  await gateway.spend('fay', 1)
  await poll(async () => (await degraded(gateway)) === undefined, 'the journal works again')
  await isLogged('the usage journal is written again')
})

const skipDisk = skipRedis || skipSmallDisk

root.test('every process reports a full disk', { skip: skipDisk }, async (t) => {
  const valkey = await startValkey(t)
  const disk = mountSmallDisk(t)
  // Envoy has two streams, so at least one process has none.
  const gateway = await startJournaled(t, {
    count: 3,
    parent: disk.path,
    env: { REDIS_URL: valkey.url },
  })
  await gateway.spend('ann', 1_000)
  await gateway.readUp()
  const states = () => Promise.all(gateway.all.map((each) => degraded(gateway, each)))
  t.strictSame(await states(), [undefined, undefined, undefined])
  disk.fill()
  const began = performance.now()
  let total = 1_000
  const isAt = async (expected: unknown) => {
    await gateway.spend('ann', 1)
    total += 1
    return (await states()).every((state) => JSON.stringify(state) === expected)
  }
  await poll(() => isAt('["journal"]'), 'every process reports the problem', 30_000)
  t.comment(`after ${Math.round(performance.now() - began)} ms`)
  disk.free()
  await poll(() => isAt(undefined), 'every process reports that it is over', 30_000)
  await gateway.readUp()
  // Counted from the stream, which another process may have received.
  await poll(async () => (await gateway.used('ann')) === total, 'every response is counted')
})
