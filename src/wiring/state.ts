/** The state of this process, for its APIs. */

import { createProcessState } from '../admin/operation/process-state.ts'
import { listReplicas } from '../cluster/replicas.ts'
import { readVersion } from '../runtime/package-root.ts'
import { ping } from '../store/postgres/postgres.ts'
import type { Context } from './context.ts'
import { outageGraceMs } from './keys.ts'
import type { ServiceParts } from './parts.ts'

export type State = ReturnType<typeof openState>

/** `isReady`: whether requests may be sent here. */
export function openState({ config, audit }: Context, parts: ServiceParts, isReady: () => boolean) {
  const { resources, tokens } = parts
  const { sums, holds } = parts.counterParts
  const { pool } = parts.database
  return createProcessState({
    ...parts.keyParts,
    replica: config.replicaName,
    version: readVersion(),
    graceMs: outageGraceMs(config),
    redis: config.redisUrl === undefined ? undefined : sums,
    holds,
    journal: sums,
    isReady,
    ping: () => ping(pool),
    listReplicas: () => listReplicas(pool),
    firstBytes: parts.telemetry.firstBytes,
    uncountedCalls: parts.telemetry.uncountedCalls,
    table: parts.table.stats,
    snapshot: parts.discovery.snapshot,
    resources,
    // Both may contain the cluster.
    unavailable: () => [...tokens.degraded(), ...resources.degraded()],
    audit,
  })
}
