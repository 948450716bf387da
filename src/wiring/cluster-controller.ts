/** `tollgate controller`: tells in the cluster what became of its resources. */

import { randomUUID } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { hostname } from 'node:os'
import type { Logger } from 'pino'
import type { Config } from '../config.ts'
import { createClusterSource } from '../controller/cluster-source.ts'
import { startController } from '../controller/controller.ts'
import { startObjectWriter, type Target } from '../controller/object-writer.ts'
import { followPolicyObjects } from '../controller/policy-objects.ts'
import { inSlices } from '../controller/slices.ts'
import { changedObjects, createStatusTargets, objectsAbout } from '../controller/status-objects.ts'
import { createPolicyConditions } from '../core/generated-policies.ts'
import { noPolicies, type Policies, policiesInSteps } from '../core/policies.ts'
import type { Refused } from '../core/refused.ts'
import { subscriptionNamespace } from '../core/resources.ts'
import type { Snapshot } from '../core/snapshot.ts'
import { createClient } from '../kubernetes/client.ts'
import { followLease } from '../kubernetes/lease.ts'
import { accessOf } from './cluster.ts'
import { createResourceReport } from './resource-report.ts'

export interface ClusterController {
  /** Whether this process is the one that writes. */
  readonly isLeader: boolean
  /** Requests that changed something in the cluster so far, and objects still to be looked at. */
  readonly written: number
  readonly waiting: number
  readonly problems: () => readonly string[]
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
/** Between two looks at all that is written. */
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
    onChange(isHeld) {
      log.info(isHeld ? 'this process writes statuses' : 'another one does')
      if (isHeld) lookAtAll()
    },
    onProblem: (problem) => log.warn({ problem }, 'the Lease can be neither read nor renewed'),
    ...(leaseMs && { durationMs: leaseMs[0], renewMs: leaseMs[1] }),
  })
  const writer = startObjectWriter({
    client,
    mayWrite: () => lease.isHeld,
    onProblem: (path, problem) => log.warn({ path, problem }, 'an object cannot be written'),
    signal,
  })
  const onProblem = (collection: string, problem: string | undefined): void => {
    if (problem === undefined) log.info({ collection }, 'the cluster can be read again')
    else log.warn({ collection, problem }, 'the cluster cannot be read')
  }
  const groups = config.watchGroups
  const source = createClusterSource({ client, groups, keepsObjects: true, onProblem })
  const policyObjects = followPolicyObjects({
    client,
    signal,
    clock,
    ownerOf: source.ownerOf,
    onChange(targets) {
      if (targets === undefined) lookAtAll()
      else writer.look(targets, true)
    },
    onProblem,
  })
  let policies: Policies = noPolicies
  let statusTargets: (keys?: Iterable<string>) => Iterable<Target> = () => []
  const lookAtAll = (): void => {
    writer.look(statusTargets())
    writer.look(policyObjects.all())
  }
  // Whoever else writes to a status is not heard of: that is no change of a resource.
  const again = setInterval(lookAtAll, resyncMs).unref()
  let objects: typeof source.objects = new Map()

  async function publish(snapshot: Snapshot, _: unknown, refused: readonly Refused[]) {
    const before = policies
    policies = await inSlices(policiesInSteps(snapshot, refused, before))
    const policyConditions = createPolicyConditions(policies)
    policyObjects.want(policies, policyConditions)
    const changed = new Set(changedObjects(objects, source.objects))
    objects = source.objects
    statusTargets = createStatusTargets({
      ...{ snapshot, objects, policyConditions, clock },
      gatewayUrl: config.gatewayUrl,
    })
    const models = changedModels(before, policies)
    writer.look(statusTargets(changed), true)
    writer.look(policyObjects.targetsOf(models), true)
    writer.look(statusTargets(objectsAbout(models, snapshot)), true)
    lookAtAll()
  }

  const controller = await startController({
    source,
    routing: { internalGateway: config.gatewayInternal, clusterDomain: config.clusterDomain },
    publish,
    report: createResourceReport(log),
    onFailure: (error) => log.error({ err: error }, 'resources could not be read'),
  })

  return {
    get isLeader() {
      return lease.isHeld
    },
    get written() {
      return writer.written
    },
    get waiting() {
      return writer.waiting
    },
    problems: controller.problems,
    async stop() {
      clearInterval(again)
      controller.close()
      const released = lease.release()
      closing.abort()
      await released
    },
  }
}

function changedModels(before: Policies, after: Policies): ReadonlySet<string> {
  const models = new Set<string>()
  for (const [key, value] of after.byModel) if (before.byModel.get(key) !== value) models.add(key)
  for (const key of before.byModel.keys()) if (!after.byModel.has(key)) models.add(key)
  return models
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
