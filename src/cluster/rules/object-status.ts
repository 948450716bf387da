/** The status of a resource as its object in the cluster contains it, in our fields or in those of the original's definitions. */

import { valueAt } from '../../formats/fields.ts'
import { toTimestamp } from '../../formats/time.ts'
import { keyOfModel } from '../../kinds/resources.ts'
import type {
  CompiledPolicy,
  CompiledSubscription,
  Model,
  Snapshot,
} from '../../models/rules/snapshot.ts'
import type { Condition } from './condition.ts'
import type { ResourceStatus } from './conditions.ts'
import { type PolicyConditions, type PolicyKind, policyNameOf } from './generated-policies.ts'

/** A Kubernetes condition (meta/v1 Condition). */
interface ObjectCondition extends Readonly<Record<keyof Condition, string>> {
  readonly observedGeneration: number
  readonly lastTransitionTime: string
}

export interface ObjectStatus {
  readonly phase?: string
  readonly observedGeneration: number
  readonly conditions: readonly ObjectCondition[]
  readonly [field: string]: unknown
}

/** The longest message of a condition. meta/v1 allows 32,768 bytes. */
const maxMessageLength = 4_096
/** The longest message of a list entry; there may be thousands of entries. */
const maxEntryLength = 256
/**
 * The longest list in a status. etcd takes objects of 1.5 MiB, and the spec of a Subscription of `maxModels` may have
 * most of that.
 */
const maxListBytes = 100_000

/** The status that is replaced. */
interface Before {
  /** The current status of the object. */
  readonly before: unknown
  readonly generation: number
  /** Milliseconds since the epoch. */
  readonly now: number
}

interface StatusInput extends Before {
  readonly status: ResourceStatus
  readonly snapshot: Snapshot
  readonly policyConditions: PolicyConditions
  /** Public base URL, without a trailing slash. */
  readonly gatewayUrl: string
  /** What is wrong with the object although it is in force. */
  readonly warning?: string | undefined
}

/** The desired status of the object. */
export function toObjectStatus(input: StatusInput): ObjectStatus {
  const { phase, conditions } = input.status
  const shown = conditions
    .filter(({ type }) => type !== 'BackendReachable')
    .map((each) => (each.type === 'Ready' ? withWarning(each, input.warning) : each))
  return { phase, ...detailsOf(input), ...toConditions(shown, input) }
}

function withWarning(ready: Condition, warning: string | undefined): Condition {
  if (warning === undefined) return ready
  return { ...ready, message: ready.message === '' ? warning : `${ready.message}; ${warning}` }
}

/** The conditions with their times. `lastTransitionTime` changes only with the status of a condition. */
export function toConditions(
  conditions: readonly Condition[],
  { before, generation, now }: Before,
): Pick<ObjectStatus, 'observedGeneration' | 'conditions'> {
  const known = conditionsOf(before)
  return {
    observedGeneration: generation,
    conditions: conditions.map(({ type, status, reason, message }) => {
      const earlier = known.find((each) => each.type === type)
      const isSame = earlier?.status === status && typeof earlier.lastTransitionTime === 'string'
      return {
        type,
        status,
        reason,
        message: shorten(message),
        observedGeneration: generation,
        lastTransitionTime: isSame ? earlier.lastTransitionTime : toTimestamp(now),
      }
    }),
  }
}

function detailsOf(input: StatusInput): Readonly<Record<string, unknown>> {
  const { status, snapshot, gatewayUrl, policyConditions } = input
  const { kind, namespace, name } = status
  if (kind === 'ModelRef') return ofModel(snapshot.models.get(`${namespace}/${name}`), gatewayUrl)
  if (kind === 'AccessPolicy') return ofPolicy(snapshot.policies.get(name), policyConditions)
  if (kind === 'Subscription') {
    return ofSubscription(snapshot.subscriptions.get(name), snapshot, policyConditions)
  }
  return {}
}

/** Clients use the gateway's address, unless the resource gives another. A field that is undefined is removed. */
function ofModel(model: Model | undefined, gatewayUrl: string): Readonly<Record<string, unknown>> {
  if (model === undefined) return {}
  const { endpointOverride, routing } = model.resource
  const route = routing?.route
  const [gatewayNamespace, gatewayName] = route?.gateway?.split('/') ?? []
  return {
    endpoint:
      model.phase === 'Ready' ? (endpointOverride ?? `${gatewayUrl}/${model.key}`) : undefined,
    httpRouteName: route?.name,
    httpRouteNamespace: route?.namespace,
    httpRouteGatewayName: gatewayName,
    httpRouteGatewayNamespace: gatewayNamespace,
    httpRouteHostnames: route?.hostnames,
  }
}

