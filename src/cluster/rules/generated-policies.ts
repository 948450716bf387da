/**
 * The ModelAuthPolicy and the TokenRateLimitPolicy of a model, as objects of the cluster: their
 * names, labels and annotations (contract, 8.1 and 8.2), their counts, and their conditions.
 */

import { originalGroup } from '../../models/rules/original/original-kinds.ts'
import type { Condition } from './condition.ts'
import type { AllModelPolicies, ModelPolicies } from './policies.ts'

export const policyKinds = ['ModelAuthPolicy', 'TokenRateLimitPolicy'] as const
export type PolicyKind = (typeof policyKinds)[number]

export const apiVersion = 'tollgate.dev/v1alpha1'
/** The label of a generated policy. A policy without it was not generated, and is left alone. */
export const managedBy = { name: 'app.kubernetes.io/managed-by', value: 'tollgate-controller' }
/** A policy with this annotation set to `false` is no longer changed. */
export const managedAnnotation = 'tollgate.dev/managed'

const about = {
  ModelAuthPolicy: {
    prefix: 'maas-auth-',
    partOf: 'maas-auth-policy',
    component: 'auth-policy',
    annotation: 'auth-policies',
  },
  TokenRateLimitPolicy: {
    prefix: 'maas-trlp-',
    partOf: 'maas-subscription',
    component: 'token-rate-limit-policy',
    annotation: 'subscriptions',
  },
} as const satisfies Record<PolicyKind, object>

/** The owner; deleting it deletes the policy. */
export interface Owner {
  readonly apiVersion: string
  readonly kind: string
  readonly name: string
  readonly uid: string
}

export type PolicyObject = NonNullable<ReturnType<typeof toPolicyObject>>

interface PolicySpec {
  readonly modelRef: { readonly name: string }
  readonly digest: string
  readonly [field: string]: unknown
}

/** What the policy of this kind contains; undefined if the model has none. */
export function policyContent(
  policies: ModelPolicies | undefined,
  kind: PolicyKind,
): ModelPolicies['access'] | ModelPolicies['limits'] {
  return kind === 'ModelAuthPolicy' ? policies?.access : policies?.limits
}

/** `<namespace>` and `<name>` of a model's policy. */
export function policyNameOf(kind: PolicyKind, model: string): readonly [string, string] {
  const [namespace = '', name = ''] = model.split('/')
  return [namespace, `${about[kind].prefix}${name}`]
}

/** The model of the policy `<namespace>/<name>`; undefined if no model has such a policy. */
export function modelOfPolicy(kind: PolicyKind, policy: string): string | undefined {
  const [namespace, name = ''] = policy.split('/')
  const { prefix } = about[kind]
  return name.startsWith(prefix) ? `${namespace}/${name.slice(prefix.length)}` : undefined
}

/** Undefined if no resource of the kind names the model. */
export function specOf(policies: ModelPolicies, kind: PolicyKind): PolicySpec | undefined {
  const modelRef = { name: policies.model.slice(policies.model.indexOf('/') + 1) }
  if (kind === 'ModelAuthPolicy') {
    const { access } = policies
    if (access === undefined) return undefined
    const { names, count, users, groups, digest } = access
    return { modelRef, accessPolicies: names, accessPolicyCount: count, users, groups, digest }
  }
  if (policies.limits === undefined) return undefined
  const { names, count, limits, digest } = policies.limits
  return { modelRef, subscriptions: names, subscriptionCount: count, limits, digest }
}

/** The desired object; undefined if it should not exist. */
export function toPolicyObject(policies: ModelPolicies, kind: PolicyKind, owner: Owner) {
  const spec = specOf(policies, kind)
  const content = policyContent(policies, kind)
  if (spec === undefined || content === undefined) return undefined
  const [namespace, name] = policyNameOf(kind, policies.model)
  const { partOf, component, annotation } = about[kind]
  const isLimits = kind === 'TokenRateLimitPolicy'
  return {
    apiVersion,
    kind,
    metadata: {
      name,
      namespace,
      labels: {
        'tollgate.dev/model': owner.name,
        ...(isLimits && { 'tollgate.dev/model-namespace': namespace }),
        [managedBy.name]: managedBy.value,
        'app.kubernetes.io/part-of': partOf,
        'app.kubernetes.io/component': component,
      },
      // The second has the name of the original's annotation, because tools read it.
      annotations: Object.fromEntries(
        ['tollgate.dev', originalGroup].map((group) => [
          `${group}/${annotation}`,
          content.names.join(','),
        ]),
      ),
      ownerReferences: [owner],
    },
    spec,
  }
}

/** The conditions of a model's policy; empty if there is no such policy. */
export type PolicyConditions = (model: string, kind: PolicyKind) => readonly Condition[]

/** Whether everything written for the model is compiled, and, if reports are available, enforced. */
export function createPolicyConditions(
  { byModel }: AllModelPolicies,
  enforcedCondition?: (policies: ModelPolicies, kind: PolicyKind) => Condition,
): PolicyConditions {
  const known = { ModelAuthPolicy: new Map(), TokenRateLimitPolicy: new Map() } as const
  return (model, kind) => {
    const before: readonly Condition[] | undefined = known[kind].get(model)
    if (before !== undefined) return before
    const policies = byModel.get(model)
    const content = policyContent(policies, kind)
    const conditions: Condition[] = []
    if (policies !== undefined && content !== undefined) {
      conditions.push(acceptedOf(content))
      if (enforcedCondition !== undefined) conditions.push(enforcedCondition(policies, kind))
    }
    known[kind].set(model, conditions)
    return conditions
  }
}

/** The statuses of all policies in listings, ordered by kind, namespace and name. */
export function policyStatuses({ byModel }: AllModelPolicies, conditionsOf: PolicyConditions) {
  const models = [...byModel.keys()].sort()
  return policyKinds.flatMap((kind) =>
    models.flatMap((model) => {
      const spec = specOf(byModel.get(model) as ModelPolicies, kind)
      if (spec === undefined) return []
      const [namespace, name] = policyNameOf(kind, model)
      return { kind, namespace, name, spec, conditions: conditionsOf(model, kind) }
    }),
  )
}

const refusalsShown = 10

function acceptedOf({ refusals }: NonNullable<ReturnType<typeof policyContent>>): Condition {
  const type = 'Accepted'
  if (refusals.length === 0) return { type, status: 'True', reason: 'Accepted', message: '' }
  const more = refusals.length - refusalsShown
  const message =
    refusals.slice(0, refusalsShown).join('; ') + (more > 0 ? `; and ${more} more` : '')
  return { type, status: 'False', reason: 'NotAccepted', message }
}
