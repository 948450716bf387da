import { writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { join } from 'node:path'
import { type Test, test } from 'tap'
import { formatAddress } from '../../src/settings/config.ts'
import { openPool } from '../../src/store/postgres/postgres.ts'
import { makeCertificate, noOpenssl } from '../support/certificates.ts'
import { runAt } from '../support/command.ts'
import { createDatabase } from '../support/database.ts'
import { envoyPath } from '../support/envoy-binary.ts'
import { addReplica } from '../support/followers.ts'
import { type Gateway, startGateway } from '../support/gateway.ts'
import { listenLocally } from '../support/listening.ts'
import { poll } from '../support/poll.ts'
import { mountSmallDisk, skipSmallDisk } from '../support/small-disk.ts'
import { startTcpProxy } from '../support/tcp-proxy.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { skipValkey, startValkey } from '../support/valkey.ts'

const skip = (envoyPath() === undefined && 'no Envoy') || skipValkey || noOpenssl

async function run(env: NodeJS.ProcessEnv, ...args: readonly string[]) {
  const { status, out, err } = await runAt({ env }, 'doctor', ...args)
  const text = [out, err].join('\n')
  const sections = [...text.matchAll(/runbook\.md#(\S+)/g)].map(([, name = '']) => name)
  // Tests share a busy machine.
  return { status, text, sections: sections.filter((name) => name !== 'tollgateeventlooplate') }
}

/** The settings that the process of a gateway has. */
function settingsOf(
  { addresses, envoy, journal }: Gateway,
  more: NodeJS.ProcessEnv,
): NodeJS.ProcessEnv {
  return {
    INTERNAL_ADDRESS: formatAddress(addresses.internal),
    METRICS_ADDRESS: addresses.metrics && formatAddress(addresses.metrics),
    ENVOY_ADMIN_ADDRESS: envoy.admin,
    USAGE_JOURNAL: journal,
    ...more,
  }
}

/** Asks until the sections are these. */
async function until(t: Test, env: NodeJS.ProcessEnv, expected: readonly string[]) {
  let last = await run(env, '--since-start')
  await poll(async () => {
    last = await run(env, '--since-start')
    return last.sections.join() === expected.join()
  }, expected.join()).catch(() => t.strictSame(last.sections, expected, last.text))
  t.equal(last.status, expected.length > 0 || /eventloop/.test(last.text) ? 1 : 0)
  return last.text
}

test('says what is wrong, the worst first', { skip }, async (t) => {
  const valkey = await startValkey(t)
  const stores = { DATABASE_URL: await createDatabase(t), REDIS_URL: valkey.url }
  const gateway = await startGateway(t, { env: stores })
  const env = settingsOf(gateway, stores)
  await until(t, env, [])

  gateway.put('broken.yaml', 'kind: "\\u001b[31m"\n')
  await until(t, env, ['tollgateresourceproblems'])
  valkey.freeze()
  const text = await until(t, env, ['tollgateredisaway', 'tollgateresourceproblems'])
  t.match(
    text,
    /^critical +Redis is unavailable\.\n +(tollgate_redis_away is 1|\/readyz lists redis)\n +docs\//m,
  )
  t.match(text, /^warning +Resource documents have problems\.\n +broken\.yaml:1/m)
  t.notMatch(text, '\u001b', 'what a document says cannot colour the terminal')
  valkey.thaw()
  gateway.put('broken.yaml', undefined)
  await until(t, env, [])

  const { path, keyPath } = makeCertificate(t, 3)
  const served = { GATEWAY_TLS_CERT_FILE: path, GATEWAY_TLS_KEY_FILE: keyPath }
  const late = await until(t, { ...env, ...served }, ['tollgatecertificateexpires'])
  t.match(late, `${path}: 2 days left`)
  const other = makeCertificate(t)
  const mismatched = { TLS_CERT_FILE: other.path, TLS_KEY_FILE: keyPath }
  const atGateway = { ...served, GATEWAY_TLS_CERT_FILE: other.path }
  const unusable = await run({ ...env, ...mismatched, ...atGateway }, '--since-start')
  t.match(unusable.text, `TLS_KEY_FILE: ${keyPath} is not the key of ${other.path}`)
  t.match(unusable.text, 'GATEWAY_TLS_CERT_FILE: cannot be used with the key')
  writeFileSync(path, 'no certificate')
  const illegible = await run({ ...env, ...served }, '--since-start')
  t.match(illegible.text, 'GATEWAY_TLS_CERT_FILE: cannot be used with the key')
  t.notMatch(illegible.text, 'days left', 'nothing is said of the end of what cannot be read')

  const sql = openPool({ url: stores.DATABASE_URL, connections: 1 })
  await addReplica(sql, 'gone')
  await sql`update tollgate_replicas set seen_at = now() - interval '1 minute' where name = 'gone'`
  await sql.end()
  // What is in force there is unknown, so policies are Degraded.
  const silent = await until(t, env, ['tollgatereplicasilent', 'tollgateresourceproblems'])
  t.match(silent, /gone at /)
  t.match(silent, /AccessPolicy models-as-a-service\/open is Degraded: .* by gone/)
})

test('names several faults in order of harm', { skip: skip || skipSmallDisk }, async (t) => {
  const valkey = await startValkey(t)
  const disk = mountSmallDisk(t)
  const database = await createDatabase(t)
  const proxy = await startTcpProxy(t, Number(new URL(database).port))
  const journal = join(disk.path, 'journal', 'usage.jsonl')
  const { path, keyPath } = makeCertificate(t, 3)
  const stores = {
    ...{ DATABASE_URL: proxy.through(database), REDIS_URL: valkey.url, USAGE_JOURNAL: journal },
  }
  const gateway = await startGateway(t, { env: stores })
  const served = { GATEWAY_TLS_CERT_FILE: path, GATEWAY_TLS_KEY_FILE: keyPath }
  const env = settingsOf(gateway, { ...stores, ...served })
  gateway.put('broken.yaml', 'kind: Nothing\n')
  const warnings = ['tollgateresourceproblems', 'tollgatecertificateexpires']
  await until(t, env, warnings)
  const { key } = await gateway.mint()
  t.equal((await gateway.chat(key)).status, 200)
  valkey.freeze()
  proxy.refuse()
  const load = setInterval(() => {
    // Also what the service frees by removing its ballast.
    disk.fill()
    void gateway.chat(key).catch(() => {})
  }, 100)
  t.teardown(() => clearInterval(load))
  const away = ['tollgatedatabaseaway', 'tollgateredisaway']
  const lagging = ['tollgatecountersunflushed', 'tollgateledgerfailing']
  await until(t, env, [...away, 'tollgatejournalfailing', ...lagging, ...warnings])
})

test('a process whose metrics fail is not in service', { skip }, async (t) => {
  const gateway = await startGateway(t)
  const failing = createServer((_request, response) => void response.writeHead(500).end())
  const env = settingsOf(gateway, {
    METRICS_ADDRESS: `127.0.0.1:${await listenLocally(t, failing)}`,
  })
  const { sections, text } = await run(env)
  t.ok(sections.includes('tollgatedown'), text)
  t.match(text, '/metrics has status 500')
})

test('a process of a unit says itself where its metrics are', { skip }, async (t) => {
  const gateway = await startGateway(t)
  const { METRICS_ADDRESS: _, ...env } = settingsOf(gateway, {})
  await until(t, env, [])
  const elsewhere = await run({ ...env, METRICS_ADDRESS: '127.0.0.1:9' }, '--since-start')
  t.match(elsewhere.text, /METRICS_ADDRESS 127\.0\.0\.1:9: .*ECONNREFUSED/)

  const path = join(temporaryFolder(t), 'other')
  const another = await run({ ...env, USAGE_JOURNAL: join(path, 'usage.jsonl') }, '--since-start')
  t.strictSame(another.sections, ['tollgatejournalfailing'])
  t.match(another.text, `${path} is missing`)
  t.match(another.text, `Envoy writes to ${gateway.journal.replace('.jsonl', '.envoy.jsonl')}, and`)
})

test('without a process it says what would keep it from serving', { skip }, async (t) => {
  const database = { DATABASE_URL: await createDatabase(t) }
  const gateway = await startGateway(t, { env: database })
  const env = settingsOf(gateway, database)
  await gateway.stopService()
  const nowhere = join(temporaryFolder(t), 'nowhere')
  const { sections, text, status } = await run({ ...env, RESOURCES: `file:${nowhere}` })
  t.equal(status, 1)
  t.strictSame(sections, ['tollgatedown', 'tollgateresourceproblems'], text)
  t.match(
    text,
    /^critical +The Tollgate process does not respond, or is not ready\.\n +INTERNAL_ADDRESS .*ECONNREFUSED/m,
  )
  t.notMatch(text, 'scraped')
  t.match(text, `${nowhere} cannot be read`)
  const alone = { ENVOY_ADMIN_ADDRESS: '127.0.0.1:9', DATABASE_URL: 'postgres://127.0.0.1:9/x' }
  t.strictSame((await run({ ...env, ...alone })).sections, [
    ...['tollgatedown', 'tollgateenvoydown', 'tollgatedatabaseaway'],
  ])
})

test("the system's authorities do not count as certificates", async (t) => {
  const soon = Math.floor(Date.now() / 1_000) + 1.5 * 86_400
  const stats = (owner: string, name: string, end: number) =>
    `${owner}.ssl.certificate.${name}.expiration_unix_time_seconds: ${end}\n`
  const system = stats('cluster.model/llm/a', 'authorities', 1_677_845_388)
  const own = stats('cluster.model/llm/b', 'authorities-0a', 1_677_845_388)
  let sent = `${system}server.days_until_first_cert_expiring: 0\n`
  const envoy = createServer((_request, response) => response.end(sent))
  const env = { ENVOY_ADMIN_ADDRESS: `127.0.0.1:${await listenLocally(t, envoy)}` }
  const { sections, text } = await run(env)
  t.notMatch(sections.join(), 'tollgatecertificateexpires', text)
  sent += own + stats('listener.0.0.0.0_443', 'gateway', soon)
  const found = (await run(env)).text
  t.match(found, /Envoy, gateway of listener\.0\.0\.0\.0_443: 1 day left\n/)
  t.match(found, /Envoy, authorities-0a of cluster\.model\/llm\/b: expired\n/)
})

test('every degraded part that has a section is named', async (t) => {
  const bodies: Readonly<Record<string, string>> = {
    '/readyz': '{"status":"ready","degraded":["time-zones","oidc"]}',
    '/metrics': '',
  }
  const listener = createServer(({ url = '' }, response) => {
    response.writeHead(bodies[url] === undefined ? 404 : 200).end(bodies[url])
  })
  const address = `127.0.0.1:${await listenLocally(t, listener)}`
  const env = { INTERNAL_ADDRESS: address, METRICS_ADDRESS: address }
  const { sections, text } = await run(env, '--since-start')
  t.ok(sections.includes('identity-providers-and-the-cluster'), text)
  t.ok(sections.includes('time-zones'), text)
})

test('without settings and the folder of npm start it says so', async (t) => {
  const DATA_DIR = temporaryFolder(t)
  const { text } = await run({ DATA_DIR }, '--since-start')
  t.match(
    text,
    `it is not set, and npm start has recorded no addresses in ${DATA_DIR} (set DATA_DIR`,
  )
})

test('invalid arguments say where help is', async (t) => {
  for (const args of [['now'], ['--since']]) {
    const { status, text } = await run({}, ...args)
    t.equal(status, 2)
    t.match(text, / See tollgate doctor --help\.$/)
  }
})
