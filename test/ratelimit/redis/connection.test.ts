import { spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import tls from 'node:tls'
import type { Logger } from 'pino'
import root, { type Test } from 'tap'
import { holdScripts } from '../../../src/ratelimit/holds/hold-scripts.ts'
import { connectRedis } from '../../../src/ratelimit/redis/connection.ts'
import { hashTags, writerMarkKey } from '../../../src/ratelimit/redis/keys.ts'
import { rightsScript } from '../../../src/ratelimit/redis/rights-script.ts'
import type { Counter } from '../../../src/ratelimit/rules/counter.ts'
import { sumScripts } from '../../../src/ratelimit/sums/scripts.ts'
import { createSumsLog } from '../../../src/ratelimit/sums/sums-log.ts'
import { startCluster } from '../../support/cluster.ts'
import { poll } from '../../support/poll.ts'
import { createSharingGateway, redisKey, type SharingGateway } from '../../support/redis-world.ts'
import { startSentinel } from '../../support/sentinel.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'
import { type RunningValkey, skipValkey, startValkey } from '../../support/valkey.ts'

const skip = skipValkey
const week = 604_800_000

function counterOf(user: string): Counter {
  return { key: `basic\nllm/small\n${week}\n${user}`, owner: 'all', window: { ms: week } }
}

/** What a server has of a counter. */
async function sumIn({ client }: RunningValkey, user: string): Promise<number> {
  return Number(await client.hget(redisKey(counterOf(user)), '+'))
}

async function gatewayOf(t: Test, url: string): Promise<SharingGateway> {
  const gateway = await createSharingGateway({ url })
  t.teardown(() => gateway.close())
  return gateway
}

root.test('a URL of an unknown form is refused', async (t) => {
  t.throws(() => connectRedis('localhost', () => {}), /REDIS_URL/)
})

root.test('user, password and database are used', { skip }, async (t) => {
  const valkey = await startValkey(t)
  await valkey.client.acl('SETUSER', 'ada', 'on', '>s3cr@t', '~tollgate:*', '+@all', '-@dangerous')
  await valkey.client.config('SET', 'requirepass', 'other')
  const own = await gatewayOf(t, `redis://ada:s3cr%40t@127.0.0.1:${valkey.port}/3`)
  own.add([counterOf('ada')], 5)
  await own.flushed()
  await valkey.client.auth('other')
  await valkey.client.select(3)
  t.equal(await sumIn(valkey, 'ada'), 5)

  const wrong = await createSharingGateway({
    url: `redis://ada:wrong@127.0.0.1:${valkey.port}`,
    connect: false,
  })
  t.teardown(() => wrong.close())
  t.equal(await wrong.connection.connected(100), false)
  await t.rejects(wrong.used(counterOf('ada')))
})

root.test('a user without every right is refused, and the log says which', { skip }, async (t) => {
  const { client, port } = await startValkey(t)
  const refused = async (rights: readonly string[]): Promise<string | undefined> => {
    await client.acl('SETUSER', 'ada', 'reset', 'on', '>secret', ...rights)
    const connection = connectRedis(`redis://ada:secret@127.0.0.1:${port}`, () => {})
    const isUp = await connection.connected(5_000)
    connection.close()
    t.equal(isUp, connection.problem === undefined)
    t.not(connection.problem?.isFinal, false)
    return connection.problem?.message
  }
  const [all, keys] = ['+@all', '~tollgate:*']
  t.match(await refused([keys, all, '-eval', '-evalsha']), /^NOPERM .*eval/)
  t.match(await refused(['~other:*', all]), /^NOPERM .*key/)
  t.match(await refused([keys, all, '-hset', '-zrem']), /^its user may not run HSET, ZREM on keys/)
  t.match(await refused([keys, all, '-multi']), /^NOPERM .*multi/)
  t.match(await refused([keys, all, '-exec']), /exec/)
  const documented = readFileSync('docs/redis.md', 'utf8').match(/ACL SETUSER tollgate (.*)/)?.[1]
  t.equal(await refused((documented ?? '').split(' ').slice(2)), undefined, 'the documented rights')
})

root.test('a full server is not refused, but named', { skip }, async (t) => {
  const { client, url } = await startValkey(t)
  await client.config('SET', 'maxmemory', '100kb')
  const connection = connectRedis(url, () => {})
  t.teardown(() => connection.close())
  t.equal(await connection.connected(200), false)
  t.match(connection.problem, { message: /^OOM/, isFinal: false })
  await client.config('SET', 'maxmemory', '0')
  t.equal(await connection.connected(5_000), true)
  const logged: unknown[] = []
  const note = ({ cause }: { cause: string }) => logged.push(cause)
  const log = { error: note } as unknown as Logger
  const { onUnavailable } = createSumsLog(log, 'usage.jsonl', () => connection.problem?.message)
  onUnavailable(true, new Error('LOADING'))
  onUnavailable(true, new Error('Connection is closed.'))
  t.strictSame(logged, ['LOADING', connection.problem?.message], 'a response says more')
})

root.test('a renamed command is named', { skip }, async (t) => {
  for (const [name, message] of [
    ['HMGET', /may not run HMGET on/],
    ['EVALSHA', /unknown command .evalsha/],
  ] as const) {
    const { url } = await startValkey(t, ['--rename-command', name, 'mine'])
    const connection = connectRedis(url, () => {})
    t.teardown(() => connection.close())
    t.equal(await connection.connected(5_000), false)
    t.match(connection.problem, { message, isFinal: true })
  }
})

root.test('every command of the scripts is among those that are tried', async (t) => {
  const commandsIn = (text: string) =>
    new Set([...text.matchAll(/(?:call|try)\('([A-Z]+)'/g)].map(([, name]) => name))
  const scripts = Object.values({ ...sumScripts, ...holdScripts }).join('')
  const tried = commandsIn(rightsScript.refusedCommands)
  t.strictSame([...commandsIn(scripts)].toSorted(), [...tried].toSorted())
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
  const gateway = await gatewayOf(t, url)
  gateway.add([counterOf('tls')], 7)
  await gateway.flushed()
  t.equal(await sumIn(valkey, 'tls'), 7)
})

root.test(
  'an untrusted certificate of a Cluster is named',
  { skip: skip || noOpenssl },
  async (t) => {
    const valkey = await startValkey(t)
    const { url } = await startTlsProxy(t, valkey.port, temporaryFolder(t))
    const problemAt = async (place: string) => {
      const connection = connectRedis(place, () => {})
      t.teardown(() => connection.close())
      t.equal(await connection.connected(500), false)
      return connection.problem?.message
    }
    t.match(await problemAt(url.replace('rediss:', 'rediss+cluster:')), /:\d+: self-signed/)
    t.match(await problemAt('redis+cluster://127.0.0.1:1'), /:1: connect ECONNREFUSED/)
  },
)

root.test('Sentinel leads to the new primary', { skip }, async (t) => {
  const primary = await startValkey(t)
  const secondary = await startValkey(t, ['--replicaof', '127.0.0.1', String(primary.port)])
  await poll(
    async () => /master_link_status:up/.test(await secondary.client.info('replication')),
    'the replica follows',
  )
  const sentinel = await startSentinel(t, primary.port, { downMs: 300, failoverMs: 3_000 })
  const gateway = await gatewayOf(t, `redis+sentinel://127.0.0.1:${sentinel.port}/main`)
  const counter = counterOf('sentinel')
  gateway.add([counter], 5)
  await gateway.flushed()
  t.equal(await sumIn(primary, 'sentinel'), 5)
  await poll(async () => (await sumIn(secondary, 'sentinel')) === 5, 'the counter is replicated')
  await poll(
    async () => /slaves=1/.test(await sentinel.client.info('sentinel')),
    'Sentinel knows both',
    30_000,
  )

  await primary.kill()
  gateway.add([counter], 2)
  await poll(() => gateway.isUnavailable, 'Redis is unavailable')
  await sentinel.client.call('SENTINEL', 'FAILOVER', 'main').catch(() => {})
  await poll(() => !gateway.isUnavailable, 'the new primary is found', 60_000)
  await gateway.flushed()
  t.equal(await sumIn(secondary, 'sentinel'), 7)
})

root.test(
  'a planned failover is followed although the old primary accepts writes',
  { skip },
  async (t) => {
    const primary = await startValkey(t)
    const secondary = await startValkey(t, ['--replicaof', '127.0.0.1', String(primary.port)])
    const sentinel = await startSentinel(t, primary.port, { downMs: 2_000, failoverMs: 3_000 })
    const gateway = await gatewayOf(t, `redis+sentinel://127.0.0.1:${sentinel.port}/main`)
    gateway.add([counterOf('planned')], 5)
    await gateway.flushed()
    const failOver = () => sentinel.client.call('SENTINEL', 'FAILOVER', 'main')
    await poll(() => failOver().then(Boolean, () => false), 'Sentinel knows both', 30_000)
    // Sentinel closes the connections of clients to the nodes that it reconfigures.
    const isPrimary = () =>
      secondary.client.role().then(
        ([role]) => role === 'master',
        () => false,
      )
    await poll(isPrimary, 'it is promoted')
    const promotedAt = performance.now()
    const isFollowed = () => {
      gateway.add([counterOf('planned')], 1)
      return sumIn(secondary, 'planned').then(
        (sum) => sum > 5,
        () => false,
      )
    }
    await poll(isFollowed, 'the new primary gets the sums', 30_000)
    t.ok(performance.now() - promotedAt < 5_000, 'before the old one becomes a replica')
  },
)

root.test('a sentinel that hangs is passed over', { skip }, async (t) => {
  const primary = await startValkey(t)
  const sentinel = await startSentinel(t, primary.port, { downMs: 300, failoverMs: 3_000 })
  const hanging = createServer().listen(0, '127.0.0.1')
  await once(hanging, 'listening')
  const { port } = hanging.address() as AddressInfo
  const url = `redis+sentinel://127.0.0.1:${port},127.0.0.1:${sentinel.port}/main`
  const connection = connectRedis(url, () => {})
  t.teardown(() => {
    connection.close()
    hanging.close()
  })
  t.equal(await connection.connected(5_000), true)
})

root.test(
  'each new connection to a node of a Cluster has the current password',
  { skip },
  async (t) => {
    const nodes = await startCluster(t)
    const onEach = (...call: [string, ...string[]]) =>
      Promise.all(nodes.map(({ client }) => client.call(...call)))
    await onEach('ACL', 'SETUSER', 'ada', 'on', '>first', '~*', '&*', '+@all')
    let password = 'first'
    const url = () => `redis+cluster://ada:${password}@127.0.0.1:${nodes[0]?.port}`
    const connection = connectRedis(url, () => {})
    t.teardown(() => connection.close())
    const { tags } = hashTags(true)
    const read = () =>
      Promise.all(tags.map((tag) => connection.commands.readSums([writerMarkKey(tag, 'g')], [])))
    t.equal(await connection.connected(5_000), true)
    await read()
    await onEach('ACL', 'SETUSER', 'ada', 'resetpass', '>second')
    password = 'second'
    const isRead = () => read().then(Boolean, () => false)
    await nodes[1]?.client.call('CLIENT', 'KILL', 'USER', 'ada')
    await poll(isRead, 'a node is connected again')
    await onEach('CLIENT', 'KILL', 'USER', 'ada')
    await poll(isRead, 'all are')
  },
)

/** A server that responds to each command with what `responseTo` returns for its name and first argument. */
async function startFakeNode(
  t: Test,
  responseTo: (name: string, first: string, socket: Socket) => string,
) {
  const server = createServer((socket) => {
    let lines: readonly string[] = []
    let rest = ''
    socket
      .on('error', () => {})
      .on('data', (data) => {
        const read = (rest + String(data).toLowerCase()).split('\r\n')
        rest = read.pop() ?? ''
        lines = [...lines, ...read]
        for (;;) {
          // A line with the number of arguments, and two for each: its length and itself.
          const length = 1 + 2 * Number(lines[0]?.slice(1))
          if (!(lines.length >= length)) return
          socket.write(responseTo(lines[2] ?? '', lines[4] ?? '', socket))
          lines = lines.slice(length)
        }
      })
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  return (server.address() as AddressInfo).port
}

root.test('an address of a node that cannot be reached is named', async (t) => {
  const port = await startFakeNode(t, (_, first) =>
    first === 'slots' ? '*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$9\r\n127.0.0.1\r\n:1\r\n' : '+OK\r\n',
  )
  const connection = connectRedis(`redis+cluster://127.0.0.1:${port}`, () => {})
  t.teardown(() => connection.close())
  const isNamed = async () =>
    !(await connection.connected(1)) && connection.problem?.message.startsWith('127.0.0.1:1: ')
  await poll(isNamed, 'the address is named')
  t.match(connection.problem, { message: /ECONNREFUSED/, isFinal: false })
})

/**
 * A Cluster of one node, which counts scripts and responds to them with `answer`; to ASKING it does not respond. With
 * `other`, the port of another node, that has all slots from 8192 on.
 */
async function startFakeCluster(t: Test, answer: (own: string) => string, other?: number) {
  let scripts = 0
  const slots = (from: number, to: number, node: number) =>
    `*3\r\n:${from}\r\n:${to}\r\n*2\r\n$9\r\n127.0.0.1\r\n:${node}\r\n`
  const port: number = await startFakeNode(t, (name, first) => {
    if (name === 'asking') return ''
    if (first === 'slots' && other === undefined) return `*1\r\n${slots(0, 16_383, port)}`
    if (first === 'slots')
      return `*2\r\n${slots(0, 8_191, port)}${slots(8_192, 16_383, other as number)}`
    if (!name.startsWith('eval')) return '+OK\r\n'
    scripts += 1
    return answer(`127.0.0.1:${port}`)
  })
  const connection = connectRedis(`redis+cluster://127.0.0.1:${port}`, () => {}, 200)
  t.teardown(() => connection.close())
  const read = (tag = '1') => connection.commands.readSums([writerMarkKey(tag, 'g')], [])
  const isReached = () => read('2').then(Boolean, () => scripts > 0)
  await poll(isReached, 'the node gets commands')
  return { read, scripts: () => scripts }
}

root.test('a name of a node that cannot be resolved is passed over', async (t) => {
  const port: number = await startFakeNode(t, (_, first) =>
    first === 'slots'
      ? `*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$9\r\n127.0.0.1\r\n:${port}\r\n`
      : '+OK\r\n',
  )
  // Too long for a name, so no server is asked.
  const nodes = [`${'x'.repeat(64)}:1`, `127.0.0.1:${port}`]
  const connection = connectRedis(`redis+cluster://${nodes}`, () => {})
  t.teardown(() => connection.close())
  const read = () => connection.commands.readSums([writerMarkKey('1', 'g')], [])
  await poll(() => read().then(Boolean, () => false), 'the other node is used')
  t.pass()
})

root.test('a Cluster does not get a command that has failed', async (t) => {
  const { scripts } = await startFakeCluster(t, () => '')
  const sent = scripts()
  await delay(500)
  t.equal(scripts(), sent, 'nothing comes later')
})

root.test('a transaction that fails in parts does not shift the responses after it', async (t) => {
  const timeoutMs = 400
  /** How much later the others of its commands time out than the first. */
  const apartMs = 600
  let scripts = 0
  let asked: Socket | undefined
  /** What comes after the first bytes of the response to INFO. */
  let held: string | undefined
  let isSlow = false
  const slow = await startFakeNode(t, (name, _, socket) => {
    if (name.startsWith('eval')) scripts += 1
    if (name === 'info') asked = socket
    const response = name.startsWith('eval') ? `:${scripts}\r\n` : '+OK\r\n'
    if (held === undefined && !(isSlow && name === 'info')) return response
    held = held === undefined ? 'loading:0\r\n' : held + response
    return name === 'info' ? '$9\r\n' : ''
  })
  const port: number = await startFakeNode(t, (_, first) => {
    const part = (from: number, to: number, node: number) =>
      `*3\r\n:${from}\r\n:${to}\r\n*2\r\n$9\r\n127.0.0.1\r\n:${node}\r\n`
    return first === 'slots'
      ? `*2\r\n${part(0, 8_191, port)}${part(8_192, 16_383, slow)}`
      : '+OK\r\n'
  })
  async function connectToOther(): Promise<ReturnType<typeof connectRedis>> {
    asked = undefined
    const connection = connectRedis(`redis+cluster://127.0.0.1:${port}`, () => {}, timeoutMs)
    t.teardown(() => connection.close())
    const read = () => connection.commands.readSums([writerMarkKey('2', 'g')], [])
    await poll(() => read().then(Boolean, () => false), 'it is up')
    // The client asks any node whether the Cluster is up.
    return asked === undefined ? connection : connectToOther()
  }
  const { readSums, writeAndRelease } = (await connectToOther()).commands
  isSlow = true
  const key = writerMarkKey('1', 'g')
  // The first commands time out before the connection is ready, the others would after it.
  const begin = performance.now()
  const { setTimeout: startTimer } = globalThis
  t.teardown(() => Object.assign(globalThis, { setTimeout: startTimer }))
  let timers = 0
  const startSlowly = (...own: Parameters<typeof startTimer>) => {
    if (own[1] === timeoutMs && ++timers === 5) {
      while (performance.now() < begin + apartMs);
    }
    return startTimer(...own)
  }
  Object.assign(globalThis, { setTimeout: startSlowly })
  const releases = Array.from({ length: 10 }, () => [[key], ['']] as const)
  const transaction = writeAndRelease([[key], []], releases).catch(() => {})
  Object.assign(globalThis, { setTimeout: startTimer })
  await poll(() => held !== undefined, 'the node is asked')
  await delay(Math.max(1, begin + timeoutMs + apartMs / 2 - performance.now()))
  asked?.write(held ?? '')
  isSlow = false
  held = undefined
  await transaction
  await delay(timeoutMs)
  const seen = scripts
  for (const each of [1, 2, 3]) t.equal(await readSums([key], []).catch(String), seen + each)
})

root.test('a node of a Cluster that takes over a slot may hang', async (t) => {
  const { read } = await startFakeCluster(t, (own) => `-ASK 1 ${own}\r\n`)
  await t.rejects(read(), /timed out/)
})

root.test('a command waits no longer if a node of a Cluster hangs', async (t) => {
  const hanging = await startFakeNode(t, () => '')
  const moved = () => `-MOVED 9842 127.0.0.1:${hanging}\r\n`
  const { read } = await startFakeCluster(t, moved, hanging)
  const times: Promise<number>[] = []
  for (let i = 0; i < 60; i += 1) {
    const begin = performance.now()
    times.push(read().then(Number, () => performance.now() - begin))
    await delay(20)
  }
  const longest = Math.max(...(await Promise.all(times)))
  t.ok(longest < 500, `it took ${longest} ms`)
})

root.test('a Cluster that is down is named', async (t) => {
  const { read } = await startFakeCluster(t, () => '-CLUSTERDOWN Hash slot not served\r\n')
  await t.rejects(read(), /^CLUSTERDOWN/)
})

root.test('a Cluster counts on all its nodes', { skip }, async (t) => {
  const nodes = await startCluster(t)
  const gateways = await Promise.all(
    [0, 1].map(() =>
      gatewayOf(t, `redis+cluster://127.0.0.1:${nodes[0]?.port},127.0.0.1:${nodes[1]?.port}`),
    ),
  )
  const users = Array.from({ length: 200 }, (_, i) => `user-${i}`)
  const counters = users.map(counterOf)
  const flushed = () => Promise.all(gateways.map((each) => each.flushed()))
  for (let round = 0; round < 20; round += 1) {
    for (const each of gateways) each.add(counters, 1 + round)
  }
  await flushed()
  const perNode = await Promise.all(nodes.map(({ client }) => client.keys('*user-*')))
  t.equal(perNode.flat().length, 200)
  t.ok(
    perNode.every((keys) => keys.length > 0),
    `distributed as ${perNode.map((keys) => keys.length)}`,
  )
  for (const [i, keys] of perNode.entries()) {
    for (const key of keys) t.equal(await nodes[i]?.client.hget(key, '+'), '420')
  }
  const seen = await gatewayOf(t, `redis+cluster://127.0.0.1:${nodes[2]?.port}`)
  const isSeen = async (sum: number) =>
    (await seen.used(...counters).catch(() => [])).filter((used) => used === sum).length === 200
  t.ok(await isSeen(420))

  const [node, other] = nodes as [RunningValkey, RunningValkey]
  const isAway = () => gateways.every(({ isUnavailable }) => isUnavailable)
  const isBack = () => gateways.every(({ isUnavailable }) => !isUnavailable)
  await node.kill()
  for (const each of gateways) each.add(counters, 1)
  await poll(isAway, 'the failed node is noticed')
  await node.start()
  await poll(isBack, 'the node is back', 30_000)
  await flushed()
  await poll(() => isSeen(422), 'every sum is exact', 30_000)

  other.freeze()
  for (const each of gateways) each.add(counters, 1)
  await poll(isAway, 'a node hangs')
  other.thaw()
  await poll(isBack, 'the node responds again', 30_000)
  await flushed()
  await poll(() => isSeen(424), 'every sum is still exact', 30_000)
  for (const { losses } of gateways) t.equal(losses, 0, 'nothing was lost')

  await node.client.flushall()
  for (const each of gateways) each.add(counters, 1)
  await poll(() => isSeen(426), 'a shard that has lost all gets its sums back', 30_000)
  for (const { losses } of gateways) t.ok(losses > 0 && losses < 16, `${losses} of 16 tags`)
})
