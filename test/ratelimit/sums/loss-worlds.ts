import { cpSync, existsSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import type { Test } from 'tap'
import { type FlakyProxy, startFlakyProxy } from '../../support/flaky-proxy.ts'
import { freePorts } from '../../support/free-ports.ts'
import { poll } from '../../support/poll.ts'
import { createRandom, type Random } from '../../support/random.ts'
import { startSentinel } from '../../support/sentinel.ts'
import { makeTemporaryFolder } from '../../support/temporary-folder.ts'
import { type RunningValkey, startValkey } from '../../support/valkey.ts'

/** Servers that can lose data in each way in which Redis does. */
export interface LossWorld {
  /** The names of its losses. */
  readonly kinds: readonly LossKind[]
  /** The steps of a loss. Traffic goes on between them, and after the last one all is well. */
  stepsOf(kind: LossKind, random: Random): readonly (() => Promise<void>)[]
  /** A connection of a process. */
  connect(random: Random): Promise<{ readonly url: string; close(): Promise<void> }>
  /** Removes all data, and the copies of them. */
  clear(): Promise<void>
}

export type LossKind =
  | 'flushed'
  | 'restarted without data'
  | 'restarted with an older copy'
  | 'restarted with a copy from before an earlier loss'
  | 'failed over'
  | 'failed over to a replica that lags'
  | 'failed over while the primary hung'
  | 'split with writes on both sides'
  | 'evicted single keys'
  | 'moved slots'

const noData = ['dump.rdb', 'appendonlydir']

/** A primary and its replica, whose data can be copied, removed and put back. */
function createPair(t: Test, servers: readonly [RunningValkey, RunningValkey]) {
  let [primary, replica] = servers
  /** Folders with copies of its files, the oldest first. */
  const copies: string[] = []

  async function follow(): Promise<void> {
    await poll(
      async () =>
        /master_link_status:up/.test(await replica.client.info('replication').catch(() => '')),
      'the replica follows',
      30_000,
    )
  }

  return {
    get primary() {
      return primary
    },
    get replica() {
      return replica
    },
    swap() {
      ;[primary, replica] = [replica, primary]
    },
    follow,
    async copy(): Promise<void> {
      const { client, folder } = primary
      if ((await client.config('GET', 'appendonly'))[1] === 'no') await client.save()
      else {
        await poll(
          async () => /aof_rewrite_in_progress:0/.test(await client.info('persistence')),
          'no rewrite is under way',
        )
      }
      const copy = makeTemporaryFolder()
      t.teardown(() => copy.remove())
      for (const name of noData) {
        if (existsSync(join(folder, name))) {
          cpSync(join(folder, name), join(copy.path, name), { recursive: true })
        }
      }
      copies.push(copy.path)
    },
    /** Kills the primary, and starts it with a copy; without a number, with no data. */
    async restart(copy?: number): Promise<void> {
      const from = copy === undefined ? undefined : copies[copy]
      await primary.kill()
      for (const name of noData) {
        rmSync(join(primary.folder, name), { recursive: true, force: true })
        if (from !== undefined && existsSync(join(from, name))) {
          cpSync(join(from, name), join(primary.folder, name), { recursive: true })
        }
      }
      await primary.start()
    },
    get copies() {
      return copies.length
    },
    /** Removes the data of both, and the copies. A replica that does not follow yet has the data of before. */
    async clear(): Promise<void> {
      await follow()
      await primary.client.flushall()
      await poll(async () => (await replica.client.dbsize()) === 0, 'the replica has no data')
      copies.length = 0
    },
    /** From now on the replica gets nothing. */
    async lag(): Promise<void> {
      // The primary has no password, so it refuses a replica that sends one.
      await replica.client.config('SET', 'masterauth', 'wrong')
      await replica.client.call('CLIENT', 'KILL', 'TYPE', 'master')
    },
    async catchUp(): Promise<void> {
      for (const { client } of servers) await client.config('SET', 'masterauth', '')
      await follow()
    },
    /** Removes some of the windows, and of the marks by which writers learn that something was lost. */
    async evict(random: Random): Promise<void> {
      for (const key of await primary.client.keys('*')) {
        if (random.below(2) === 0) await primary.client.unlink(key)
      }
    },
  }
}

type Pair = ReturnType<typeof createPair>

/** The losses that need nothing but the pair. */
function ownSteps(pair: Pair, kind: LossKind, random: Random): (() => Promise<void>)[] {
  switch (kind) {
    case 'flushed':
      return [async () => void (await pair.primary.client.flushall())]
    case 'restarted without data':
      return [() => pair.restart()]
    case 'restarted with an older copy':
      return [pair.copy, () => pair.restart(pair.copies - 1)]
    case 'restarted with a copy from before an earlier loss':
      return [
        async () => {
          if (pair.copies === 0) await pair.copy()
        },
        () => pair.restart(random.below(pair.copies)),
      ]
    case 'evicted single keys':
      return [() => pair.evict(random)]
    default:
      return []
  }
}

function persistence(random: Random): readonly string[] {
  return random.below(2) === 0 ? ['--appendonly', 'yes', '--appendfsync', 'no'] : []
}

const replicaArgs = ['--repl-diskless-sync-delay', '0', '--repl-backlog-size', '1mb']

/**
 * One server and a replica behind an address that can move between them. Every process has a faulty
 * connection of its own, so that the processes can be on different sides.
 */
export async function createServerWorld(t: Test, seed: number): Promise<LossWorld> {
  const args = [...persistence(createRandom(seed)), ...replicaArgs]
  const servers = [await startValkey(t, args), await startValkey(t, args)] as const
  const pair = createPair(t, servers)
  const proxies = new Set<FlakyProxy>()

  async function replicate(): Promise<void> {
    await pair.replica.client.replicaof('127.0.0.1', pair.primary.port)
    await pair.follow()
  }
  await replicate()

  function turnAll(): void {
    for (const proxy of proxies) proxy.turnTo(pair.primary.port)
  }

  async function promote(): Promise<void> {
    await pair.primary.kill()
    await pair.replica.client.replicaof('NO', 'ONE')
    pair.swap()
    turnAll()
  }

  async function rejoin(): Promise<void> {
    await pair.replica.start()
    await pair.replica.client.replicaof('127.0.0.1', pair.primary.port)
    await pair.catchUp()
  }

  const kinds = [
    'flushed',
    'restarted without data',
    'restarted with an older copy',
    'restarted with a copy from before an earlier loss',
    'failed over',
    'failed over to a replica that lags',
    'split with writes on both sides',
    'evicted single keys',
  ] as const

  return {
    kinds,
    stepsOf(kind, random) {
      switch (kind) {
        case 'failed over':
          return [promote, rejoin]
        case 'failed over to a replica that lags':
          return [pair.lag, promote, rejoin]
        case 'split with writes on both sides':
          return [
            async () => {
              await pair.replica.client.replicaof('NO', 'ONE')
              for (const proxy of proxies) {
                if (random.below(2) === 0) proxy.turnTo(pair.replica.port)
              }
            },
            async () => {
              // Some move once more before it ends.
              for (const proxy of proxies) {
                if (random.below(4) === 0) proxy.turnTo(servers[random.below(2)]?.port as number)
              }
            },
            async () => {
              if (random.below(2) === 0) pair.swap()
              turnAll()
              await replicate()
            },
          ]
        default:
          return ownSteps(pair, kind, random)
      }
    },
    async connect(random) {
      const proxy = await startFlakyProxy(t, pair.primary.port, random)
      proxies.add(proxy)
      return {
        url: proxy.url,
        async close() {
          proxies.delete(proxy)
          await proxy.close()
        },
      }
    },
    clear: pair.clear,
  }
}

/** A primary and its replica with a Sentinel. */
export async function createSentinelWorld(t: Test, seed: number): Promise<LossWorld> {
  const args = [...persistence(createRandom(seed)), ...replicaArgs]
  const servers = [await startValkey(t, args), await startValkey(t, args)] as const
  const pair = createPair(t, servers)
  await pair.replica.client.replicaof('127.0.0.1', pair.primary.port)
  await pair.follow()
  // It starts no failover itself because the machine is slow, nor gives one up.
  const sentinel = await startSentinel(t, pair.primary.port, { downMs: 5_000, failoverMs: 10_000 })
  await poll(
    async () => /slaves=1/.test(await sentinel.client.info('sentinel')),
    'Sentinel knows both',
    30_000,
  )

  /** Waits until Sentinel has made the replica the primary. */
  async function promoted(): Promise<void> {
    await poll(
      async () => {
        const role = await pair.replica.client.info('replication').catch(() => '')
        if (/role:master/.test(role)) return true
        // It refuses while one is under way, or while it does not know the replica's state.
        await sentinel.client.call('SENTINEL', 'FAILOVER', 'main').catch(() => {})
        return false
      },
      'the replica is the primary',
      60_000,
    )
    pair.swap()
    await poll(
      async () => {
        const address = await sentinel.client.call('SENTINEL', 'GET-MASTER-ADDR-BY-NAME', 'main')
        return (address as string[])[1] === String(pair.primary.port)
      },
      'Sentinel knows the new primary',
      60_000,
    )
  }

  async function rejoined(): Promise<void> {
    for (const { client } of servers) await client.config('SET', 'masterauth', '')
    // As Sentinel does, but seconds later.
    await pair.replica.client.replicaof('127.0.0.1', pair.primary.port)
    await poll(
      async () => {
        const role = await pair.replica.client.info('replication').catch(() => '')
        return /role:slave/.test(role) && /master_link_status:up/.test(role)
      },
      'the old primary follows the new one',
      60_000,
    )
    await poll(
      async () => {
        const fields = (await sentinel.client.call('SENTINEL', 'REPLICAS', 'main')) as string[][]
        return !/s_down|disconnected/.test(String(fields))
      },
      'Sentinel knows both',
      60_000,
    )
  }

  const kill = async () => {
    await pair.primary.kill()
    await promoted()
  }
  const rejoin = async () => {
    await pair.replica.start()
    await rejoined()
  }

  return {
    kinds: [
      'flushed',
      'failed over',
      'failed over to a replica that lags',
      'failed over while the primary hung',
      'evicted single keys',
    ],
    stepsOf(kind, random) {
      switch (kind) {
        case 'failed over':
          return [kill, rejoin]
        case 'failed over to a replica that lags':
          return [pair.lag, kill, rejoin]
        case 'failed over while the primary hung':
          return [
            pair.lag,
            async () => {
              pair.primary.freeze()
              await promoted()
            },
            async () => {
              pair.replica.thaw()
              await rejoined()
            },
          ]
        default:
          return ownSteps(pair, kind, random)
      }
    },
    connect: async () => ({
      url: `redis+sentinel://127.0.0.1:${sentinel.port}/main`,
      close: async () => {},
    }),
    clear: pair.clear,
  }
}

/** A Cluster of two shards, each with a replica; one of them loses data at a time. */
export async function createClusterWorld(t: Test, seed: number): Promise<LossWorld> {
  const buses = await freePorts(4)
  const args = [...persistence(createRandom(seed)), ...replicaArgs]
  const nodes = await Promise.all(
    buses.map((bus) =>
      startValkey(t, [
        ...args,
        ...['--cluster-enabled', 'yes', '--cluster-port', String(bus)],
        ...['--cluster-require-full-coverage', 'no', '--cluster-node-timeout', '1000'],
        ...['--cluster-replica-validity-factor', '0', '--cluster-replica-no-failover', 'yes'],
      ]),
    ),
  )
  const [one, two, three, four] = nodes as [
    RunningValkey,
    RunningValkey,
    RunningValkey,
    RunningValkey,
  ]
  await one.client.cluster('ADDSLOTSRANGE', 0, 8_191)
  await two.client.cluster('ADDSLOTSRANGE', 8_192, 16_383)
  // Otherwise two of them have the same configuration epoch, and a replica cannot take over.
  for (const [i, { client }] of nodes.entries()) {
    await client.call('CLUSTER', 'SET-CONFIG-EPOCH', i + 1)
  }
  for (const { client } of nodes) {
    await client.call('CLUSTER', 'MEET', '127.0.0.1', one.port, buses[0] as number)
  }
  const all = async (pattern: RegExp) => {
    const infos = await Promise.all(
      nodes.map(({ client }) => client.cluster('INFO').catch(() => '')),
    )
    return infos.every((info) => pattern.test(String(info)))
  }
  await poll(
    () => all(/cluster_state:ok[\s\S]*cluster_known_nodes:4/),
    'the cluster is complete',
    30_000,
  )
  const pairs = [createPair(t, [one, three]), createPair(t, [two, four])]
  for (const { primary, replica } of pairs) {
    const id = await primary.client.call('CLUSTER', 'MYID')
    await poll(
      () =>
        replica.client.call('CLUSTER', 'REPLICATE', id as string).then(
          () => true,
          () => false,
        ),
      'the replica knows the primary',
    )
  }
  for (const { follow } of pairs) await follow()
  async function takeOver(pair: Pair): Promise<void> {
    await pair.replica.client.call('CLUSTER', 'FAILOVER', 'TAKEOVER')
    await poll(
      async () => /role:master/.test(await pair.replica.client.info('replication')),
      'the replica has taken over',
    )
    pair.swap()
  }

  /** Moves the keys of one of 16 hash tags to the other pair, as an operator who reshards would. */
  function moveSlot(random: Random): (() => Promise<void>)[] {
    const tag = `{${random.below(16)}}`
    const between = async () => {
      const slot = Number(await one.client.call('CLUSTER', 'KEYSLOT', tag))
      const ids = await Promise.all(
        pairs.map(async ({ primary }) => String(await primary.client.call('CLUSTER', 'MYID'))),
      )
      const nodes = String(await (pairs[0] as Pair).primary.client.cluster('NODES')).split('\n')
      const from = nodes.find((line) => line.startsWith(ids[0] as string)) ?? ''
      const own = from
        .split(' ')
        .slice(8)
        .filter((range) => !range.startsWith('['))
      const isFirst = own.some((range) => {
        const [first, last = first] = range.split('-').map(Number) as [number, number?]
        return first <= slot && slot <= last
      })
      const [source, target] = isFirst ? [0, 1] : [1, 0]
      return {
        slot,
        source: { ...(pairs[source] as Pair).primary, id: ids[source] as string },
        target: { ...(pairs[target] as Pair).primary, id: ids[target] as string },
      }
    }
    return [
      async () => {
        const { slot, source, target } = await between()
        await target.client.cluster('SETSLOT', slot, 'IMPORTING', source.id)
        await source.client.cluster('SETSLOT', slot, 'MIGRATING', target.id)
      },
      async () => {
        const { slot, source, target } = await between()
        for (;;) {
          const keys = (await source.client.cluster('GETKEYSINSLOT', slot, 10)) as string[]
          if (keys.length === 0) break
          const to = ['127.0.0.1', target.port, '', 0, 5_000]
          await source.client.call('MIGRATE', ...to, 'REPLACE', 'KEYS', ...keys)
        }
        for (const { client } of [target, source]) {
          await client.cluster('SETSLOT', slot, 'NODE', target.id)
        }
      },
    ]
  }

  async function rejoined(pair: Pair): Promise<void> {
    for (const { client } of nodes) await client.config('SET', 'masterauth', '')
    await poll(
      async () => {
        const role = await pair.replica.client.info('replication').catch(() => '')
        return /role:slave/.test(role) && /master_link_status:up/.test(role)
      },
      'the old primary follows the new one',
      60_000,
    )
  }

  /** A node refuses commands for a second or two after its start. */
  async function recovered(): Promise<void> {
    await poll(() => all(/cluster_state:ok/), 'all nodes serve', 30_000)
  }

  return {
    kinds: [
      'flushed',
      'restarted without data',
      'restarted with an older copy',
      'restarted with a copy from before an earlier loss',
      'failed over',
      'failed over to a replica that lags',
      'failed over while the primary hung',
      'evicted single keys',
      'moved slots',
    ],
    stepsOf(kind, random) {
      return [...lossOf(kind, random), recovered]
    },
    connect: async () => ({
      url: `redis+cluster://${nodes.map(({ port }) => `127.0.0.1:${port}`).join()}`,
      close: async () => {},
    }),
    async clear() {
      for (const pair of pairs) await pair.clear()
    },
  }

  function lossOf(kind: LossKind, random: Random): readonly (() => Promise<void>)[] {
    const pair = pairs[random.below(2)] as Pair
    const dead = async () => {
      await pair.primary.kill()
      await takeOver(pair)
    }
    const rejoin = async () => {
      await pair.replica.start()
      await rejoined(pair)
    }
    switch (kind) {
      case 'failed over':
        return [dead, rejoin]
      case 'failed over to a replica that lags':
        return random.below(2) === 0
          ? [pair.lag, dead, rejoin]
          : [pair.lag, () => takeOver(pair), () => rejoined(pair)]
      case 'failed over while the primary hung':
        return [
          pair.lag,
          async () => {
            pair.primary.freeze()
            await takeOver(pair)
          },
          async () => {
            pair.replica.thaw()
            await rejoined(pair)
          },
        ]
      case 'moved slots':
        return moveSlot(random)
      default:
        return ownSteps(pair, kind, random)
    }
  }
}
