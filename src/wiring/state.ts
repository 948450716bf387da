/** The state of this process, for its APIs. */

import { createProcessState } from '../admin/operation/process-state.ts'
import type { Journal } from '../ratelimit/journal/journal.ts'
import { readVersion } from '../runtime/package-root.ts'
import { ping } from '../store/postgres/postgres.ts'
import { listReplicas } from '../store/revocations/replicas.ts'
import type { Context } from './context.ts'
import { outageGraceMs } from './keys.ts'
import type { Parts } from './parts.ts'

export type State = ReturnType<typeof openState>

/** `isReady`: whether requests may be sent here. */
export function openState(
  { config }: Context,
  parts: Parts,
  journal: Journal | undefined,
  isReady: () => boolean,
) {
  const { resources, tokens } = parts
  const { pool } = parts.database
  return createProcessState({
    ...parts.keyParts,
    ...{ replica: config.replicaName, version: readVersion(), graceMs: outageGraceMs(config) },
    ...{ redis: parts.counterParts.redis, journal, isReady },
    ping: () => ping(pool),
    listReplicas: () => listReplicas(pool),
    firstBytes: parts.telemetry.firstBytes,
    uncountedCalls: parts.telemetry.uncountedCalls,
    snapshot: parts.discovery.snapshot,
    resources: { ...resources, problems: parts.resourceProblems },
    // Both may contain the cluster.
    unavailable: () => [...tokens.degraded(), ...resources.degraded()],
  })
}
