import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { connect, type Socket } from 'node:net'
import { join } from 'node:path'
import tls from 'node:tls'
import root, { type Test } from 'tap'
import type { Counter } from '../../../src/core/decision/counter.ts'
import { connectRedis } from '../../../src/store/redis/connection.ts'
import { freePorts } from '../../support/free-ports.ts'
import { poll } from '../../support/poll.ts'
import { createReplica, type Replica, redisKey } from '../../support/redis-world.ts'
import { startSentinel } from '../../support/sentinel.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'
import { type RunningValkey, skipValkey, startValkey } from '../../support/valkey.ts'

const skip = skipValkey
const hour = 3_600_000

function counterOf(user: string): Counter {
  return { key: `basic\nllm/small\n${hour}\n${user}`, windowMs: hour }
}

async function replicaOf(t: Test, url: string): Promise<Replica> {
  const replica = await createReplica({ url })
  t.teardown(() => replica.close())
  return replica
}

root.test('a URL of an unknown form is refused', async (t) => {
  t.throws(() => connectRedis('localhost', () => {}), /REDIS_URL/)
})

root.test('user, password and database are used', { skip }, async (t) => {
  const valkey = await startValkey(t)
  await valkey.client.acl('SETUSER', 'ada', 'on', '>s3cr@t', '~tollgate:*', '+@all', '-@dangerous')
  await valkey.client.config('SET', 'requirepass', 'other')
  const own = await replicaOf(t, `redis://ada:s3cr%40t@127.0.0.1:${valkey.port}/3`)
  own.counters.add([counterOf('ada')], 5, 0)
  await own.flushed()
  await valkey.client.auth('other')
  await valkey.client.select(3)
  t.equal(await valkey.client.get(redisKey(counterOf('ada'))), '5')

  const wrong = await createReplica({
    url: `redis://ada:wrong@127.0.0.1:${valkey.port}`,
    connect: false,
  })
  t.teardown(() => wrong.close())
  t.equal(await wrong.connection.connected(100), false)
  t.strictSame(await wrong.used(counterOf('ada')), [undefined])
  t.ok(wrong.counters.unavailable)
})

/** A TLS proxy for a server without TLS; writes its certificate to `folder`. */
async function startTlsProxy(t: Test, port: number, folder: string) {
  const [key, certificate] = [join(folder, 'key.pem'), join(folder, 'certificate.pem')]
  const { status, stderr } = spawnSync(
    'openssl',
    [
      ...['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes'],
      ...['-days', '2', '-subj', '/CN=localhost', '-addext', 'subjectAltName=IP:127.0.0.1'],
      ...['-keyout', key, '-out', certificate],
    ],
    { encoding: 'utf8' },
  )
  if (status !== 0) throw new Error(stderr)
  const sockets = new Set<Socket>()
  const server = tls.createServer(
    { key: readFileSync(key), cert: readFileSync(certificate) },
    (client) => {
      const upstream = connect(port, '127.0.0.1')
      for (const socket of [client, upstream]) {
        sockets.add(socket)
        socket.on('error', () => {})
      }
      client.pipe(upstream).pipe(client)
    },
  )
  server.on('tlsClientError', () => {})
  await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening))
  t.teardown(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  const address = server.address()
  const own = typeof address === 'object' && address !== null ? address.port : 0
  return { url: `rediss://127.0.0.1:${own}`, certificate: readFileSync(certificate, 'utf8') }
}

const noOpenssl = spawnSync('openssl', ['version']).status !== 0 && 'no openssl'

root.test('rediss uses TLS and verifies the server', { skip: skip || noOpenssl }, async (t) => {
  const valkey = await startValkey(t)
  const { url, certificate } = await startTlsProxy(t, valkey.port, temporaryFolder(t))
  const errors: unknown[] = []
  const stranger = connectRedis(url, (error) => errors.push(error))
  t.teardown(() => stranger.close())
  await poll(() => errors.length > 0, 'the connection is refused')
  t.match(
    errors[0],
    { code: 'DEPTH_ZERO_SELF_SIGNED_CERT' },
    'while the certificate is not trusted',
  )
  t.equal(await stranger.connected(0), false)

  const known = tls.getCACertificates('default')
  tls.setDefaultCACertificates([...known, certificate])
  t.teardown(() => tls.setDefaultCACertificates(known))
  const replica = await replicaOf(t, url)
  replica.counters.add([counterOf('tls')], 7, 0)
  await replica.flushed()
  t.equal(await valkey.client.get(redisKey(counterOf('tls'))), '7')
})

