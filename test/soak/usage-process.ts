/**
 * One process of the service, reduced to counting: access-log entries by gRPC, settled into Redis.
 * Forked with the URL of Redis; sends its port, and `flushed` after a `stop` has flushed
 * everything.
 */

import { createGrpcServer } from '../../src/grpc/server.ts'
import { readUsages } from '../../src/ratelimit/access-log.ts'
import { createSettle } from '../../src/ratelimit/settle.ts'
import { modelRef, snapshotOf, subscription } from '../support/documents.ts'
import { createReplica } from '../support/redis-world.ts'

const snapshot = snapshotOf(
  modelRef('small'),
  subscription('basic', { groups: ['team'] }, { 'llm/small': [[1_000_000_000, '24h']] }),
)
const replica = await createReplica({ url: process.argv[2] ?? '' })
const settle = createSettle({
  snapshot: () => snapshot,
  counters: replica.counters,
  clock: Date.now,
  unusableUsage: 'allow',
  onSettled() {},
  onCounted() {},
})
const server = createGrpcServer({
  unary: {},
  clientStreaming: {
    '/envoy.service.accesslog.v3.AccessLogService/StreamAccessLogs': (message) => {
      for (const usage of readUsages(message)) settle(usage)
    },
  },
  onFault: (error) => console.error(error),
})
process.on('message', async () => {
  await server.stop(1_000)
  const lost = await replica.counters.stop(20_000)
  replica.connection.close()
  process.send?.({ lost }, () => process.disconnect())
})
process.send?.({ port: await server.listen('127.0.0.1:0') })
