/**
 * `npm test -- bench/dns.bench.ts`: the DNS queries that a real Envoy sends by itself for 2,000
 * models with host names, counted by the DNS server.
 */

import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { test } from 'tap'
import { joinClusters, noClusters, renderCluster, writeClusters } from '../src/gateway/clusters.ts'
import { startDnsServer } from '../test/support/dns-server.ts'
import { startEnvoy } from '../test/support/envoy.ts'
import { poll } from '../test/support/poll.ts'
import { temporaryFolder } from '../test/support/temporary-folder.ts'

const models = 2_000
const seconds = 20
const nobody = { host: '127.0.0.1', port: 9 }

test('DNS questions', { timeout: 300_000 }, async (t) => {
  let questions = 0
  const names = new Set<string>()
  const port = await startDnsServer(t, (name) => {
    questions += 1
    names.add(name)
    return '127.0.0.1'
  })
  const folder = temporaryFolder(t)
  const clusters = join(folder, 'clusters')
  mkdirSync(clusters)
  const backends = Array.from({ length: models }, (_, i) => ({
    cluster: `model/llm/m${i}`,
    backendUrl: `http://m${i}.models.example:8000`,
  }))
  await writeClusters(clusters, noClusters)
  await startEnvoy(t, {
    folder,
    clustersFile: join(clusters, 'clusters.json'),
    grpc: [nobody],
    api: [nobody],
    adjust(bootstrap) {
      const type = 'type.googleapis.com/envoy.extensions.network.dns_resolver.cares.v3'
      const address = { address: '127.0.0.1', port_value: port, protocol: 'UDP' }
      const resolvers = [{ socket_address: address }]
      return JSON.stringify({
        ...JSON.parse(bootstrap),
        typed_dns_resolver_config: {
          name: 'envoy.network.dns_resolver.cares',
          typed_config: { '@type': `${type}.CaresDnsResolverConfig`, resolvers },
        },
      })
    },
  })
  await writeClusters(clusters, joinClusters(backends.map(renderCluster), '1'))
  await poll(() => names.size === models, 'each name has been queried', 120_000)
  const begin = questions
  await delay(1_000 * seconds)
  const counted = (questions - begin) / seconds
  t.comment(
    `${counted.toFixed(0)} questions a second for ${models} models, counted in ${seconds} s`,
  )
})
