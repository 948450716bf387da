/**
 * Every alert of monitoring/rules.yaml, with a real Prometheus: each fault is made for real, its
 * alerts fire, and clear when it is over. The durations of the rules are a twentieth of what they
 * are; thresholds and faults are not scaled.
 */

import {
  appendFileSync,
  cpSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import t from 'tap'
import { parse, stringify } from 'yaml'
import { renderCertificate } from '../../../src/gateway/bootstrap.ts'
import { openPool } from '../../../src/store/postgres/postgres.ts'
import { makeCertificate, noOpenssl } from '../../support/certificates.ts'
import { accessPolicy, modelRef, subscription } from '../../support/documents.ts'
import { startEnvoy } from '../../support/envoy.ts'
import { envoyPath } from '../../support/envoy-binary.ts'
import { checkOf } from '../../support/envoy-messages.ts'
import { freePorts } from '../../support/free-ports.ts'
import { chatPath } from '../../support/gateway.ts'
import { connect } from '../../support/grpc-client.ts'
import { poll } from '../../support/poll.ts'
import { skipPrometheus, startPrometheus } from '../../support/prometheus.ts'
import { startReplicas } from '../../support/replicas.ts'
import { startReviewServer } from '../../support/review-server.ts'
import type { Propagation } from '../../support/revoking.ts'
import { mountSmallDisk, skipSmallDisk } from '../../support/small-disk.ts'
import { type LoadRequest, type SteadyLoad, startLoad } from '../../support/steady-load.ts'
import { startTcpProxy, type TcpProxy } from '../../support/tcp-proxy.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'
import { skipValkey, startValkey } from '../../support/valkey.ts'

const skip =
  skipPrometheus ||
  (envoyPath() === undefined && 'no Envoy') ||
  skipValkey ||
  skipSmallDisk ||
  noOpenssl

const options = { skip, timeout: 3_000_000 }
const scale = 20
const written = readFileSync(new URL('../../../monitoring/rules.yaml', import.meta.url), 'utf8')
/** A process that is scraped reads lines faster than Envoy can write them here. */
const unmade = 'TollgateJournalUnread'
/** More than the metrics distinguish. */
const users = 11_000
const someUsers = 3_000
const checkPath = '/envoy.service.auth.v3.Authorization/Check'
const team = { groups: ['team'] }
/** So many that one request has more windows to flush than a slow Redis accepts meanwhile. */
const limits = Array.from({ length: 20 }, (_, i) => [1e9, `${i + 1}h`] as const)

interface Rule {
  readonly alert?: string
  readonly expr: string
  readonly for?: string
}

const units: Readonly<Record<string, number>> = { s: 1, m: 60, h: 3_600, d: 86_400 }

function shorten(duration: string): string {
  const [, number = '', unit = ''] = /^(\d+)([smhd])$/.exec(duration) ?? []
  return `${(Number(number) * (units[unit] as number)) / scale}s`
}

/** The same rules with every duration a twentieth as long. */
function shortened(): { readonly groups: readonly { readonly rules: readonly Rule[] }[] } {
  const { groups } = parse(written) as { groups: readonly { rules: readonly Rule[] }[] }
  return {
    groups: groups.map((group) => ({
      ...group,
      rules: group.rules.map((rule) => ({
        ...rule,
        expr: rule.expr
          .replace(/\[(\w+)\]/g, (_, duration: string) => `[${shorten(duration)}]`)
          .replace(/offset (\w+)/g, (_, duration: string) => `offset ${shorten(duration)}`)
          .replace(/(?<=start_time_seconds < )\d+/g, (seconds) =>
            shorten(`${seconds}s`).slice(0, -1),
          ),
        ...(rule.for && { for: shorten(rule.for) }),
      })),
    })),
  }
}

t.test('every alert fires by its fault and clears after it', options, async (t) => {
  const disk = mountSmallDisk(t)
  const folder = temporaryFolder(t)
  const valkey = await startValkey(t)
  const redis = await startTcpProxy(t, valkey.port)
  const databases: TcpProxy[] = []
  const cluster = await startReviewServer(t)
  const administrators = Array.from({ length: 100 }, (_, i) => `operator-${i}`)
  for (const name of administrators) cluster.tokens.set(name, { username: name, groups: ['team'] })
  const [adminPort = 0] = await freePorts(1)
  for (const each of ['journal', 'revocations', 'audit']) mkdirSync(join(disk.path, each))
  const journal = join(disk.path, 'journal', 'usage.jsonl')
  const archives = join(temporaryFolder(t), 'archives')
  const documents = (url: string, names: readonly string[]) => [
    ...names.map((name) =>
      modelRef(name, { backendUrl: name === 'gone' ? 'http://127.0.0.1:1' : url }),
    ),
    accessPolicy(
      'open',
      names.map((name) => `llm/${name}`),
      team,
    ),
    subscription('plenty', team, Object.fromEntries(names.map((name) => [`llm/${name}`, limits]))),
  ]
  const replicas = await startReplicas(t, {
    count: 2,
    resources: (url) => documents(url, ['sim', 'gone']),
    tokens: Array.from({ length: users }, (_, i) => `token-${i},user-${i},${i},team`),
    async databaseFor(url) {
      const proxy = await startTcpProxy(t, Number(new URL(url).port))
      databases.push(proxy)
      return proxy.through(url)
    },
    envoyAdminPort: adminPort,
    env: {
      REDIS_URL: redis.through(valkey.url),
      ENVOY_ADMIN_ADDRESS: `127.0.0.1:${adminPort}`,
      USAGE_JOURNAL: journal,
      USAGE_ARCHIVE_DIR: archives,
      // A file is complete after a quarter of a minute.
      USAGE_JOURNAL_BYTES: '262144',
      AUDIT_LOG: join(disk.path, 'audit', 'audit.jsonl'),
      REVOCATION_LOG_DIR: join(disk.path, 'revocations'),
      KEY_CACHE_OUTAGE_GRACE: '1m',
      INFERENCE_WITH_IDENTITY_TOKENS: 'true',
      KUBERNETES_TOKEN_REVIEW: 'true',
      KUBECONFIG: cluster.kubeconfig,
    },
  })
  const [first, second] = replicas.all
  if (first === undefined || second === undefined) throw new Error('no processes')
  const sql = openPool({ url: replicas.database, connections: 2 })
  t.teardown(() => sql.end())

  // A second gateway, whose certificate ends tomorrow.
  const certificates = join(folder, 'certificates')
  mkdirSync(certificates)
  const install = (days: number) => {
    const { path, keyPath } = makeCertificate(t, days)
    const draft = join(folder, `certificate-${days}`)
    mkdirSync(draft)
    for (const [from, name] of [
      [keyPath, 'key.pem'],
      [path, 'cert.pem'],
    ] as const) {
      cpSync(from, join(draft, name))
      renameSync(join(draft, name), join(certificates, name))
    }
  }
  install(1)
  const certificateFile = join(folder, 'certificate', 'certificate.json')
  mkdirSync(dirname(certificateFile))
  writeFileSync(
    certificateFile,
    renderCertificate(join(certificates, 'cert.pem'), join(certificates, 'key.pem')),
  )
  mkdirSync(join(folder, 'second-envoy'))
  const place = (address: string) => {
    const [host = '', port] = address.split(':')
    return { host, port: Number(port) }
  }
  const secure = await startEnvoy(t, {
    grpc: replicas.all.map(({ grpc }) => place(grpc)),
    api: replicas.all.map(({ api }) => place(api)),
    clustersFile: join(replicas.folder, 'clusters', 'clusters.json'),
    folder: join(folder, 'second-envoy'),
    certificateFile,
  })

  const rules = shortened()
  const names = rules.groups.flatMap(({ rules }) => rules.flatMap(({ alert }) => alert ?? []))
  writeFileSync(join(folder, 'rules.yaml'), stringify(rules))
  const prometheus = await startPrometheus(
    t,
    {
      tollgate: replicas.all.map(({ metrics }) => metrics),
      envoy: [replicas.envoy.admin, secure.admin],
    },
    join(folder, 'rules.yaml'),
  )

  const fired = new Set<string>()
  const startedAt = performance.now()
  const say = (what: string) =>
    t.comment(`${((performance.now() - startedAt) / 1_000).toFixed(0)} s: ${what}`)

  /** Waits until each of these has fired; returns all that fired meanwhile. */
  async function fires(...expected: readonly string[]): Promise<ReadonlySet<string>> {
    const seen = new Set<string>()
    const haveFired = async () => {
      for (const name of await prometheus.firing()) seen.add(name)
      return expected.every((name) => seen.has(name))
    }
    // Those that have not are named below.
    await poll(haveFired, 'they fire', 150_000).catch(() => {})
    for (const name of expected) t.ok(seen.has(name), `${name} fires`)
    for (const name of seen) fired.add(name)
    say(`fired: ${[...seen].join(', ')}`)
    return seen
  }

  async function clear(...expected: readonly string[]): Promise<void> {
    const areClear = async () => {
      const firing = await prometheus.firing()
      return !expected.some((name) => firing.includes(name))
    }
    await poll(areClear, 'they clear', 150_000).catch(() => {})
    const firing = await prometheus.firing()
    for (const name of expected) t.notOk(firing.includes(name), `${name} clears`)
  }

  const api = (path: string, token: string, init: RequestInit = {}) =>
    fetch(`http://${first.api}${path}`, {
      ...init,
      headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
    })
  async function mint(): Promise<{ readonly key: string; readonly id: string }> {
    const body = JSON.stringify({ name: 'alerts', subscription: 'plenty' })
    const answer = await api('/v1/api-keys', 'token-0', { method: 'POST', body })
    if (answer.status !== 201) throw new Error(`no key: ${answer.status} ${await answer.text()}`)
    return (await answer.json()) as { key: string; id: string }
  }
  const chat = (token: string, sim: object = {}, model = 'sim'): LoadRequest => ({
    url: `${replicas.url}${chatPath.replace('sim', model)}`,
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
    body: JSON.stringify({ model, messages: [], sim: { totalTokens: 10, ...sim } }),
  })
  const loads: SteadyLoad[] = []
  const load = (perSecond: number, next: (n: number) => LoadRequest) => {
    const started = startLoad(perSecond, next, 200)
    loads.push(started)
    return started
  }
  t.teardown(() => Promise.all(loads.map((each) => each.stop())))
  const put = (name: string, text: string) => {
    writeFileSync(join(replicas.folder, 'fresh'), text)
    renameSync(join(replicas.folder, 'fresh'), join(replicas.folder, 'resources', name))
  }
  const resources = (...models: readonly string[]) =>
    put(
      'all.yaml',
      documents(replicas.model.url, models)
        .map((each) => JSON.stringify(each))
        .join('\n---\n'),
    )

  const { key } = await mint()
  load(20, () => chat(key))
  await delay(25_000)
  t.strictSame(await prometheus.firing(), [], 'all is quiet while all is well')

  say('the disk of the journal, the audit trail and the revocation log is full')
  // The last page of a file has room for some more lines.
  const doomed: { readonly id: string }[] = []
  for (let i = 0; i < 60; i += 1) doomed.push(await mint())
  await poll(async () => {
    // Again, for the service then removes the ballast of the journal.
    disk.fill()
    const { id = '' } = doomed.pop() ?? {}
    const revoked = await api(`/v1/api-keys/${id}`, 'token-0', { method: 'DELETE' })
    return ((await revoked.json()) as { propagation: Propagation }).propagation.state === 'pending'
  }, 'a revocation is pending')
  await fires(
    'TollgateJournalFailing',
    'TollgateAuditLost',
    'TollgateRevocationLogFailing',
    'TollgateRevocationsPending',
  )
  disk.free()
  await mint()
  await clear('TollgateJournalFailing', 'TollgateRevocationLogFailing')

  say('a revoked key is active again in the database')
  const revived = await mint()
  await api(`/v1/api-keys/${revived.id}`, 'token-0', { method: 'DELETE' })
  await sql`update api_keys set status = 'active' where id = ${revived.id}`
  const revival = load(2, () => chat(revived.key))
  await fires('TollgateRevocationsReplayed')
  await revival.stop()

  say('a trigger is off')
  await sql`alter table api_keys disable trigger tollgate_key_changed`
  await fires('TollgateDatabaseAway')
  const ready = await fetch(`http://${first.internal}/readyz`)
  t.match(await ready.json(), { degraded: ['database'] })
  await sql`alter table api_keys enable always trigger tollgate_key_changed`
  await clear('TollgateDatabaseAway')

  say('Postgres is out of reach')
  const invented = (n: number) => chat(`sk-oai-invented${n}_0123456789abcdef`)
  for (const proxy of databases) proxy.refuse()
  const strangers = load(5, invented)
  await fires(
    'TollgateDatabaseAway',
    'TollgateStoreRefusals',
    'TollgateKeyAge',
    'TollgateLedgerFailing',
    'TollgateTableHitsFall',
  )
  await strangers.stop()
  for (const proxy of databases) proxy.heal()
  await clear(
    'TollgateDatabaseAway',
    'TollgateStoreRefusals',
    'TollgateKeyAge',
    'TollgateLedgerFailing',
    'TollgateTableHitsFall',
  )

  say('the table of keys is locked, and somebody invents keys')
  const unlocked = Promise.withResolvers<void>()
  const locking = sql.begin(async (transaction) => {
    await transaction`lock table api_keys in access exclusive mode`
    await unlocked.promise
  })
  const more = load(5, (n) => invented(n + 1_000_000))
  const clients = Array.from({ length: 20 }, () => connect(t, first.grpc))
  let isFlooding = true
  const flooding = (async () => {
    for (let from = 0; isFlooding; from += 6_000) {
      await Promise.all(
        Array.from({ length: 6_000 }, (_, n) => {
          const authorization = `Bearer sk-oai-flood${from + n}_0123456789abcdef`
          return clients[n % clients.length]
            ?.ask(checkPath, checkOf(chatPath, { authorization }))
            .catch(() => {})
        }),
      )
      await delay(1_000)
    }
  })()
  await fires('TollgateKeyFlood')
  isFlooding = false
  await flooding
  await fires('TollgateCheckSlow', 'TollgateStoreRefusals')
  await more.stop()
  unlocked.resolve()
  await locking
  await clear('TollgateKeyFlood', 'TollgateCheckSlow', 'TollgateStoreRefusals')

  say('a process gets only part of a processor')
  let isStarved = true
  const starving = (async () => {
    while (isStarved) {
      second.signal('SIGSTOP')
      await delay(200)
      second.signal('SIGCONT')
      await delay(100)
    }
  })()
  await fires('TollgateEventLoopLate')
  isStarved = false
  await starving
  await clear('TollgateEventLoopLate')

  say('a process is killed')
  await second.end('SIGKILL')
  await fires('TollgateDown', 'TollgateReplicaSilent', 'TollgateReplicas')

  say('Redis is slow')
  // In each direction; more than 500 ms in all would be an outage. A call has at most 512 windows.
  redis.slow(150)
  // The more users ask at the same time, the more counters wait.
  let user = 0
  const crowd: SteadyLoad[] = []
  const growing = setInterval(() => {
    if (crowd.length < 20) crowd.push(load(8, () => chat(`token-${user++ % someUsers}`)))
  }, 1_000)
  const slow = await fires('TollgateCountersUnflushed')
  t.notOk(slow.has('TollgateRedisAway'), 'Redis answers')
  clearInterval(growing)
  await Promise.all(crowd.map((each) => each.stop()))
  redis.slow(0)
  await clear('TollgateCountersUnflushed')

  say('Redis is out of reach')
  redis.refuse()
  const crowdAgain = load(250, (n) => chat(`token-${n % someUsers}`))
  const away = await fires('TollgateRedisAway')
  t.notOk(away.has('TollgateCountersUnflushed'), 'has an alert of its own')
  await crowdAgain.stop()
  redis.heal()
  await clear('TollgateRedisAway')

  say('Redis loses its data')
  await valkey.client.flushall()
  await fires('TollgateRedisLoss')

  say('the killed process runs again')
  await second.start()
  await clear('TollgateDown', 'TollgateReplicaSilent', 'TollgateReplicas')

  say('a model reports no usage, one fails, one is down; a journal has another format')
  appendFileSync(journal, 'not a line of Envoy\n')
  const bad = [
    load(5, () => chat(key, { usage: null })),
    load(5, () => chat(key, { status: 500 })),
    load(5, () => chat(key, {}, 'gone')),
    load(5, () => ({ ...chat(key), url: `${replicas.url}/llm/sim/v1/completions` })),
  ]
  await fires(
    'TollgateUsageUnusable',
    'TollgateUncountedCalls',
    'TollgateModelErrors',
    'TollgateModelFailing',
    'TollgateJournalSkipped',
    'TollgateLedgerGaps',
  )
  for (const each of bad) await each.stop()

  say('the archives cannot be written')
  rmSync(archives, { recursive: true, force: true })
  writeFileSync(archives, 'no folder')
  await fires('TollgateArchiveFailing')
  rmSync(archives)
  await clear('TollgateArchiveFailing')

  say('a document is broken')
  put('broken.yaml', 'kind: ModelRef\n')
  await fires('TollgateResourceProblems')
  put('broken.yaml', '')
  await clear('TollgateResourceProblems')
  say('the folder of the resources is away')
  const resourceFolder = join(replicas.folder, 'resources')
  renameSync(resourceFolder, `${resourceFolder}-away`)
  await fires('TollgateResourcesFailing')
  renameSync(`${resourceFolder}-away`, resourceFolder)
  await clear('TollgateResourcesFailing')
  say('there are no models')
  resources()
  await fires('TollgateNoModels')
  resources('sim', 'gone')
  await clear('TollgateNoModels')

  say('Envoy hangs, and a model is new')
  process.kill(replicas.envoy.pid, 'SIGSTOP')
  resources('sim', 'gone', 'new')
  await fires('TollgateEnvoyDown', 'TollgateModelsWaiting')
  // Longer than any model waits for its cluster.
  await delay(15_000)
  await fires('TollgateModelsWaiting')
  process.kill(replicas.envoy.pid, 'SIGCONT')
  await clear('TollgateEnvoyDown', 'TollgateModelsWaiting')

  say("the cluster's reviews fail")
  const other = await mint()
  // Their tokens are known; whether they are administrators is not.
  for (const token of administrators) {
    const known = await api('/v1/api-keys/search', token, { method: 'POST', body: '{}' })
    if (known.status !== 200) throw new Error(`${token}: ${known.status} ${await known.text()}`)
  }
  cluster.answer = (_request, response) => response.writeHead(500).end()
  let operator = 0
  const reviews = load(2, () => ({
    method: 'GET',
    url: `http://${first.api}/v1/api-keys/${other.id}`,
    headers: { authorization: `Bearer ${administrators[operator++ % administrators.length]}` },
  }))
  await fires('TollgateAccessReviewsFailing')
  await reviews.stop()
  cluster.answer = undefined

  say('the certificate is replaced')
  await fires('TollgateCertificateExpires')
  install(90)

  say('there are more users than the metrics distinguish')
  await second.end('SIGTERM')
  let asked = 0
  const masses = load(300, () => chat(`token-${asked++ % users}`))
  await poll(() => asked >= users, 'every user has asked', 600_000)
  await fires('TollgateSeriesOverflow')
  await masses.stop()
  await second.start()

  await poll(
    async () => (await prometheus.firing()).length === 0,
    'everything clears',
    300_000,
  ).catch(async () => t.strictSame(await prometheus.firing(), [], 'everything clears'))
  say('nothing fires')
  t.strictSame(
    names.filter((name) => !fired.has(name) && name !== unmade),
    [],
    'every alert has fired',
  )
})
