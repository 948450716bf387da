/**
 * The pods of a namespace that have ended according to the API server: deleted, replaced under their name, Succeeded or
 * Failed. A pod that is only unreachable has not ended. While the API server is unavailable, none has.
 */

import { valueAt } from '../formats/fields.ts'
import { createRestTimer, type RestTimer, repeat } from '../runtime/loop.ts'
import type { KubeClient } from './client.ts'
import { type KubeObject, listObjects } from './list.ts'
import { type Reflector, startReflector } from './reflector.ts'

/** Milliseconds before pods that could not be looked for are looked for again. */
const retryMs = 1_000

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
  const path = `/api/v1/namespaces/${encodeURIComponent(namespace)}/pods`
  let silent: readonly Pod[] = []
  let closing: AbortController | undefined
  let alarm: RestTimer | undefined

  /**
   * The watch may have been broken since before the pod began, so only a list that begins now tells that there is none.
   * The roles grant lists, but not to read single pods.
   */
  async function hasEnded(pod: Pod, signal: AbortSignal): Promise<boolean> {
    const selector = `&fieldSelector=metadata.name=${encodeURIComponent(pod.name)}`
    const { objects } = await listObjects(client, path, { selector, signal })
    return !isAlive(pod, objects.get(`${namespace}/${pod.name}`))
  }

  async function find(reflector: Reflector, signal: AbortSignal): Promise<void> {
    // A missing list says nothing about its pods.
    if (!reflector.isSynced || reflector.isAbsent) return
    const ended: Pod[] = []
    for (const pod of silent) {
      if (isAlive(pod, reflector.objects.get(`${namespace}/${pod.name}`))) continue
      if (await hasEnded(pod, signal)) ended.push(pod)
    }
    if (ended.length > 0 && !signal.aborted) onEnded(ended)
  }

  function start(): void {
    closing = new AbortController()
    const { signal } = closing
    const rung = createRestTimer(signal)
    alarm = rung
    const onChange = (): void => rung.ring()
    const reflector = startReflector({ client, path, onChange, onProblem, signal })
    void repeat({
      step: () => find(reflector, signal),
      // The reflector reports an outage.
      onFault() {},
      restMs: (failures) => (failures > 0 ? retryMs : undefined),
      ...{ signal, alarm: rung },
    })
  }

  function stop(): void {
    closing?.abort()
    alarm = undefined
  }

  return {
    /** Sets the pods of interest. The namespace is watched while there are any. */
    check(pods: readonly Pod[]) {
      silent = pods
      if (pods.length === 0) stop()
      else if (alarm === undefined) start()
      else alarm.ring()
    },
    stop,
  }
}

/** A pod that is Succeeded or Failed stays so. */
function isAlive({ uid }: PodIdentity, found: KubeObject | undefined): boolean {
  const phase = valueAt(found, ['status', 'phase'])
  return found?.metadata.uid === uid && phase !== 'Succeeded' && phase !== 'Failed'
}
