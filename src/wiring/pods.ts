/** The pod of this process, and pods of other processes that have ended. */

import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { endedAfterMs } from '../keys/revocations/revocation-follower.ts'
import { type ReplicaPod, removeEndedReplicas } from '../keys/revocations/revocation-log.ts'
import { accessOf } from '../kubernetes/access.ts'
import { type ClusterAccess, createClient } from '../kubernetes/client.ts'
import { createEndedPods } from '../kubernetes/ended-pods.ts'
import type { Context } from './context.ts'
import type { Database } from './database.ts'

export type Pods = ReturnType<typeof openPods>

/** Returns undefined if this process is not known to run in a pod. Throws an error that names the setting to check. */
export function openPods({ config, log, onFault, stops }: Context, { pool }: Database) {
  const { podNamespace: namespace, podName: name, podUid: uid } = config
  const isReachable = config.kubeconfig !== undefined || config.kubernetesHost !== undefined
  if (namespace === undefined || name === undefined || uid === undefined) return undefined
  if (!isReachable) return undefined
  const access = accessOf(config)
  const cluster = nameCluster(access)
  let removing = false

  async function remove(pods: readonly ReplicaPod[]): Promise<void> {
    if (removing) return
    removing = true
    try {
      const names = await removeEndedReplicas(pool, pods, endedAfterMs)
      if (names.length > 0) {
        log.warn(
          { code: 'pods_ended', ended: names },
          'revocations no longer wait for processes whose pods have ended',
        )
      }
    } finally {
      removing = false
    }
  }

  const ended = createEndedPods<ReplicaPod>({
    client: createClient(access, { timeoutMs: 10_000 }),
    namespace,
    onEnded: (pods) => void remove(pods).catch(onFault),
    onProblem(problem) {
      if (problem === undefined) log.info({ code: 'pods_readable' }, 'resumed listing pods')
      else
        log.warn(
          { code: 'pods_unreadable', problem },
          'cannot list pods: revocations still wait for processes whose pods have ended',
        )
    },
  })
  stops.push(ended.stop)
  return {
    own: { cluster, namespace, name, uid },
    // Pods elsewhere belong to another API server.
    /** Checks these silent pods: those that have ended are removed from the replicas. */
    check: (silent: readonly ReplicaPod[]): void =>
      ended.check(silent.filter((pod) => pod.cluster === cluster && pod.namespace === namespace)),
  }
}

/** Each cluster has its own authorities; without them its address identifies it. */
function nameCluster({ server, ca, caFile }: ClusterAccess): string {
  const text = ca ?? (caFile === undefined ? server : readFileSync(caFile, 'utf8'))
  return createHash('sha256').update(text.trim()).digest('hex').slice(0, 16)
}
