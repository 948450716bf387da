/** `tollgate controller`: tells in the cluster what became of its resources. */

import { randomUUID } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { hostname } from 'node:os'
import type { Logger } from 'pino'
import type { Config } from '../config.ts'
import { type ClusterObject, createClusterSource } from '../controller/cluster-source.ts'
import { startController } from '../controller/controller.ts'
import { startStatusWriter, type Target } from '../controller/status-writer.ts'
import { type ResourceStatus, statusOf } from '../core/conditions.ts'
import { toFailedStatus, toObjectStatus } from '../core/object-status.ts'
import { subscriptionNamespace } from '../core/resources.ts'
import type { Snapshot } from '../core/snapshot.ts'
import { createClient } from '../kubernetes/client.ts'
import { followLease } from '../kubernetes/lease.ts'
import { accessOf } from './cluster.ts'
import { createResourceReport } from './resource-report.ts'

export interface ClusterController {
  /** Whether this process is the one that writes. */
  readonly isLeader: boolean
  /** Statuses written so far. */
  readonly written: number
  /** Gives the Lease up and ends. */
  stop(): Promise<void>
}

export interface ClusterControllerOptions {
  readonly config: Config
  readonly log: Logger
  /** Milliseconds since the epoch. */
  readonly clock: () => number
  /** Of the Lease, for tests: see lease.ts. */
  readonly leaseMs?: readonly [durationMs: number, renewMs: number]
}

export const leaseName = 'tollgate-controller'
/** Between two looks at all statuses. */
const resyncMs = 300_000

/** Settles once the cluster has been read. Throws with the setting to look at. */
export async function startClusterController(
  options: ClusterControllerOptions,
): Promise<ClusterController> {
  const { config, log, clock, leaseMs } = options
  const closing = new AbortController()
  const { signal } = closing
  const client = createClient(accessOf(config), { timeoutMs: 30_000 })
  const lease = followLease({
    client,
    namespace: config.leaseNamespace ?? ownNamespace(),
    name: leaseName,
    identity: `${hostname()}_${randomUUID()}`,
    signal,
    onChange: (isHeld) => log.info(isHeld ? 'this process writes statuses' : 'another one does'),
    onProblem: (problem) => log.warn({ problem }, 'the Lease can be neither read nor renewed'),
    ...(leaseMs && { durationMs: leaseMs[0], renewMs: leaseMs[1] }),
  })
  const writer = startStatusWriter({
    client,
    mayWrite: () => lease.isHeld,
    onProblem: (path, problem) => log.warn({ path, problem }, 'a status cannot be written'),
    signal,
  })
  const source = createClusterSource({
    client,
    groups: config.watchGroups,
    keepsObjects: true,
    onProblem(collection, problem) {
      if (problem === undefined) log.info({ collection }, 'the cluster can be read again')
      else log.warn({ collection, problem }, 'the cluster cannot be read')
    },
  })
  let lookAtAll = (): void => {}
  // Whoever else writes to a status is not heard of: that is no change of a resource.
  const again = setInterval(() => lookAtAll(), resyncMs).unref()
  const controller = await startController({
    source,
    publish: async (snapshot) => {
      const statuses = new Map(statusOf(snapshot).map((status) => [keyOf(status), status]))
      lookAtAll = () => writer.look(targetsOf(source.objects, (key) => statuses.get(key), snapshot))
      lookAtAll()
    },
    report: createResourceReport(log),
    onFailure: (error) => log.error({ err: error }, 'resources could not be read'),
  })

  function* targetsOf(
    objects: ReadonlyMap<string, ClusterObject>,
    statusOfKey: (key: string) => ResourceStatus | undefined,
    snapshot: Snapshot,
  ): Generator<Target> {
    for (const [key, object] of objects) {
      const { path, apiVersion, kind, generation, problem } = object
      yield {
        path,
        apiVersion,
        kind,
        current: object.current,
        wanted({ metadata, status: before }) {
          // What was changed since is compiled soon, and looked at again then.
          if ((metadata.generation ?? 0) !== generation) return undefined
          const about = { before, generation, now: clock() }
          if (problem !== undefined) return toFailedStatus(problem, about)
          const status = statusOfKey(key)
          const { gatewayUrl } = config
          return status && toObjectStatus({ status, snapshot, gatewayUrl, ...about })
        },
      }
    }
  }

  return {
    get isLeader() {
      return lease.isHeld
    },
    get written() {
      return writer.written
    },
    async stop() {
      clearInterval(again)
      controller.close()
      const released = lease.release()
      closing.abort()
      await released
    },
  }
}

function keyOf({ kind, namespace, name }: ResourceStatus): string {
  return `${kind}/${namespace}/${name}`
}

/** The pod's, where this is one. */
function ownNamespace(): string {
  try {
    const file = '/var/run/secrets/kubernetes.io/serviceaccount/namespace'
    return readFileSync(file, 'utf8').trim()
  } catch {
    return subscriptionNamespace
  }
}
