import { once } from 'node:events'
import { mkdirSync, rmSync, symlinkSync } from 'node:fs'
import { connect, createServer } from 'node:net'
import { join } from 'node:path'
import tls from 'node:tls'
import root, { type Test } from 'tap'
import { serve } from '../../src/main.ts'
import type { Pool } from '../../src/store/postgres/postgres.ts'
import { type Certificate, makeCertificate, noOpenssl } from '../support/certificates.ts'
import { createDatabase } from '../support/database.ts'
import { createKeyDatabase } from '../support/followers.ts'
import { freePorts } from '../support/free-ports.ts'
import { connect as connectGrpc } from '../support/grpc-client.ts'
import { writeKubeconfig } from '../support/kubernetes/kubeconfig.ts'
import { poll } from '../support/poll.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { startTlsPostgres } from '../support/tls-postgres.ts'
import { runTollgate } from '../support/tollgate.ts'
import { skipValkey, startValkey } from '../support/valkey.ts'

async function settings(t: Test) {
  const [api, internal, grpc] = (await freePorts(3)).map((port) => `127.0.0.1:${port}`)
  return {
    API_ADDRESS: api ?? '',
    INTERNAL_ADDRESS: internal ?? '',
    GRPC_ADDRESS: grpc ?? '',
    METRICS_ADDRESS: 'off',
    DATA_DIR: temporaryFolder(t),
    LOG_LEVEL: 'silent',
    AUDIT_LOG: 'off',
  }
}

/** Expects the start to fail with this message, and prints how long that took. */
async function fails(t: Test, env: Record<string, string>, message: RegExp): Promise<void> {
  const since = performance.now()
  await t.rejects(serve({ ...(await settings(t)), ...env }), { message }, String(message))
  t.comment(`${Math.round(performance.now() - since)} ms: ${message}`)
}

/**
 * Expects a process that waits, logs for what, is alive but not ready meanwhile, and ends at once
 * on SIGTERM.
 */
async function waits(t: Test, env: Record<string, string>, cause: string): Promise<void> {
  const own = { ...(await settings(t)), LOG_LEVEL: 'info', ...env }
  const service = runTollgate(t, ['serve'], own)
  await service.until(cause)
  const internal = `http://${own.INTERNAL_ADDRESS}`
  t.equal((await fetch(`${internal}/livez`)).status, 200)
  t.equal((await fetch(`${internal}/readyz`)).status, 503)
  t.match(service.output(), /"setting":"DATABASE_URL"/)
  t.equal(service.output().split(cause).length, 2, 'logged once so far')
  const since = performance.now()
  service.signal('SIGTERM')
  t.equal(await service.ended, 0)
  t.comment(`${Math.round(performance.now() - since)} ms from SIGTERM to the end`)
}

function changed(url: string, change: (url: URL) => void): string {
  const other = new URL(url)
  change(other)
  return other.href
}

root.test('an error from Postgres ends the start, in the words of Postgres', async (t) => {
  const url = await createDatabase(t)
  const refused = (change: (url: URL) => void, message: RegExp) =>
    fails(t, { DATABASE_URL: changed(url, change) }, message)
  await refused((url) => {
    url.password = 'wrong'
  }, /^DATABASE_URL: password authentication failed for user "tollgate"$/)
  await refused((url) => {
    url.username = 'nobody'
  }, /^DATABASE_URL: password authentication failed for user "nobody"$/)
  await refused((url) => {
    url.pathname = '/nowhere'
  }, /^DATABASE_URL: database "nowhere" does not exist$/)
  await refused((url) => {
    url.password = ''
  }, /^DATABASE_URL: .*password must be a/)
  await refused(
    (url) => url.searchParams.set('sslmode', 'require'),
    /^DATABASE_URL: .*not support SSL/,
  )
  await refused((url) => {
    url.searchParams.set('sslmode', 'verify-full')
    url.searchParams.set('sslrootcert', '/nowhere')
  }, /^DATABASE_URL: ENOENT: .*\/nowhere/)
})

root.test('a pooler that refuses a parameter ends the start', async (t) => {
  const fields = ['SFATAL', 'C08P01', 'Munsupported startup parameter: statement_timeout']
  const body = Buffer.from(`${fields.join('\0')}\0\0`)
  const length = Buffer.alloc(4)
  length.writeInt32BE(body.length + 4)
  const pooler = createServer((client) => {
    client.on('error', () => {})
    client.once('data', () => client.end(Buffer.concat([Buffer.from('E'), length, body])))
  })
  pooler.listen(0, '127.0.0.1')
  await once(pooler, 'listening')
  t.teardown(() => pooler.close())
  const { port } = pooler.address() as { port: number }
  await fails(
    t,
    { DATABASE_URL: `postgres://tollgate:secret@127.0.0.1:${port}/tollgate` },
    /^DATABASE_URL: unsupported startup parameter: statement_timeout: add it to ignore_startup_parameters/,
  )
})

