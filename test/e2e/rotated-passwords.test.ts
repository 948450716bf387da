import { renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import root, { type Test } from 'tap'
import { serve } from '../../src/main.ts'
import { formatAddress } from '../../src/settings/config.ts'
import { openPool, type Pool } from '../../src/store/postgres/postgres.ts'
import { createDatabase } from '../support/database.ts'
import { noRateLimits } from '../support/no-rate-limits.ts'
import { poll } from '../support/poll.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { skipValkey, startValkey } from '../support/valkey.ts'

interface World {
  /** Status and error code of a search for keys. */
  search(): Promise<string>
  degraded(): Promise<readonly string[]>
}

async function start(t: Test, env: Record<string, string>): Promise<World> {
  const folder = temporaryFolder(t)
  writeFileSync(join(folder, 'tokens.csv'), 'token-ann,ann,1,team\n')
  const service = await serve({
    API_ADDRESS: '127.0.0.1:0',
    INTERNAL_ADDRESS: '127.0.0.1:0',
    GRPC_ADDRESS: '127.0.0.1:0',
    METRICS_ADDRESS: 'off',
    DATA_DIR: folder,
    TOKEN_AUTH_FILE: join(folder, 'tokens.csv'),
    LOG_LEVEL: 'silent',
    AUDIT_LOG: 'off',
    ...noRateLimits,
    ...env,
  })
  t.teardown(() => service.stop())
  const { api, internal } = service.addresses
  return {
    async search() {
      const answer = await fetch(`http://${formatAddress(api)}/v1/api-keys/search`, {
        method: 'POST',
        headers: { authorization: 'Bearer token-ann' },
      })
      const { error } = (await answer.json()) as { error?: { code: string } }
      return `${answer.status} ${error?.code ?? ''}`.trim()
    },
    async degraded() {
      const answer = await fetch(`http://${formatAddress(internal)}/readyz`)
      return ((await answer.json()) as { degraded?: string[] }).degraded ?? []
    },
  }
}

function put(file: string, text: string): void {
  writeFileSync(`${file}.new`, `${text}\n`)
  renameSync(`${file}.new`, file)
}

/** A role that owns the database. */
async function createRole(t: Test, url: string, password: string) {
  const sql: Pool = openPool({ url, connections: 1 })
  const { pathname } = new URL(url)
  const name = `role_${pathname.slice(1)}`
  const database = pathname.slice(1)
  await sql.unsafe(`create role "${name}" login password '${password}'`)
  await sql.unsafe(`alter database "${database}" owner to "${name}"`)
  await sql.unsafe(`alter schema public owner to "${name}"`)
  t.teardown(async () => {
    await sql.unsafe(`alter database "${database}" owner to current_user`)
    await sql.unsafe(`reassign owned by "${name}" to current_user`)
    await sql.unsafe(`drop owned by "${name}"`)
    await sql.unsafe(`drop role "${name}"`)
    await sql.end()
  })
  const as = (password: string) => {
    const own = new URL(url)
    own.username = name
    own.password = password
    return own.href
  }
  return {
    as,
    alter: (password: string) => sql.unsafe(`alter role "${name}" password '${password}'`).run(),
    /** Closes all connections of the role, so that new ones must be opened. */
    cut: () =>
      sql`select pg_terminate_backend(pid) from pg_stat_activity where usename = ${name}`.run(),
  }
}

root.test('rotates a password of Postgres without a restart', async (t) => {
  const role = await createRole(t, await createDatabase(t), 'one')
  const file = join(temporaryFolder(t), 'url')
  put(file, role.as('one'))
  const world = await start(t, { DATABASE_URL_FILE: file })
  t.equal(await world.search(), '200')

  await role.alter('two')
  await role.cut()
  // One that was let in just before is not listed yet.
  await delay(200)
  await role.cut()
  await poll(
    async () => (await world.search()) === '503 store_unavailable',
    'the old password is refused',
  )
  for (let i = 0; i < 5; i += 1) t.equal(await world.search(), '503 store_unavailable')
  await poll(async () => (await world.degraded()).includes('database'), '/readyz reports it')
  put(file, 'no URL at all')
  t.equal(await world.search(), '503 store_unavailable')
  put(file, role.as('two'))
  await poll(async () => (await world.search()) === '200', 'the new password is used')
  await poll(async () => (await world.degraded()).length === 0, 'the database is available again')
})

root.test('revoked privileges are an outage', async (t) => {
  const url = await createDatabase(t)
  const role = await createRole(t, url, 'one')
  const world = await start(t, { DATABASE_URL: role.as('one') })
  t.equal(await world.search(), '200')
  const admin = openPool({ url, connections: 1 })
  t.teardown(() => admin.end())
  await admin.unsafe('alter table api_keys owner to current_user')
  t.equal(await world.search(), '503 store_unavailable')
})

root.test('rotates a password of Redis without a restart', { skip: skipValkey }, async (t) => {
  const valkey = await startValkey(t)
  await valkey.client.config('SET', 'requirepass', 'one')
  const file = join(temporaryFolder(t), 'url')
  const as = (password: string) => `redis://:${password}@127.0.0.1:${valkey.port}`
  put(file, as('one'))
  const world = await start(t, { DATABASE_URL: await createDatabase(t), REDIS_URL_FILE: file })
  await poll(async () => (await world.degraded()).length === 0, 'Redis is reached')
  await valkey.client.auth('one')
  await valkey.client.config('SET', 'requirepass', 'two')
  await valkey.client.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes')
  await poll(async () => (await world.degraded()).includes('redis'), 'the old password is refused')
  put(file, as('two'))
  await poll(async () => (await world.degraded()).length === 0, 'the new password is used')
})
