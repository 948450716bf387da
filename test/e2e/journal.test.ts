/** What is counted by the lines of a gateway, whatever is killed, lost or full. */

import { existsSync, readdirSync, rmSync } from 'node:fs'
import { dirname, join } from 'node:path'
import root, { type Test } from 'tap'
import { journalFilesOf } from '../../src/journal/journal-files.ts'
import { openPool } from '../../src/store/postgres/postgres.ts'
import { envoyPath } from '../support/envoy-binary.ts'
import { ann, bob, type Journaled, startJournaled } from '../support/journaled.ts'
import { idsOf } from '../support/lines.ts'
import { poll } from '../support/poll.ts'
import { mountSmallDisk, skipSmallDisk } from '../support/small-disk.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { type RunningValkey, skipValkey, startValkey } from '../support/valkey.ts'
import { lasting } from '../support/window-ends.ts'

const skip = envoyPath() === undefined && 'no Envoy'
const skipRedis = skip || skipValkey

/** Kills the service while ten streams run for each user, and restarts it after they have ended. */
async function killWhileStreaming(t: Test, gateway: Journaled): Promise<void> {
  const [service] = gateway.all
  await gateway.spend(ann, 1_000)
  const { open } = await gateway.model.tally()
  const streams = Array.from({ length: 20 }, (_, i) =>
    gateway.spend(i % 2 === 0 ? ann : bob, i + 1, { streamMs: 2_000 }),
  )
  await poll(async () => (await gateway.model.tally()).open === open + 20, 'all streams have begun')
  t.equal(await service?.end('SIGKILL'), 'SIGKILL')
  await Promise.all(streams)
  await service?.start()
  t.equal(await gateway.used(ann), 1_100)
  t.equal(await gateway.used(bob), 110)
  // Once more, when everything has been counted before.
  await service?.end('SIGKILL')
  await service?.start()
  t.equal(await gateway.used(ann), 1_100, 'counted once')
  t.equal(await gateway.used(bob), 110, 'counted once')
}

type Six = [string, string, string, string, string, string]
const [cyd, dan, eve, fay, gus, hal] = ['cyd', 'dan', 'eve', 'fay', 'gus', 'hal'].map(
  lasting,
) as Six
const broken = lasting('broken')
const named = [...['o"neill\\', 'ömer, 🦊', '{"id":"x"}', 'a%20b\tc'].map(lasting), broken]
let starting: Promise<Journaled> | undefined

/** For tests without special requirements; each uses its own users, all of whom may reset counters. */
function shared(): Promise<Journaled> {
  const users = [ann, bob, cyd, dan, eve, fay, gus, hal, ...named]
  const env = { ADMIN_GROUPS: 'team' }
  starting ??= startJournaled(root as unknown as Test, { users, env })
  return starting
}

root.test('counts responses that end while the service is down', { skip }, async (t) => {
  await killWhileStreaming(t, await shared())
})

root.test('counts them once in Redis', { skip: skipRedis }, async (t) => {
  const valkey = await startValkey(t)
  const data = temporaryFolder(t)
  const gateway = await startJournaled(t, { env: { REDIS_URL: valkey.url, DATA_DIR: data } })
  await killWhileStreaming(t, gateway)

  const [service] = gateway.all
  await service?.end('SIGKILL')
  const kept = join(data, 'journal')
  const sums = readdirSync(kept).filter((name) => name.includes('.sums'))
  t.ok(sums.length > 0)
  for (const name of sums) rmSync(join(kept, name))
  await service?.start()
  t.equal(await gateway.used(ann), 1_100, 'without the checkpoint')
})

