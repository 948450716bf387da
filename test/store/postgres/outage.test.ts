import { randomUUID } from 'node:crypto'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { test } from 'tap'
import { startEmbeddedPostgres } from '../../../dev/postgres/embedded-postgres.ts'
import { identify, isRunning, type ProcessIdentity } from '../../../dev/process-identity.ts'
import { ServiceError } from '../../../src/formats/errors.ts'
import { createMigratedDatabase } from '../../support/database.ts'
import { createKeyApi, type KeyApi } from '../../support/key-api.ts'
import { poll } from '../../support/poll.ts'
import { refused } from '../../support/refusals.ts'
import { startTcpProxy } from '../../support/tcp-proxy.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

/** Every route that uses the database, and a body for it. */
const routes: readonly (readonly [string, object | undefined])[] = [
  ['POST /v1/api-keys', { name: 'in the outage' }],
  ['POST /v1/api-keys/search', undefined],
  ['POST /v1/api-keys/bulk-revoke', undefined],
  [`GET /v1/api-keys/${randomUUID()}`, undefined],
  [`DELETE /v1/api-keys/${randomUUID()}`, undefined],
  ['POST /internal/v1/api-keys/validate', { key: 'sk-oai-a_b' }],
  ['POST /internal/v1/api-keys/cleanup', undefined],
]

test('the database may be killed and come back', async (t) => {
  const directory = join(temporaryFolder(t), 'postgres')
  const start = (port?: number) =>
    startEmbeddedPostgres({ directory, log() {}, ...(port !== undefined && { port }) })
  let database = await start()
  t.teardown(() => database.stop())
  const api = await createKeyApi(t, { url: database.url })
  const { port } = database
  const before = await api.createKey('alice', { name: 'before' })

  await t.test('during requests (503)', async (t) => {
    await lockTable(api)
    const underway = routes
      .filter(([route]) => !route.includes('validate') && !route.startsWith('GET'))
      .map(([route, body]) => api.ask(route, { as: 'bob', body }))
    await untilWaiting(api)
    const backends = await identifyBackends(api)
    process.kill(database.pid, 'SIGKILL')
    for (const answer of await Promise.all(underway)) {
      // The server process that holds the lock may end before one that waits for it, which then
      // succeeds.
      if (answer.statusCode >= 500) refused(t, answer, 503, 'store_unavailable')
    }
    await database.exited
    // A busy server process outlives the postmaster until it waits for its client: it executes and
    // commits the next statement if that is there by then.
    await poll(() => !backends.some(isRunning), 'the server processes have ended')
  })

  await t.test('while it is unavailable (503)', async (t) => {
    for (const [route, body] of routes) {
      refused(t, await api.ask(route, { as: 'alice', body }), 503, 'store_unavailable', route)
    }
    const unknown = await api.ask(routes[1]![0], { as: 'sk-oai-a_b' })
    refused(t, unknown, 503, 'store_unavailable')
    t.equal((await api.ask('GET /health')).statusCode, 200)
  })

  await t.test('recovers without a restart', async (t) => {
    database = await start(port)
    const deadline = Date.now() + 30_000
    while ((await api.ask('POST /v1/api-keys/search', { as: 'alice' })).statusCode !== 200) {
      if (Date.now() > deadline) t.bailout('no recovery')
      await sleep(50)
    }
    const { data } = (await api.ask('POST /v1/api-keys/search', { as: 'alice' })).json()
    t.match(data, [{ id: before.id, status: 'active' }])
    t.equal(data.length, 1)
    const verdict = await api.ask('POST /internal/v1/api-keys/validate', {
      body: { key: before.key },
    })
    t.match(verdict.json(), { valid: true })
  })
})

test('a key whose creation was not answered can be revoked', async (t) => {
  let lose = true
  const api = await createKeyApi(t, {
    around: (store) => ({
      ...store,
      async insert(record) {
        await store.insert(record)
        // The row was written, but the confirmation was lost.
        if (lose) {
          lose = false
          throw new ServiceError('store_unavailable')
        }
      },
    }),
  })
  const body = { name: 'lost' }
  refused(t, await api.ask('POST /v1/api-keys', { as: 'alice', body }), 503, 'store_unavailable')
  const { data } = (await api.ask('POST /v1/api-keys/search', { as: 'alice' })).json()
  t.match(data, [{ name: 'lost', status: 'active' }])
  const revoked = await api.ask(`DELETE /v1/api-keys/${data[0].id}`, { as: 'alice' })
  t.match(revoked.json(), { status: 'revoked' })
  t.equal((await api.ask('POST /v1/api-keys', { as: 'alice', body })).statusCode, 201)
})

test('a database that hangs is not waited for', async (t) => {
  const api = await createKeyApi(t)
  const release = await lockTable(api)
  const [created, searched] = await Promise.all([
    api.ask('POST /v1/api-keys', { as: 'alice', body: { name: 'late' } }),
    api.ask('POST /v1/api-keys/search', { as: 'alice' }),
  ])
  refused(t, created, 503, 'store_slow')
  refused(t, searched, 503, 'search_timeout')
  const waiting = () => api.sql`
    select 1 from pg_locks
    where not granted and database =
      (select oid from pg_database where datname = current_database())`
  const deadline = Date.now() + 5_000
  while ((await waiting()).length > 0 && Date.now() < deadline) await sleep(20)
  t.equal((await waiting()).length, 0, 'abandoned statements have ended')
  await release()
  const found = await api.ask('POST /v1/api-keys/search', { as: 'alice' })
  t.strictSame(found.json().data, [], 'and have no effect later')
})

test('a creation that counts keys does not wait for a server that hangs either', async (t) => {
  const url = await createMigratedDatabase(t)
  const proxy = await startTcpProxy(t, Number(new URL(url).port))
  const api = await createKeyApi(t, { url: proxy.through(url), maxKeysPerUser: 5 })
  const create = () => api.ask('POST /v1/api-keys', { as: 'alice', body: { name: 'late' } })
  t.equal((await create()).statusCode, 201)
  proxy.swallow()
  const before = performance.now()
  const refusal = await create()
  t.equal(refusal.statusCode, 503)
  t.ok(performance.now() - before < 10_000)
  proxy.heal()
  await poll(async () => (await create()).statusCode === 201, 'keys are created again')
})

/** Locks the table until the function is called or the server is killed. */
async function lockTable({ sql }: KeyApi): Promise<() => Promise<void>> {
  const locked = Promise.withResolvers<void>()
  const released = Promise.withResolvers<void>()
  const holding = sql.begin(async (one) => {
    await one`lock table api_keys in access exclusive mode`
    locked.resolve()
    await released.promise
  })
  holding.catch(locked.reject)
  await locked.promise
  return async () => {
    released.resolve()
    await holding
  }
}

/** The server processes of this database's clients. */
async function identifyBackends({ sql }: KeyApi): Promise<ProcessIdentity[]> {
  const rows = await sql<{ pid: number }[]>`
    select pid from pg_stat_activity where backend_type = 'client backend'`
  return rows.flatMap(({ pid }) => identify(pid) ?? [])
}

/** Waits until requests wait for the lock. */
async function untilWaiting({ sql }: KeyApi): Promise<void> {
  const deadline = Date.now() + 1_400
  for (;;) {
    const [row] = await sql<{ waiting: number }[]>`
      select count(*)::int as waiting from pg_locks
      where not granted and relation = 'api_keys'::regclass`
    if ((row?.waiting ?? 0) >= 3) return
    if (Date.now() > deadline) throw new Error('nobody waits')
  }
}