root.test('Sentinel leads to the new primary', { skip }, async (t) => {
  const primary = await startValkey(t)
  const secondary = await startValkey(t, ['--replicaof', '127.0.0.1', String(primary.port)])
  await poll(
    async () => /master_link_status:up/.test(await secondary.client.info('replication')),
    'the replica follows',
  )
  const sentinel = await startSentinel(t, primary.port, { downMs: 300, failoverMs: 3_000 })
  const replica = await replicaOf(t, `redis+sentinel://127.0.0.1:${sentinel.port}/main`)
  const counter = counterOf('sentinel')
  replica.counters.add([counter], 5, 0)
  await replica.flushed()
  t.equal(await primary.client.get(redisKey(counter)), '5')
  await poll(
    async () => (await secondary.client.get(redisKey(counter))) === '5',
    'the counter is replicated',
  )
  await poll(
    async () => /slaves=1/.test(await sentinel.client.info('sentinel')),
    'Sentinel knows both',
    30_000,
  )

  await primary.kill()
  replica.counters.add([counter], 2, 0)
  await poll(() => replica.counters.unavailable, 'Redis is unavailable')
  await sentinel.client.call('SENTINEL', 'FAILOVER', 'main').catch(() => {})
  await poll(() => !replica.counters.unavailable, 'the new primary is found', 60_000)
  await replica.flushed()
  t.equal(await secondary.client.get(redisKey(counter)), '7')
})

root.test('a Cluster counts on all its nodes', { skip }, async (t) => {
  const nodes = await startCluster(t)
  const replicas = await Promise.all(
    [0, 1].map(() =>
      replicaOf(t, `redis+cluster://127.0.0.1:${nodes[0]?.port},127.0.0.1:${nodes[1]?.port}`),
    ),
  )
  const counters = Array.from({ length: 200 }, (_, i) => counterOf(`user-${i}`))
  for (let round = 0; round < 20; round += 1) {
    for (const replica of replicas) replica.counters.add(counters, 1 + round, 0)
  }
  for (const replica of replicas) await replica.flushed()
  const perNode = await Promise.all(nodes.map(({ client }) => client.keys('*user-*')))
  t.equal(perNode.flat().length, 200)
  t.ok(
    perNode.every((keys) => keys.length > 0),
    `distributed as ${perNode.map((keys) => keys.length)}`,
  )
  for (const [i, keys] of perNode.entries()) {
    for (const key of keys) t.equal(await nodes[i]?.client.get(key), '420')
  }
  const seen = await replicaOf(t, `redis+cluster://127.0.0.1:${nodes[2]?.port}`)
  t.strictSame(
    await seen.used(...counters),
    counters.map(() => 420),
  )

  const [node, other] = nodes as [RunningValkey, RunningValkey]
  await node.kill()
  for (const replica of replicas) replica.counters.add(counters, 1, 0)
  await poll(
    () => replicas.every(({ counters }) => counters.unavailable),
    'the failed node is noticed',
  )
  t.match(
    replicas[0]?.counters.read(counters.slice(0, 1), Date.now()),
    [{ used: Number }],
    'nothing waits for it',
  )
  await node.start()
  await poll(
    () => replicas.every(({ counters }) => !counters.unavailable),
    'the node is back',
    30_000,
  )
  for (const replica of replicas) await replica.flushed()
  await poll(
    async () => (await seen.used(...counters)).filter((used) => used !== 422).length === 0,
    'every sum is exact',
    30_000,
  )

  other.freeze()
  for (const replica of replicas) replica.counters.add(counters, 1, 0)
  await poll(() => replicas.every(({ counters }) => counters.unavailable), 'a node hangs')
  other.thaw()
  await poll(
    () => replicas.every(({ counters }) => !counters.unavailable),
    'the node responds again',
    30_000,
  )
  for (const replica of replicas) await replica.flushed()
  await poll(
    async () => (await seen.used(...counters)).filter((used) => used !== 424).length === 0,
    'every sum is still exact',
    30_000,
  )
})