function ofPolicy(
  policy: CompiledPolicy | undefined,
  conditionsOf: PolicyConditions,
): Readonly<Record<string, unknown>> {
  if (policy === undefined) return {}
  const { modelKeys, missing } = policy
  const existing = modelKeys.filter((key) => !missing.has(key))
  return {
    models: modelKeys.length,
    // A model that does not exist has no policy; the message of `Ready` names it.
    authPolicies: storable(
      existing.map((key) => {
        const [modelNamespace, model] = key.split('/')
        const place = generatedAt('ModelAuthPolicy', key)
        const weak = conditionsOf(key, 'ModelAuthPolicy').find(({ status }) => status !== 'True')
        return { ...place, model, modelNamespace, ...entryOf(weak, 'AcceptedEnforced') }
      }),
    ),
  }
}

function ofSubscription(
  found: CompiledSubscription | undefined,
  { models, saidOfMissing }: Snapshot,
  conditionsOf: PolicyConditions,
): Readonly<Record<string, unknown>> {
  if (found === undefined) return {}
  const { modelKeys, missing, resource } = found
  const refused = new Set(resource.outOfForce?.map(keyOfModel))
  return {
    models: modelKeys.length,
    modelRefStatuses: storable(
      modelKeys.map((key) => {
        const [namespace, name] = key.split('/')
        if (refused.has(key)) return { name, namespace, ...refusedEntry }
        if (!missing.has(key)) return { name, namespace, ...entryOf(undefined, 'Valid') }
        const entry = models.has(key) ? closedEntry : noModel(saidOfMissing.get(key))
        return { name, namespace, ...entry }
      }),
    ),
    tokenRateLimitStatuses: storable(
      modelKeys
        .filter((key) => !missing.has(key))
        .map((key) => {
          const kind = 'TokenRateLimitPolicy'
          const weak = conditionsOf(key, kind).find(
            ({ type, status }) => type === 'Accepted' && status !== 'True',
          )
          return {
            ...generatedAt(kind, key),
            model: key.slice(key.indexOf('/') + 1),
            ...entryOf(weak, 'Accepted'),
          }
        }),
    ),
  }
}

/** The entries that can be stored: if they are too many, first those that are not ready. `models` counts all. */
function storable<Entry extends { readonly ready: boolean }>(
  entries: readonly Entry[],
): readonly Entry[] {
  const bytesOf = (value: unknown): number => Buffer.byteLength(JSON.stringify(value))
  if (bytesOf(entries) <= maxListBytes) return entries
  let left = maxListBytes
  return entries
    .toSorted((a, b) => Number(a.ready) - Number(b.ready))
    .filter((entry) => {
      left -= bytesOf(entry)
      return left >= 0
    })
}

const refusedEntry = {
  ready: false,
  reason: 'InvalidSpec',
  message: 'its entry has an unknown field, so it is not in force',
}
const closedEntry = {
  ready: false,
  reason: 'InvalidSpec',
  message:
    'a limit on it cannot be enforced, as the condition Ready says, so its entry is not in force',
}
function noModel(said: string | undefined) {
  const message = said === undefined ? 'there is no such ModelRef' : `the ModelRef ${said}`
  return { ready: false, reason: 'NotFound', message }
}

function generatedAt(kind: PolicyKind, model: string) {
  const [namespace, name] = policyNameOf(kind, model)
  return { name, namespace }
}

/** `weak`: the condition that prevents it from being ready. */
function entryOf(weak: Condition | undefined, readyReason: string) {
  if (weak === undefined) return { ready: true, reason: readyReason, message: '' }
  return { ready: false, reason: weak.reason, message: shorten(weak.message, maxEntryLength) }
}

/** The status of an object that cannot be parsed. */
export function toFailedStatus(message: string, before: Before): ObjectStatus {
  const failed = { type: 'Ready', status: 'False', reason: 'ReconcileFailed', message } as const
  return { phase: 'Failed', ...toConditions([failed], before) }
}

function conditionsOf(status: unknown): readonly ObjectCondition[] {
  const found = valueAt(status, ['conditions'])
  return Array.isArray(found) ? found : []
}

/** Without halves of characters, which the API server refuses or does not store as they are. */
function shorten(message: string, most = maxMessageLength): string {
  return (message.length <= most ? message : `${message.slice(0, most - 1)}…`).toWellFormed()
}

const fields: ReadonlySet<string> = new Set([
  ...['phase', 'conditions'],
  ...['endpoint', 'httpRouteName', 'httpRouteNamespace', 'httpRouteHostnames'],
  ...['httpRouteGatewayName', 'httpRouteGatewayNamespace'],
  ...['authPolicies', 'modelRefStatuses', 'tokenRateLimitStatuses'],
])

/** The whole status of an object of the original, without undefined fields. */
export function toOriginalStatus(status: ObjectStatus): Readonly<Record<string, unknown>> {
  return Object.fromEntries(
    Object.entries(status).filter(([field, value]) => fields.has(field) && value !== undefined),
  )
}
