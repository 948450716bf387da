import { execFileSync } from 'node:child_process'
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { openPool, type Pool } from '../../src/store/postgres/postgres.ts'
import { runAt } from '../support/command.ts'
import { envoyPath } from '../support/envoy-binary.ts'
import { poll } from '../support/poll.ts'
import { type RevokingReplicas, startRevoking } from '../support/revoking.ts'

const skip = envoyPath() === undefined && 'no Envoy'

interface Backup {
  /** Restores the database; processes may be running. */
  restore(): Promise<void>
}

/** Copies the whole database in Postgres, like a disk snapshot. */
async function copyDatabase(t: Test, url: string): Promise<Backup> {
  const name = new URL(url).pathname.slice(1)
  const copy = `${name}_backup`
  const administer = async (work: (sql: Pool) => Promise<unknown>) => {
    const elsewhere = new URL(url)
    elsewhere.pathname = '/postgres'
    const sql = openPool({ url: elsewhere.href, connections: 1, statementTimeoutMs: 60_000 })
    try {
      await work(sql)
    } finally {
      await sql.end()
    }
  }
  /** A database with connections cannot be copied. */
  const copyTo = (from: string, to: string) =>
    administer(async (sql) => {
      await sql`alter database ${sql.identifier(from)} allow_connections false`
      await sql`select pg_terminate_backend(pid) from pg_stat_activity where datname = ${from}`
      await poll(
        async () =>
          await sql`create database ${sql.identifier(to)} template ${sql.identifier(from)}`.then(
            () => true,
            () => false,
          ),
        'the database is copied',
      )
      for (const each of [from, to]) {
        await sql`alter database ${sql.identifier(each)} allow_connections true`
      }
    })
  t.teardown(() => administer((sql) => sql`drop database if exists ${sql.identifier(copy)}`.run()))
  await copyTo(name, copy)
  return {
    async restore() {
      await administer((sql) => sql`drop database ${sql.identifier(name)} with (force)`.run())
      await copyTo(copy, name)
    },
  }
}

/** The operator's way: a dump by pg_dump, restored by psql. */
function dumpDatabase(url: string): Backup {
  const dump = execFileSync('pg_dump', ['--clean', '--if-exists', url], { maxBuffer: 2 ** 26 })
  return {
    async restore() {
      execFileSync('psql', ['--quiet', '--set', 'ON_ERROR_STOP=1', url], {
        input: dump,
        stdio: ['pipe', 'ignore', 'inherit'],
      })
    },
  }
}

/** Why pg_dump cannot be used: it must be at least as new as the server. */
async function whyNoDump(): Promise<string | false> {
  const url = process.env.TEST_DATABASE_URL
  if (url === undefined) return 'no server of the whole run'
  const sql = openPool({ url, connections: 1 })
  try {
    const [row] = await sql<{ version: string }[]>`
      select current_setting('server_version') as version`
    const [client, server] = [execFileSync('pg_dump', ['--version']).toString(), row?.version ?? '']
    const [theirs, ours] = [client, server].map((text) => Number(/(\d+)\.\d+/.exec(text)?.[1]))
    return Number(theirs) < Number(ours) && `pg_dump ${theirs} cannot read a Postgres ${ours}`
  } catch {
    return 'no pg_dump'
  } finally {
    await sql.end()
  }
}

/**
 * Backs up, revokes and restores. Afterwards no process accepts a revoked key, whether it kept
 * running or was started later.
 */
async function drill(
  t: Test,
  pair: RevokingReplicas,
  backUp: () => Backup | Promise<Backup>,
): Promise<void> {
  const before = await Promise.all([pair.mint(), pair.mint(), pair.mint()])
  const kept = await Promise.all([pair.mint(), pair.mint()])
  const backup = await backUp()
  const revoked: string[] = []
  await poll(
    async () => await pair.mint().catch(() => undefined),
    'keys can be created after the backup',
  )
  const made = await pair.mint()
  const alsoMade = await pair.mint()
  for (const { key, id } of [...before, made]) {
    await pair.use(key)
    await poll(async () => {
      const propagation = await pair.revoke(id).catch(() => undefined)
      return propagation === undefined || propagation.state === 'confirmed'
    }, 'the key is revoked')
    revoked.push(key)
  }
  await backup.restore()
  // From the first response with the restored database on.
  for (let round = 0; round < 20; round += 1) {
    for (const key of revoked) {
      const statuses = await pair.statuses(key)
      t.ok(
        statuses.every((status) => status === 401 || status === 503),
        `${statuses}`,
      )
    }
  }
  await poll(
    () => pair.all.some((replica) => replica.log().includes('older than its revocations')),
    'one process reports it',
  )
  const sql = openPool({ url: pair.database, connections: 1 })
  t.teardown(() => sql.end())
  await poll(async () => {
    const [row] = await sql<
      { n: number }[]
    >`select count(*)::int as n from api_keys where status = 'active'`
    return row?.n === kept.length
  }, 'the keys are revoked in the database again')
  await poll(
    async () => (await pair.statuses(alsoMade.key)).join() === '401,401',
    'refuses a key created after the backup',
  )
  const second = pair.all[1]
  await second?.end('SIGKILL')
  await second?.start()
  for (const key of [...revoked, alsoMade.key]) t.strictSame(await pair.statuses(key), [401, 401])
  for (const { key } of kept) t.strictSame(await pair.statuses(key), [200, 200])
}

t.test('a restored backup revives no revoked key', { skip }, async (t) => {
  const pair = await startRevoking(t, { count: 2, env: { LOG_LEVEL: 'warn' } })
  const sql = openPool({ url: pair.database, connections: 1 })
  t.teardown(() => sql.end())

  await t.test('copied in Postgres', async (t) => {
    await drill(t, pair, () => copyDatabase(t, pair.database))
  })

  await t.test('a single row', async (t) => {
    const { key, id } = await pair.mint()
    await pair.revoke(id)
    await sql`update api_keys set status = 'active' where id = ${id}`
    t.strictSame(await pair.statuses(key), [401, 401])
    await poll(async () => {
      const [row] = await sql`select status from api_keys where id = ${id}`
      return row?.status === 'revoked'
    }, 'the row is revoked again once the key is used')
  })

  await t.test('by tollgate revocations replay', async (t) => {
    const { id } = await pair.mint()
    await pair.revoke(id)
    for (const replica of pair.all) await replica.end('SIGTERM')
    await sql`update api_keys set status = 'active' where id = ${id}`
    const folder = join(pair.folder, 'data-1')
    const files = readdirSync(folder).filter((name) => name.startsWith('revocations-'))
    const replay = (...args: string[]) =>
      runAt({ env: { DATABASE_URL: pair.database } }, 'revocations', 'replay', ...args)
    const paths = files.map((name) => join(folder, name))
    const first = await replay(...paths)
    t.match(first, { status: 0, out: /^.*revocations, 1 of keys that were active again/ })
    const [row] = await sql`select status from api_keys where id = ${id}`
    t.match(row, { status: 'revoked' })
    t.match(await replay(...paths), { status: 0, out: / 0 of keys[^\n]*$/ }, 'again')
    t.equal((await replay()).status, 2)
    t.match(await replay(join(folder, 'none')), { status: 1, err: /ENOENT/ })
  })
})

const noDump = skip || (await whyNoDump())

t.test('a restored dump revives no revoked key', { skip: noDump }, async (t) => {
  const pair = await startRevoking(t, { count: 2, env: { LOG_LEVEL: 'warn' } })
  await drill(t, pair, () => dumpDatabase(pair.database))
})
