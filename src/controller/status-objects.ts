/** The statuses of the resources that people write, as the cluster has them and as they shall be. */

import { createStatusOfKey, type StatusView } from '../core/conditions.ts'
import type { PolicyConditions } from '../core/generated-policies.ts'
import { type ObjectStatus, toFailedStatus, toObjectStatus } from '../core/object-status.ts'
import type { Snapshot } from '../core/snapshot.ts'
import type { KubeObject } from '../kubernetes/list.ts'
import { applyStatus } from './apply.ts'
import type { ClusterObject } from './cluster-source.ts'
import type { Target } from './object-writer.ts'

/** What statuses are made of. */
export interface StatusInputs extends StatusView {
  readonly snapshot: Snapshot
  /** By `<kind>/<namespace>/<name>`: what the snapshot was read from. */
  readonly objects: ReadonlyMap<string, ClusterObject>
  readonly policyConditions: PolicyConditions
  /** Public base URL, without a trailing slash. */
  readonly gatewayUrl: string
}

export interface StatusObjects {
  /** From now on statuses are made of this. */
  want(inputs: StatusInputs): void
  /** The targets of these objects, or of all. */
  targetsOf(keys?: Iterable<string>): Iterable<Target>
}

/** `clock`: milliseconds since the epoch. */
export function createStatusObjects(clock: () => number): StatusObjects {
  let current: (StatusInputs & { statusOfKey: ReturnType<typeof createStatusOfKey> }) | undefined

  function wanted(key: string, now: KubeObject): ObjectStatus | undefined {
    const object = current?.objects.get(key)
    // What was changed since is compiled soon, and looked at again then.
    if (current === undefined || (now.metadata.generation ?? 0) !== object?.generation) return
    const about = { before: now.status, generation: object.generation, now: clock() }
    if (object.problem !== undefined) return toFailedStatus(object.problem, about)
    const status = current.statusOfKey(key)
    return status && toObjectStatus({ ...current, status, ...about })
  }

  return {
    want(inputs) {
      current = { ...inputs, statusOfKey: createStatusOfKey(inputs.snapshot, inputs) }
    },
    *targetsOf(keys = current?.objects.keys() ?? []) {
      for (const key of keys) {
        const object = current?.objects.get(key)
        if (object === undefined) continue
        yield {
          path: `${object.path}/status`,
          current: object.current,
          next(now) {
            const status = now && wanted(key, now)
            return status && applyStatus(object, now, status)
          },
        }
      }
    },
  }
}

/** The objects that have become different: urgent, while the others may wait for their turn. */
export function* changedObjects(
  before: ReadonlyMap<string, ClusterObject>,
  after: ReadonlyMap<string, ClusterObject>,
): Generator<string> {
  for (const [key, { generation, problem }] of after) {
    const known = before.get(key)
    if (known?.generation !== generation || known.problem !== problem) yield key
  }
}

/** The policies and subscriptions that name one of these models, and the models. */
export function* objectsAbout(
  models: ReadonlySet<string>,
  { policies, subscriptions }: Snapshot,
): Generator<string> {
  if (models.size === 0) return
  for (const model of models) yield `ModelRef/${model}`
  for (const all of [policies, subscriptions]) {
    for (const { modelKeys, resource } of all.values()) {
      if (!modelKeys.some((key) => models.has(key))) continue
      yield `${resource.kind}/${resource.metadata.namespace}/${resource.metadata.name}`
    }
  }
}
