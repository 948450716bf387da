/** `tollgate controller`: writes the state of resources to the cluster. */

import { randomUUID } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { hostname } from 'node:os'
import { addressRulesOf } from '../../gateway/address-rules.ts'
import { subscriptionNamespace } from '../../kinds/resources.ts'
import { accessOf } from '../../kubernetes/access.ts'
import { createClient } from '../../kubernetes/client.ts'
import { followLease } from '../../kubernetes/lease.ts'
import { followOthersLease } from '../../kubernetes/lease-watch.ts'
import { originalGroup, originalLeaseName } from '../../models/rules/original/original-kinds.ts'
import { createClusterSource } from '../../models/sources/cluster-source.ts'
import { checkNamedAddresses } from '../../models/sources/named-addresses.ts'
import { startPipeline } from '../../models/sources/pipeline.ts'
import { createResourceLogger } from '../../models/sources/resource-report.ts'
import type { ProcessContext } from '../../settings/context.ts'
import type { WatchedReportsOptions } from '../in-force/reports.ts'
import { controllerLogging } from './controller-logging.ts'
import { startObjectWriter } from './object-writer.ts'
import { followPolicyObjects } from './policy-objects.ts'
import { createReconciler } from './reconciler.ts'
import { createStatusObjects } from './status-objects.ts'

export type ClusterController = Awaited<ReturnType<typeof startClusterController>>

/** What the processes share in Postgres. */
export interface ControllerDatabase {
  /** Follows what the processes report to have in force, until the signal aborts. */
  watchReports(
    listener: Pick<WatchedReportsOptions, 'onRead' | 'onProblem'>,
    signal: AbortSignal,
  ): void
}

interface ClusterControllerOptions extends Pick<ProcessContext, 'config' | 'log' | 'clock'> {
  /** Ends a start that waits for the cluster. */
  readonly starting?: AbortSignal
  /** Undefined if none is configured. */
  readonly database?: ControllerDatabase | undefined
  /** Times of the Lease, for tests: see lease.ts. */
  readonly leaseMs?: readonly [durationMs: number, renewMs: number]
  /** The interval of checks for the original's controller, for tests: see lease-watch.ts. */
  readonly originalMs?: number
}

/** The interval of checks of everything that is written. */
const resyncMs = 300_000

/** Resolves once the cluster has been read. Throws an error that names the setting to check. */
export async function startClusterController(options: ClusterControllerOptions) {
  const { config, log, clock, leaseMs, originalMs, database } = options
  const lines = controllerLogging(log)
  const closing = new AbortController()
  const { signal } = closing
  const client = createClient(accessOf(config), { timeoutMs: 30_000 })
  const lease = followLease({
    client,
    namespace: config.lease.namespace ?? ownNamespace(),
    name: config.lease.name,
    identity: `${hostname()}_${randomUUID()}`,
    signal,
    onChange(isHeld) {
      lines.leader(isHeld)
      if (isHeld) enqueueAll()
    },
    onProblem: lines.ownLease,
    ...(leaseMs && { durationMs: leaseMs[0], renewMs: leaseMs[1] }),
  })
  const writer = startObjectWriter({
    client,
    mayWrite: () => lease.isHeld,
    onProblem: lines.unwritable,
    signal,
  })
  const source = createClusterSource({
    client,
    groups: config.watchGroups,
    keepsObjectsOf: config.statusGroups,
    onProblem: lines.collection,
  })
  const original = config.statusGroups.includes(originalGroup)
    ? followOthersLease({
        client,
        name: originalLeaseName,
        signal,
        ...(originalMs && { everyMs: originalMs }),
        onChange(alive) {
          lines.original(alive)
          if (alive === undefined) enqueueAll()
        },
        onProblem: lines.originalLeases,
      })
    : undefined
  const policyObjects = followPolicyObjects({
    client,
    signal,
    clock,
    ownerOf: source.ownerOf,
    onChange(targets) {
      if (targets === undefined) enqueueAll()
      else writer.enqueue(targets, true)
    },
    onProblem: lines.collection,
  })
  const mayWriteOriginal = (): boolean => original?.isStale === true
  const statusObjects = createStatusObjects({ clock, mayWriteOriginal })
  const unreported =
    database === undefined
      ? 'DATABASE_URL is not set, so processes cannot report'
      : 'Postgres has not been queried yet'
  const reconciler = createReconciler(
    { writer, policyObjects, statusObjects, gatewayUrl: config.gatewayUrl },
    { problem: unreported },
  )
  const { enqueueAll } = reconciler
  // Changes of a status by others are not watched, because they are no changes of a resource.
  const again = setInterval(enqueueAll, resyncMs).unref()
  database?.watchReports({ onRead: reconciler.take, onProblem: lines.reports }, signal)
  const addresses = checkNamedAddresses({ source, rules: addressRulesOf(config), signal })

  async function stop(): Promise<void> {
    clearInterval(again)
    const released = lease.release()
    closing.abort()
    await released
  }

  const pipeline = await startPipeline({
    source: addresses.source,
    ...(options.starting && { starting: options.starting }),
    routing: { internalGateway: config.gatewayInternal, clusterDomain: config.clusterDomain },
    checkAddress: addresses.check,
    publish: (snapshot, _, refused) => reconciler.publish(snapshot, refused, source.objects),
    report: createResourceLogger(log),
    onFailure: lines.resources,
  }).catch(async (error: unknown) => {
    await stop()
    throw error
  })

  return {
    /** Whether this process is the leader, which writes. */
    get isLeader(): boolean {
      return lease.isHeld
    },
    /** Successful changes in the cluster so far, and objects still to be checked. */
    get written(): number {
      return writer.written
    },
    get waiting(): number {
      return writer.waiting
    },
    problems: pipeline.problems,
    /** Whether changes of resources cannot be read, or not be taken. */
    get isFailing(): boolean {
      return source.isUnavailable || pipeline.isFailing()
    },
    /**
     * Whether STATUS_GROUPS includes the original's objects but they are not written, because its
     * controller is or may be alive. Undefined if it does not include them.
     */
    get isHeldBack(): boolean | undefined {
      return original && !original.isStale
    },
    /** Releases the Lease and ends. */
    stop(): Promise<void> {
      pipeline.close()
      return stop()
    },
  }
}

/** The pod's namespace, if this is one. */
function ownNamespace(): string {
  try {
    const file = '/var/run/secrets/kubernetes.io/serviceaccount/namespace'
    return readFileSync(file, 'utf8').trim()
  } catch {
    return subscriptionNamespace
  }
}