root.test('a database that cannot be migrated ends the start', async (t) => {
  const url = await createDatabase(t)
  const readOnly = changed(url, ({ searchParams }) =>
    searchParams.set('options', '-c default_transaction_read_only=on'),
  )
  await fails(t, { DATABASE_URL: readOnly }, /^DATABASE_URL: The schema cannot be migrated: /)
})

root.test('an untrusted certificate of Postgres ends the start', { skip: noOpenssl }, async (t) => {
  const { url } = await startTlsPostgres(t, makeCertificate(t))
  const full = changed(url, ({ searchParams }) => searchParams.set('sslmode', 'verify-full'))
  await fails(t, { DATABASE_URL: full }, /^DATABASE_URL: self-signed certificate/)
})

root.test('the start waits for an unreachable Postgres and names it', async (t) => {
  const [port] = await freePorts(1)
  const there = `postgres://tollgate:secret@127.0.0.1:${port}/tollgate`
  await waits(t, { DATABASE_URL: there }, `connect ECONNREFUSED 127.0.0.1:${port}`)
  const nowhere = 'postgres://tollgate:secret@nowhere.invalid/tollgate'
  await waits(t, { DATABASE_URL: nowhere }, 'nowhere.invalid')
})

root.test('a Postgres that does not answer during the start is asked again', async (t) => {
  const { url, sql } = await createKeyDatabase(t)
  const holds = ['tollgate_reports', 'tollgate_replicas'].map((table) => holdTable(sql, table))
  const releases = await Promise.all(holds)
  const own = { ...(await settings(t)), LOG_LEVEL: 'info', DATABASE_URL: url }
  const service = runTollgate(t, ['serve'], own)
  const waiting = '"code":"database_waiting"'
  for (const [times, release] of releases.entries()) {
    await poll(() => service.output().split(waiting).length > times + 1, 'it waits', 60_000)
    await release()
  }
  await service.until('"msg":"ready"')
  service.signal('SIGTERM')
  t.equal(await service.ended, 0)
})

/** Locks a table against all others until the returned function is called. */
async function holdTable(sql: Pool, table: string): Promise<() => Promise<void>> {
  const [locked, released] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  const over = sql.begin(async (transaction) => {
    await transaction.unsafe(`lock table ${table} in access exclusive mode`)
    locked.resolve()
    await released.promise
  })
  await Promise.race([locked.promise, over])
  return async () => {
    released.resolve()
    await over
  }
}

root.test('a stop while the cluster is unreachable signs the process off', async (t) => {
  const { url, sql } = await createKeyDatabase(t)
  const [port] = await freePorts(1)
  const own = { ...(await settings(t)), LOG_LEVEL: 'info', DATABASE_URL: url }
  const KUBECONFIG = writeKubeconfig(t, { server: `http://127.0.0.1:${port}` })
  const service = runTollgate(t, ['serve'], { ...own, RESOURCES: 'kubernetes', KUBECONFIG })
  await service.until('"code":"cluster_unreadable"')
  const replicas = async () => (await sql`select id from tollgate_replicas`).length
  t.equal(await replicas(), 1, 'revocations wait for it')
  service.signal('SIGTERM')
  t.equal(await service.ended, 0)
  t.equal(await replicas(), 0)
})

root.test('a Postgres that becomes reachable is used', async (t) => {
  const url = await createDatabase(t)
  const [port = 0] = await freePorts(1)
  const own = { ...(await settings(t)), LOG_LEVEL: 'info' }
  const late = changed(url, (url) => {
    url.host = `127.0.0.1:${port}`
  })
  const service = runTollgate(t, ['serve'], { ...own, DATABASE_URL: late })
  await service.until('ECONNREFUSED')
  const forward = createServer((client) => {
    client.on('error', () => {})
    client.pipe(connect(Number(new URL(url).port), '127.0.0.1')).pipe(client)
  })
  forward.listen(port, '127.0.0.1')
  t.teardown(() => forward.close())
  await service.until('"msg":"ready"')
  const ready = await fetch(`http://${own.INTERNAL_ADDRESS}/readyz`)
  t.strictSame(await ready.json(), { status: 'ready' })
  service.signal('SIGTERM')
  t.equal(await service.ended, 0)
})

