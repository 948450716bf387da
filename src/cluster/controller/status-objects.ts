/** The statuses of the resources that people write, current and desired. */

import type { KubeRequest } from '../../kubernetes/client.ts'
import type { KubeObject } from '../../kubernetes/list.ts'
import { originalGroup } from '../../models/rules/original/original-kinds.ts'
import { resourceKey, type Snapshot } from '../../models/rules/snapshot.ts'
import { type ClusterObject, keyOfObject } from '../../models/sources/object-cache.ts'
import { createStatusOfKey, deletedMessage, type StatusView } from '../rules/conditions.ts'
import type { PolicyConditions } from '../rules/generated-policies.ts'
import {
  type ObjectStatus,
  toFailedStatus,
  toObjectStatus,
  toOriginalStatus,
} from '../rules/object-status.ts'
import { applyStatus, removeFinalizers, replaceStatus } from './apply.ts'
import type { WriteTarget } from './object-writer.ts'

/** The inputs of statuses. */
interface StatusInputs extends StatusView {
  readonly snapshot: Snapshot
  /** The objects of the snapshot, by `keyOfObject`. */
  readonly objects: ReadonlyMap<string, ClusterObject>
  readonly policyConditions: PolicyConditions
  /** Public base URL, without a trailing slash. */
  readonly gatewayUrl: string
}

interface StatusObjectsOptions {
  /** Milliseconds since the epoch. */
  readonly clock: () => number
  /** Whether the original's objects may be written now. */
  readonly mayWriteOriginal: () => boolean
}

export type StatusObjects = ReturnType<typeof createStatusObjects>

export function createStatusObjects(options: StatusObjectsOptions) {
  const { clock, mayWriteOriginal } = options
  let current: (StatusInputs & { statusOfKey: ReturnType<typeof createStatusOfKey> }) | undefined

  function desired(key: string, now: KubeObject): ObjectStatus | undefined {
    const object = current?.objects.get(key)
    // Later changes are compiled soon, and checked again then. An object that was recreated has the same generation.
    const { generation = 0, uid } = now.metadata
    if (current === undefined || generation !== object?.generation || uid !== object.uid) return
    const about = { before: now.status, generation: object.generation, now: clock() }
    if (object.problem !== undefined) return toFailedStatus(object.problem, about)
    // Another controller's finalizer keeps the object, with the status that it had.
    if (object.isDeleting) return toFailedStatus(deletedMessage, about)
    const status = current.statusOfKey(object.resource)
    const { warning } = object
    return status && toObjectStatus({ ...current, status, warning, ...about })
  }

  /** No other controller writes to the object any more, so the whole status is replaced. */
  function nextOfOriginal(key: string, path: string, now: KubeObject): KubeRequest | undefined {
    if (!mayWriteOriginal()) return undefined
    const status = desired(key, now)
    return status && replaceStatus(path, now, toOriginalStatus(status))
  }

  function* targetsAt(key: string, object: ClusterObject): Generator<WriteTarget> {
    const { path, group, current } = object
    const isOriginal = group === originalGroup
    // The resource is no longer in force here, which is all that had to happen before its deletion.
    if (isOriginal && object.isDeleting) {
      const next = (now: KubeObject | undefined): KubeRequest | undefined =>
        now && mayWriteOriginal()
          ? (removeFinalizers(path, group, now) ?? nextOfOriginal(key, path, now))
          : undefined
      yield { path, current, next }
      return
    }
    yield {
      path: `${path}/status`,
      current,
      next(now) {
        if (now === undefined) return undefined
        if (isOriginal) return nextOfOriginal(key, path, now)
        const status = desired(key, now)
        return status && applyStatus(object, now, status)
      },
    }
  }

  return {
    /** Sets the inputs of the desired statuses. */
    setDesired(inputs: StatusInputs): void {
      current = { ...inputs, statusOfKey: createStatusOfKey(inputs.snapshot, inputs) }
    },
    /** The targets of these objects, or of all. */
    *targetsOf(keys: Iterable<string> = current?.objects.keys() ?? []): Iterable<WriteTarget> {
      for (const key of keys) {
        const object = current?.objects.get(key)
        if (object !== undefined) yield* targetsAt(key, object)
      }
    },
  }
}

const compared = ['uid', 'generation', 'isDeleting', 'problem', 'warning'] as const

/** The objects that have changed: they are urgent, all others can wait. */
export function* changedObjects(
  before: ReadonlyMap<string, ClusterObject>,
  after: ReadonlyMap<string, ClusterObject>,
): Generator<string> {
  for (const [key, object] of after) {
    const known = before.get(key)
    if (!compared.every((field) => known?.[field] === object[field])) yield key
  }
}

/** The policies and subscriptions that name one of these models, and the models. */
export function* objectsAbout(
  models: ReadonlySet<string>,
  { policies, subscriptions }: Snapshot,
): Generator<string> {
  if (models.size === 0) return
  for (const model of models) yield* keysOf(`ModelRef/${model}`)
  for (const all of [policies, subscriptions]) {
    for (const { modelKeys, resource } of all.values()) {
      if (!modelKeys.some((key) => models.has(key))) continue
      yield* keysOf(resourceKey(resource))
    }
  }
}

/** The keys of the objects that a resource may have been read from. */
function keysOf(resource: string): readonly string[] {
  return [resource, keyOfObject(originalGroup, resource)]
}