root.test('counts each response once, whatever its user is called', { skip }, async (t) => {
  const users = [cyd, dan, ...named]
  const gateway = await shared()
  // Identity tokens cannot have such a name, but a table that was taken over can.
  const sql = openPool({ url: gateway.database, connections: 1 })
  const renamed = await sql`
    update api_keys set username = ${lasting('line\n{"break"}\r\n\u0001\u2028')} where username = ${broken}`
  t.equal(renamed.count, 1)
  await sql.end()
  const ids: string[] = []
  for (const user of users) {
    for (const headers of [{}, { 'x-request-id': 'mine' }, { 'x-request-id': ids[0] ?? '' }]) {
      ids.push(await gateway.spend(user, 10, { headers }))
    }
  }
  t.equal(new Set(ids).size, ids.length, "the client's request ids are not used")
  for (const user of users) t.equal(await gateway.used(user), 30, user)

  const [service] = gateway.all
  await service?.end('SIGTERM')
  await service?.start()
  for (const user of users) t.equal(await gateway.used(user), 30, `${user}, after a restart`)
})

root.test('a reset is not undone when the journal is read again', { skip }, async (t) => {
  const gateway = await shared()
  await gateway.spend(gus, 1_000)
  await gateway.spend(hal, 100)
  t.equal(await gateway.used(gus), 1_000)
  const reset = await fetch(`${gateway.url}/v1/counters/reset`, {
    method: 'POST',
    headers: { authorization: 'Bearer token-1' },
    body: JSON.stringify({ user: gus }),
  })
  t.match(await reset.json(), { reset: [{ used: 1_000 }] })
  t.equal(await gateway.used(gus), 0)
  const [service] = gateway.all
  await service?.end('SIGKILL')
  await service?.start()
  t.equal(await gateway.used(gus), 0)
  t.equal(await gateway.used(hal), 100)
  await gateway.spend(gus, 10)
  t.equal(await gateway.used(gus), 10)
})

root.test('rotation under load neither loses nor repeats a line', { skip }, async (t) => {
  const gateway = await startJournaled(t, { env: { USAGE_JOURNAL_BYTES: '8192' } })
  const total = new Map([ann, bob].map((user) => [user, 0]))
  const ids: string[] = []
  const giveUpAt = Date.now() + 60_000
  const seen = new Set<string>()
  const caller = async (user: string): Promise<void> => {
    for (let i = 1; seen.size < 6 && Date.now() < giveUpAt; i += 1) {
      ids.push(await gateway.spend(user, i))
      total.set(user, (total.get(user) ?? 0) + i)
      for (const file of gateway.lines.files()) seen.add(file)
    }
  }
  await Promise.all(Array.from({ length: 10 }, (_, i) => caller(i < 5 ? ann : bob)))
  t.ok(seen.size >= 6, 'files were renamed')
  t.equal(await gateway.used(ann), total.get(ann))
  t.equal(await gateway.used(bob), total.get(bob))
  const found = idsOf(gateway.lines.ended())
  t.strictSame(
    ids.filter((id) => found.filter((each) => each === id).length !== 1),
    [],
    'each has one line',
  )
  t.equal(gateway.lines.torn(), 0)
})

let startingPair: Promise<{ valkey: RunningValkey; gateway: Journaled }> | undefined

/** Two processes that share a Redis; ann's and bob's usage are of one test each, the last of which kills a process. */
function pair() {
  startingPair ??= (async () => {
    const valkey = await startValkey(root as unknown as Test)
    const env = { REDIS_URL: valkey.url }
    return { valkey, gateway: await startJournaled(root as unknown as Test, { count: 2, env }) }
  })()
  return startingPair
}

root.test('a Redis that has lost everything gets it again', { skip: skipRedis }, async (t) => {
  const { valkey, gateway } = await pair()
  for (let i = 0; i < 50; i += 1) await gateway.spend(ann, 100)
  t.equal(await gateway.used(ann), 5_000)
  await valkey.client.flushall()
  for (let i = 0; i < 10; i += 1) await gateway.spend(ann, 10)
  for (const _ of gateway.all) t.equal(await gateway.used(ann), 5_100)
  const stored = async () => {
    const totals: number[] = []
    for (const key of await valkey.client.keys('*:w:*')) {
      totals.push(Number(await valkey.client.hget(key, '+')))
    }
    return totals.includes(5_100)
  }
  await poll(stored, 'Redis has it')
})

