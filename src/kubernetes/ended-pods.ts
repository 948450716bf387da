/**
 * The pods of a namespace that have ended according to the API server: deleted, replaced under
 * their name, Succeeded or Failed. A pod that is only unreachable has not ended. While the API
 * server is unavailable, none has.
 */

import { isObject } from '../formats/fields.ts'
import type { KubeClient } from './client.ts'
import { type Reflector, startReflector } from './reflector.ts'

export interface PodIdentity {
  readonly name: string
  readonly uid: string
}

interface EndedPodsOptions<Pod extends PodIdentity> {
  readonly client: KubeClient
  readonly namespace: string
  /** Called with those that have ended, as soon as that is known; possibly more than once. */
  readonly onEnded: (pods: readonly Pod[]) => void
  readonly onProblem: (problem: string | undefined) => void
}

export function createEndedPods<Pod extends PodIdentity>(options: EndedPodsOptions<Pod>) {
  const { client, namespace, onEnded, onProblem } = options
  let silent: readonly Pod[] = []
  let reflector: Reflector | undefined
  let closing = new AbortController()

  function notify(): void {
    // A missing list says nothing about its pods.
    if (reflector === undefined || !reflector.isSynced || reflector.isAbsent) return
    const { objects } = reflector
    const ended = silent.filter(({ name, uid }) => {
      const found = objects.get(`${namespace}/${name}`)
      if (found === undefined || found.metadata.uid !== uid) return true
      const phase = isObject(found.status) ? found.status.phase : undefined
      return phase === 'Succeeded' || phase === 'Failed'
    })
    if (ended.length > 0) onEnded(ended)
  }

  function stop(): void {
    closing.abort()
    reflector = undefined
  }

  return {
    /** Sets the pods of interest. The namespace is watched while there are any. */
    check(pods: readonly Pod[]) {
      silent = pods
      if (pods.length === 0) return stop()
      if (reflector !== undefined) return notify()
      closing = new AbortController()
      reflector = startReflector({
        client,
        path: `/api/v1/namespaces/${encodeURIComponent(namespace)}/pods`,
        onChange: notify,
        onProblem,
        signal: closing.signal,
      })
    },
    stop,
  }
}