root.test(
  'an error from Redis ends the start, in the words of Redis',
  { skip: skipValkey },
  async (t) => {
    const valkey = await startValkey(t)
    await valkey.client.config('SET', 'requirepass', 'right')
    const DATABASE_URL = await createDatabase(t)
    const refused = (url: string, message: RegExp) =>
      fails(t, { DATABASE_URL, REDIS_URL: url }, message)
    await refused(`redis://:wrong@127.0.0.1:${valkey.port}`, /^REDIS_URL: WRONGPASS /)
    await refused(`redis://127.0.0.1:${valkey.port}`, /^REDIS_URL: NOAUTH /)
    await refused(
      `redis://:right@127.0.0.1:${valkey.port}/99`,
      /^REDIS_URL: ERR DB index is out of range/,
    )
    await refused(`redis+cluster://:wrong@127.0.0.1:${valkey.port}`, /^REDIS_URL: .*WRONGPASS /)
  },
)

root.test(
  'an untrusted certificate of Redis ends the start',
  { skip: skipValkey || noOpenssl },
  async (t) => {
    const valkey = await startValkey(t)
    const port = await startTls(t, valkey.port, makeCertificate(t))
    const DATABASE_URL = await createDatabase(t)
    const env = { DATABASE_URL, REDIS_URL: `rediss://127.0.0.1:${port}` }
    await fails(t, env, /^REDIS_URL: self-signed certificate/)
  },
)

root.test('an unreachable Redis is named, and the start continues', async (t) => {
  const [port] = await freePorts(1)
  for (const [url, cause] of [
    [`redis://127.0.0.1:${port}`, `connect ECONNREFUSED 127.0.0.1:${port}`],
    ['redis://nowhere.invalid', 'nowhere.invalid'],
  ] as const) {
    // A database of its own, so that it does not wait for a process that was killed before.
    const DATABASE_URL = await createDatabase(t)
    const own = { ...(await settings(t)), LOG_LEVEL: 'info', DATABASE_URL, REDIS_URL: url }
    const service = runTollgate(t, ['serve'], own)
    await service.until('"msg":"ready"')
    t.match(service.output(), /"setting":"REDIS_URL"/)
    t.match(service.output(), cause)
    const ready = await fetch(`http://${own.INTERNAL_ADDRESS}/readyz`)
    t.strictSame(await ready.json(), { status: 'ready', degraded: ['redis'] })
    // SIGTERM would wait for Redis to take what was counted.
    service.signal('SIGKILL')
    await service.ended
  }
})

/** Accepts TLS in front of a server without it. */
async function startTls(t: Test, port: number, { key, cert }: Certificate): Promise<number> {
  const server = tls.createServer({ key, cert }, (client) => {
    client.on('error', () => {})
    client.pipe(connect(port, '127.0.0.1')).pipe(client)
  })
  server.on('tlsClientError', () => {})
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  return (server.address() as { port: number }).port
}

root.test('without a journal nothing that is limited is allowed', async (t) => {
  const DATABASE_URL = await createDatabase(t)
  await fails(
    t,
    { DATABASE_URL, USAGE_JOURNAL: 'off' },
    /^USAGE_JOURNAL: is off, and 4 Subscriptions are in force/,
  )
  const folder = temporaryFolder(t)
  const own = { ...(await settings(t)), DATABASE_URL, RESOURCES: `file:${folder}` }
  const service = await serve({ ...own, USAGE_JOURNAL: 'off' })
  await service.stop()
  t.pass('nothing is limited')
})

root.test('clusters that cannot be written are no problem of the resources', async (t) => {
  const ENVOY_CONFIG_DIR = temporaryFolder(t)
  mkdirSync(join(ENVOY_CONFIG_DIR, 'clusters.json', 'a-folder'), { recursive: true })
  await fails(t, { DATABASE_URL: await createDatabase(t), ENVOY_CONFIG_DIR }, /^ENVOY_CONFIG_DIR: /)
})

root.test('a process that cannot read its journal serves nothing meanwhile', async (t) => {
  const folder = temporaryFolder(t)
  const own = { ...(await settings(t)), DATABASE_URL: await createDatabase(t) }
  const journal = { USAGE_JOURNAL: join(folder, 'usage.jsonl') }
  const circle = join(folder, 'usage.jsonl.1795264413046')
  symlinkSync(circle, circle)
  await t.rejects(serve({ ...own, ...journal }), { message: /^USAGE_JOURNAL: .* ELOOP/ })
  rmSync(circle)
  const service = await serve({ ...own, ...journal })
  t.teardown(() => service.stop())
  const client = connectGrpc(t, own.GRPC_ADDRESS)
  const answers = async () => {
    const { status } = await fetch(`http://${own.INTERNAL_ADDRESS}/readyz`)
    const health = await client.ask('/grpc.health.v1.Health/Check', Buffer.alloc(0))
    return `${status} ${health.toString('hex')}`
  }
  t.equal(await answers(), '200 0801', 'SERVING')
  symlinkSync(circle, circle)
  await poll(async () => (await answers()) === '503 0802', 'NOT_SERVING')
  rmSync(circle)
  await poll(async () => (await answers()) === '200 0801', 'SERVING again')
})