root.test('a process that is killed loses nothing', { skip: skipRedis }, async (t) => {
  const { gateway } = await pair()
  // The first process writes for the gateway.
  const [writer, other] = gateway.all
  const logged = other?.log().length
  const before = await gateway.model.tally()
  let total = 0
  let killed: Promise<unknown> | undefined
  const caller = async (first: number): Promise<void> => {
    for (let i = 1; i <= 60; i += 1) {
      if (first === 0 && i === 30) killed = writer?.end('SIGKILL')
      // Requests in progress at the killed process fail; Envoy notices at once.
      const done = await gateway.spend(bob, first + i).catch(() => undefined)
      if (done !== undefined) total += first + i
    }
  }
  await Promise.all(Array.from({ length: 8 }, (_, i) => caller(1_000 * i)))
  t.equal(await killed, 'SIGKILL')
  t.equal(await gateway.used(bob), total)
  t.notMatch(other?.log().slice(logged), 'fault')
  const { totalTokens } = await gateway.model.tally()
  t.equal(totalTokens - before.totalTokens, total, "the model server's own tally")
})

async function degraded({ all: [first] }: Journaled, service = first): Promise<unknown> {
  const answer = await fetch(`http://${service?.internal}/readyz`)
  return ((await answer.json()) as { degraded?: unknown }).degraded
}

root.test('a folder that is removed is made again', { skip }, async (t) => {
  const gateway = await shared()
  const [service] = gateway.all
  await gateway.spend(eve, 1)
  t.equal(await gateway.used(eve), 1)
  rmSync(dirname(gateway.journal), { recursive: true })
  await poll(() => existsSync(gateway.journal), 'the journal exists again', 5_000)
  // The script has its file open for at most a second; Envoy is made to open its log again.
  await poll(async () => {
    const id = await gateway.spend(fay, 0)
    return idsOf(gateway.lines.ofScript()).includes(id)
  }, 'the script writes to the new file')
  await gateway.flushed()
  await gateway.spend(eve, 10)
  t.equal(await gateway.used(eve), 11, 'nothing that was counted is lost')
  const log = gateway.all.map((each) => each.log()).join('')
  t.equal(log.split('"code":"journal_folder_restored"').length, 2)
  t.notMatch(log, 'internal_fault')
  await service?.end('SIGKILL')
  await service?.start()
  t.equal(await gateway.used(eve), 11)
})

const skipDisk = skipRedis || skipSmallDisk

root.test('a disk that fills at once loses no line', { skip: skipSmallDisk }, async (t) => {
  const disk = mountSmallDisk(t)
  const gateway = await startJournaled(t, { parent: disk.path })
  const { ballast } = journalFilesOf(gateway.journal)
  // The service looks once a second: one of these responses may end after it, but not all.
  for (let i = 1; i <= 4; i += 1) {
    await poll(() => existsSync(ballast), 'space is held back')
    disk.fill()
    await gateway.spend(ann, 10)
    t.equal(await gateway.used(ann), 10 * i)
    disk.free()
  }
})

root.test('every process reports a full disk', { skip: skipDisk }, async (t) => {
  const valkey = await startValkey(t)
  const disk = mountSmallDisk(t)
  const gateway = await startJournaled(t, {
    count: 2,
    parent: disk.path,
    env: { REDIS_URL: valkey.url },
  })
  await gateway.spend(ann, 1_000)
  const states = () => Promise.all(gateway.all.map((each) => degraded(gateway, each)))
  t.strictSame(await states(), [undefined, undefined], gateway.all.map(({ log }) => log()).join(''))
  const began = performance.now()
  const isReported = async () => {
    // Also what the service frees by removing its ballast.
    disk.fill()
    await gateway.spend(bob, 1)
    return (await states()).every((state) => JSON.stringify(state) === '["journal"]')
  }
  await poll(isReported, 'every process reports the problem', 30_000)
  t.comment(`after ${Math.round(performance.now() - began)} ms`)
  disk.free()
  await poll(async () => {
    const id = await gateway.spend(bob, 1)
    return idsOf(gateway.lines.ofScript()).includes(id)
  }, 'lines are written again')
  await gateway.spend(ann, 100)
  t.equal(await gateway.used(ann), 1_100)
  const used = await gateway.used(bob)
  t.ok(used <= (await gateway.model.tally()).totalTokens - 1_100, `${used}, never too high`)
})
