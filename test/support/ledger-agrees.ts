import { mkdirSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import type { Test } from 'tap'
import { startEmbeddedPostgres } from '../../dev/postgres/embedded-postgres.ts'
import { formatMoney } from '../../src/formats/money.ts'
import { toTimestamp } from '../../src/formats/time.ts'
import { openPool } from '../../src/store/postgres/postgres.ts'
import { runAt } from './command.ts'
import { accessPolicy, modelRef, subscription } from './documents.ts'
import { freePorts } from './free-ports.ts'
import { poll } from './poll.ts'
import { createRandom } from './random.ts'
import { type Replica, startReplicas } from './replicas.ts'
import { makeDatabaseFolder, temporaryFolder } from './temporary-folder.ts'
import { startValkey } from './valkey.ts'
import { lasting } from './window-ends.ts'

const limit = 1_000_000_000
const models = ['sim', 'other']
const hourMs = 3_600_000
/** No request is sent this long before the end of an hour, so that its response ends in that hour. */
const pauseMs = 20_000

export interface LedgerRun {
  readonly processes: number
  readonly users: number
  /** Number of responses, and of concurrent ones. */
  readonly requests: number
  readonly connections: number
  /** How many of the processes are killed, one after the other, before Postgres is. */
  readonly kills: number
  readonly journalBytes: number
}

/** The fields of answers that are used. */
interface Body {
  readonly id: string
  readonly key: string
  readonly data: readonly Record<string, string | number | null>[]
  readonly gaps: readonly object[]
}

type Totals = Readonly<Record<string, number>>

/**
 * Sends mixed requests through a gateway: JSON, streams, messages, aborted ones and ones that report no usage. Kills
 * (kill -9) processes and Postgres meanwhile. Claims that the ledger agrees with the model server's own tally by
 * user, key, model and hour, that the counters of the limits do, that a budget was charged what the hours cost to the
 * last unit, and that the ledger and its archives verify.
 */
export async function claimLedgerAgrees(t: Test, run: LedgerRun): Promise<void> {
  const { requests } = run
  const users = Array.from({ length: run.users }, (_, i) => lasting(`user-${i}`))
  const random = createRandom()
  t.comment(`SEED=${random.seed}`)
  const valkey = await startValkey(t)
  const { path: directory, remove } = makeDatabaseFolder()
  t.teardown(remove)
  let database = await startEmbeddedPostgres({ directory: join(directory, 'own'), log() {} })
  t.teardown(() => database.stop())
  const { port } = database
  const folder = join(temporaryFolder(t), 'journal')
  mkdirSync(folder, { mode: 0o700 })
  const archives = temporaryFolder(t)
  const [adminPort = 0] = await freePorts(1)
  const paid = subscription(
    'paid',
    { groups: ['team'] },
    { 'llm/sim': [[limit, '24h']], 'llm/other': [[limit, '24h']] },
    {
      ofModels: {
        billingRate: { perInputToken: '3.1e-6', perOutputToken: '15.27e-7', perRequest: '0.001' },
      },
    },
  )
  const budget = { models: [{ namespace: 'llm', name: 'other' }], window: 'month' }
  paid.spec.limits = [
    // It refuses nothing, so unreported usage stays free, as in the model server's tally.
    { ...budget, name: 'money', per: 'subscription', of: 'cost', limit: '9000', enforce: false },
    { ...budget, name: 'output', per: 'user', of: 'output', limit },
  ]
  paid.spec.tokenMetadata = { organizationId: 'acme', costCenter: '42' }
  const gateway = await startReplicas(t, {
    count: run.processes,
    database: database.url,
    resources: (backendUrl) => [
      ...models.map((name) => modelRef(name, { backendUrl })),
      accessPolicy('open', ['llm/sim', 'llm/other'], { groups: ['team'] }),
      paid,
    ],
    tokens: [
      ...users.map((user, i) => `token-${user},${user},${i},team`),
      'token-admin,admin,admin,tollgate-admins',
    ],
    env: {
      USAGE_JOURNAL: join(folder, 'usage.jsonl'),
      USAGE_ARCHIVE_DIR: archives,
      USAGE_JOURNAL_BYTES: `${run.journalBytes}`,
      ENVOY_ADMIN_ADDRESS: `127.0.0.1:${adminPort}`,
      REDIS_URL: valkey.url,
      METER_PATHS: 'chat,messages',
    },
    envoyAdminPort: adminPort,
  })

  async function ask(path: string, token: string, body?: object) {
    const answer = await fetch(`${gateway.url}${path}`, {
      method: body === undefined ? 'GET' : 'POST',
      headers: { authorization: `Bearer ${token}` },
      ...(body && { body: JSON.stringify(body) }),
    })
    if (!answer.ok) throw new Error(`${answer.status} ${await answer.text()}`)
    return (await answer.json()) as Body
  }
  const keys: { user: string; id: string; key: string }[] = []
  for (const user of [...users, ...users]) {
    const { id, key } = await ask('/v1/api-keys', `token-${user}`, { name: 'usage' })
    keys.push({ user, id, key })
  }

  /** One request of a random kind; some of them fail while a process is being killed. */
  async function spend(): Promise<void> {
    const leftMs = () => hourMs - (Date.now() % hourMs)
    // Timers follow another clock: one in twenty fires a millisecond early, in the hour that ends.
    while (leftMs() < pauseMs) await delay(leftMs())
    const now = Date.now()
    const hour = toTimestamp(now - (now % hourMs))
    const { user, id, key } = keys[random.below(keys.length)] as (typeof keys)[0]
    const model = models[random.below(models.length)]
    const operation = random.below(3) === 0 ? 'messages' : 'chat/completions'
    const stream = random.below(2) === 0
    const aborts = stream && random.below(6) === 0
    const sim = {
      ...(random.below(8) === 0 ? { usage: null } : { totalTokens: 20 + random.below(500) }),
      words: 10,
      ...(aborts && { chunkDelayMs: 300 }),
    }
    const answer = await fetch(`${gateway.url}/llm/${model}/v1/${operation}`, {
      method: 'POST',
      headers: {
        authorization: `Bearer ${key}`,
        'x-sim-label': `${hour} ${user} ${id} llm/${model}`,
      },
      body: JSON.stringify({ model, max_tokens: 1_000, messages: [], stream, sim }),
    })
    if (!answer.ok) throw new Error(`${answer.status}`)
    if (!aborts) return void (await answer.arrayBuffer())
    const reader = answer.body?.getReader()
    await reader?.read()
    await reader?.cancel()
  }

  let sent = 0
  let failed = 0
  const worker = async (): Promise<void> => {
    while (sent < requests) {
      sent += 1
      await spend().catch(() => {
        failed += 1
      })
    }
  }
  const begun = performance.now()
  const workers = Promise.all(Array.from({ length: run.connections }, worker))
  const part = (share: number): Promise<unknown> =>
    poll(() => sent > requests * share, `${share} of it is sent`, 600_000)
  let killed: Replica | undefined
  for (const [i, victim] of gateway.all.slice(0, run.kills).entries()) {
    await part((i + 1) / (2 * run.kills + 2))
    await killed?.start()
    t.equal(await victim.end('SIGKILL'), 'SIGKILL')
    killed = victim
  }
  await part(1 / 2)
  process.kill(database.pid, 'SIGKILL')
  await database.exited
  t.ok(sent < requests, 'responses go on')
  await part(3 / 4)
  const restart = () => startEmbeddedPostgres({ directory: join(directory, 'own'), port, log() {} })
  // All connect at once, and a busy machine may not answer in time.
  for (let tries = 1; ; tries += 1) {
    const started = await restart().catch((error: unknown) => {
      if (tries === 15) throw error
    })
    if (started === undefined) continue
    database = started
    break
  }
  await killed?.start()
  await workers
  const seconds = Math.round((performance.now() - begun) / 1_000)
  t.ok(failed < requests / 10, `${failed} failed`)
  await poll(async () => (await gateway.model.tally()).open === 0, 'all responses have ended')
  const { labels = {} } = await gateway.model.tally()
  const total = (totals: Totals) => Object.values(totals).reduce((sum, each) => sum + each, 0)

  async function ledger(): Promise<Totals> {
    const { data } = await ask(
      '/v1/usage?group_by=hour,user,key,model,organization,cost_center',
      'token-admin',
    )
    return Object.fromEntries(
      data.map((row) => {
        t.match(row, { organization_id: 'acme', cost_center: '42' })
        return [`${row.start} ${row.user} ${row.key_id} ${row.model}`, Number(row.total_tokens)]
      }),
    )
  }
  const isFed = async () => total(await ledger().catch(() => ({}))) >= total(labels)
  // If it fails, the comparison below shows the missing usage.
  await poll(isFed, 'the ledger has everything', 60_000).catch(() => {})
  await delay(2_000)
  const found = await ledger()
  t.strictSame(found, labels, 'by hour, user, key and model')
  const { data: hours } = await ask('/v1/usage?group_by=hour,user', 'token-admin')
  t.equal(
    hours.reduce((sum, row) => sum + Number(row.total_tokens), 0),
    total(labels),
  )
  for (const user of users) {
    const { data } = await ask('/v1/limits', `token-${user}`)
    for (const { name, model, used } of data) {
      if (name !== null) continue
      const expected = Object.entries(labels).filter(
        ([name]) => name.includes(` ${user} `) && name.endsWith(` ${model}`),
      )
      t.equal(used, total(Object.fromEntries(expected)), `counter of ${user} for ${model}`)
    }
  }
  const { data: costs } = await ask('/v1/usage?group_by=month,model', 'token-admin')
  const cost = costs.find(({ model }) => model === 'llm/other')?.cost
  const sql = openPool({ url: database.url, connections: 1 })
  const [charged] = await sql<{ nano: string }[]>`
    select sum(amount)::text as nano from tollgate_usage_limits where name = 'money'`
  await sql.end()
  t.equal(formatMoney(BigInt(charged?.nano ?? 0)), cost, 'a budget was charged what all hours cost')
  const { gaps } = await ask('/v1/usage', 'token-admin')
  t.strictSame(gaps, [])
  const archived = () => readdirSync(archives, { recursive: true, encoding: 'utf8' })
  await poll(
    () => archived().some((name) => name.endsWith('.000001.jsonl.gz')),
    'it is archived',
    30_000,
  )
  const env = {
    DATABASE_URL: database.url,
    USAGE_JOURNAL: join(folder, 'usage.jsonl'),
    USAGE_ARCHIVE_DIR: archives,
  }
  const verified = await runAt({ env }, 'usage', 'verify')
  t.equal(verified.status, 0, verified.out + verified.err)
  t.comment(
    `${total(labels)} tokens, ${failed} of ${sent} requests failed, ${Object.keys(labels).length} sums, ${seconds} s`,
  )
}
