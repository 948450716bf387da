/** The generated policies in the cluster, and the requests that bring them to their desired state. */

import { valueAt } from '../../formats/fields.ts'
import type { KubeClient, KubeRequest } from '../../kubernetes/client.ts'
import type { KubeObject } from '../../kubernetes/list.ts'
import { type Reflector, startReflector } from '../../kubernetes/reflector.ts'
import {
  apiVersion,
  managedAnnotation,
  managedBy,
  modelOfPolicy,
  type Owner,
  type PolicyConditions,
  type PolicyKind,
  policyKinds,
  policyNameOf,
  specOf,
  toPolicyObject,
} from '../rules/generated-policies.ts'
import { toConditions } from '../rules/object-status.ts'
import type { AllModelPolicies } from '../rules/policies.ts'
import { applyPolicy, applyStatus } from './apply.ts'
import type { WriteTarget } from './object-writer.ts'

interface PolicyObjectsOptions {
  readonly client: KubeClient
  readonly signal: AbortSignal
  /** Milliseconds since the epoch. */
  readonly clock: () => number
  /** The object of a model, which owns its policies, or undefined if it no longer exists. */
  readonly ownerOf: (model: string) => Owner | undefined
  /** Objects in the cluster have changed: these must be checked, or all. */
  readonly onChange: (targets: readonly WriteTarget[] | undefined) => void
  readonly onProblem: (collection: string, problem: string | undefined) => void
}

const plurals: Readonly<Record<PolicyKind, string>> = {
  ModelAuthPolicy: 'modelauthpolicies',
  TokenRateLimitPolicy: 'tokenratelimitpolicies',
}
const group = `/apis/${apiVersion}`

export type PolicyObjects = ReturnType<typeof followPolicyObjects>

/** Starts to watch; nothing is checked before `setDesired`. */
export function followPolicyObjects(options: PolicyObjectsOptions) {
  const { client, signal, clock, ownerOf, onChange } = options
  let desired: { policies: AllModelPolicies; conditionsOf: PolicyConditions } | undefined
  const reflectors = Object.fromEntries(
    policyKinds.map((kind) => {
      const reflector = startReflector({
        client,
        path: `${group}/${plurals[kind]}`,
        signal,
        onChange: (key) => onChange(key === undefined ? undefined : targetsAt(kind, key)),
        onProblem: (problem) => options.onProblem(`${plurals[kind]}.tollgate.dev`, problem),
      })
      return [kind, reflector]
    }),
  ) as Record<PolicyKind, Reflector>

  /** The policy at `<namespace>/<name>`: first the object, then its status. */
  function targetsAt(kind: PolicyKind, key: string): readonly WriteTarget[] {
    const [namespace, name] = key.split('/')
    const path = `${group}/namespaces/${namespace}/${plurals[kind]}/${name}`
    const current = (): KubeObject | undefined => reflectors[kind].objects.get(key)
    return [
      { path, current, next: (now) => nextObject(kind, key, path, now) },
      { path: `${path}/status`, current, next: (now) => nextStatus(kind, key, path, now) },
    ]
  }

  /** Undefined if there should be no such policy. */
  function found(kind: PolicyKind, key: string) {
    const model = modelOfPolicy(kind, key)
    const policies = model === undefined ? undefined : desired?.policies.byModel.get(model)
    return policies !== undefined && specOf(policies, kind) !== undefined ? policies : undefined
  }

  function nextObject(kind: PolicyKind, key: string, path: string, current?: KubeObject) {
    const { isSynced, isAbsent } = reflectors[kind]
    if (desired === undefined || !isSynced || isAbsent || isLeftAlone(current)) return undefined
    const policies = found(kind, key)
    const owner = policies && ownerOf(policies.model)
    if (policies === undefined) return isOurs(current) ? removal(path, current) : undefined
    const object = owner && toPolicyObject(policies, kind, owner)
    return object && applyPolicy(path, current, object)
  }

  function nextStatus(kind: PolicyKind, key: string, path: string, current?: KubeObject) {
    const policies = found(kind, key)
    if (current === undefined || policies === undefined || isLeftAlone(current)) return undefined
    const { status: before, metadata } = current
    // The object is about to be written; its status is checked after that.
    if (valueAt(current, ['spec', 'digest']) !== specOf(policies, kind)?.digest) return undefined
    const conditions = desired?.conditionsOf(policies.model, kind) ?? []
    const about = { before, generation: metadata.generation ?? 0, now: clock() }
    return applyStatus({ path, apiVersion, kind }, current, toConditions(conditions, about))
  }

  function* targetsOf(models: Iterable<string>): Generator<WriteTarget> {
    for (const model of models) {
      for (const kind of policyKinds) yield* targetsAt(kind, policyNameOf(kind, model).join('/'))
    }
  }

  return {
    /** Sets the desired state. */
    setDesired(policies: AllModelPolicies, conditionsOf: PolicyConditions): void {
      desired = { policies, conditionsOf }
    },
    /** The policies of these models, with their statuses. */
    targetsOf,
    /** All desired policies, and those that are to be removed. */
    *all(): Iterable<WriteTarget> {
      if (desired === undefined) return
      yield* targetsOf(desired.policies.byModel.keys())
      for (const kind of policyKinds) {
        for (const key of reflectors[kind].objects.keys()) {
          if (found(kind, key) === undefined) yield* targetsAt(kind, key)
        }
      }
    },
  }
}

function isLeftAlone(current: KubeObject | undefined): boolean {
  return valueAt(current, ['metadata', 'annotations', managedAnnotation]) === 'false'
}

function isOurs(current: KubeObject | undefined): current is KubeObject {
  return valueAt(current, ['metadata', 'labels', managedBy.name]) === managedBy.value
}

/** Deletes exactly this object: one that was recreated meanwhile stays. */
function removal(path: string, { metadata: { uid } }: KubeObject): KubeRequest {
  const body = { apiVersion: 'v1', kind: 'DeleteOptions', ...(uid && { preconditions: { uid } }) }
  return { method: 'DELETE', path, body }
}
