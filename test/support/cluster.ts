import type { Test } from 'tap'
import { freePorts } from './free-ports.ts'
import { poll } from './poll.ts'
import { type RunningValkey, startValkey } from './valkey.ts'

/** Starts three nodes that share the slots, each without a replica. */
export async function startCluster(t: Test): Promise<readonly RunningValkey[]> {
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