root.test('a Cluster counts a response once', { skip }, async (t) => {
  const nodes = await startCluster(t)
  const url = `redis+cluster://127.0.0.1:${nodes[0]?.port}`
  const [one, two] = [await replicaOf(t, url), await replicaOf(t, url)]
  const counters = Array.from({ length: 200 }, (_, i) => counterOf(`user-${i}`))
  const reports = counters.map((_, i) => ({
    id: `response ${i}`,
    endedAt: Date.now() - 200_000 - 1_000 * i,
    by: 'journal' as const,
  }))
  const [node] = nodes as [RunningValkey]
  const streamedAt = Date.now()
  const tellAll = async () => {
    for (const [i, report] of reports.entries()) {
      const hit = [counters[i] as Counter]
      one.counters.add(hit, 3, 0, { id: `streamed ${i}`, endedAt: streamedAt, by: 'stream' })
      one.counters.add(hit, 5, 0, report)
      two.counters.add(hit, 5, 0, report)
    }
    // The counters of one response may be on several nodes, although the service never does that.
    two.counters.add(counters, 1, 0, { id: 'all', endedAt: Date.now() - 200_000, by: 'journal' })
  }
  await tellAll()
  await Promise.all([one.counters.kept(), two.counters.kept()])
  await node.kill()
  await tellAll()
  await poll(() => two.counters.unavailable, 'the failed node is noticed')
  await node.start()
  await Promise.all([one.counters.kept(), two.counters.kept()])
  const seen = await replicaOf(t, url)
  t.strictSame(
    await seen.used(...counters),
    counters.map(() => 9),
  )
  const sets = async () => {
    const perNode = await Promise.all(nodes.map(({ client }) => client.keys('*:seen:*')))
    return perNode.flat()
  }
  t.ok((await sets()).length > 32)
  await one.counters.forgetReports(Date.now() - 150_000)
  const left = await sets()
  t.ok(left.length <= 48, `${left.length} sets are left`)
  t.equal(await one.counters.claimJournal(60_000), true)
  t.equal(await two.counters.claimJournal(60_000), false)
})

root.test('a Cluster that loses a shard gets its sums back', { skip }, async (t) => {
  const nodes = await startCluster(t)
  const url = `redis+cluster://127.0.0.1:${nodes[0]?.port}`
  const [one, two] = [await replicaOf(t, url), await replicaOf(t, url)]
  const counters = Array.from({ length: 200 }, (_, i) => counterOf(`user-${i}`))
  one.counters.add(counters, 10, 0)
  await one.flushed()
  two.counters.add(counters, 5, 0)
  await two.flushed()
  const [node] = nodes as [RunningValkey]
  const held = (await node.client.keys('*user-*')).length
  t.ok(held > 0 && held < 200, `it had ${held}`)
  await node.client.flushall()
  one.counters.add(counters, 1, 0)
  await one.flushed()
  const seen = await replicaOf(t, url)
  await poll(
    async () => (await seen.used(...counters)).filter((used) => used !== 16).length === 0,
    'every sum is restored',
    30_000,
  )
  t.ok(one.losses > 0 && one.losses < 16, `${one.losses} of 16 hash tags were lost`)
})

async function startCluster(t: Test): Promise<readonly RunningValkey[]> {
  // By default a node's bus port is its port plus 10,000, which may exceed the highest port.
  const ports = await freePorts(3)
  const nodes = await Promise.all(
    ports.map((bus) =>
      startValkey(t, [
        ...['--cluster-enabled', 'yes', '--cluster-port', String(bus), '--appendonly', 'yes'],
        ...['--appendfsync', 'always', '--cluster-require-full-coverage', 'no'],
        ...['--cluster-node-timeout', '1000'],
      ]),
    ),
  )
  const slots = 16_384
  for (const [i, { client }] of nodes.entries()) {
    const [first, next] = [i, i + 1].map((at) => Math.floor((at * slots) / nodes.length))
    await client.cluster('ADDSLOTSRANGE', first as number, (next as number) - 1)
    await client.call('CLUSTER', 'MEET', '127.0.0.1', nodes[0]?.port ?? 0, ports[0] ?? 0)
  }
  await poll(async () => {
    const infos = await Promise.all(nodes.map(({ client }) => client.cluster('INFO')))
    return infos.every((info) => /cluster_state:ok[\s\S]*cluster_known_nodes:3/.test(String(info)))
  }, 'the cluster is complete')
  return nodes
}
