/** The status of a resource as its object in the cluster carries it. */

import type { ResourceStatus } from './conditions.ts'
import type { CompiledPolicy, CompiledSubscription, Model, Snapshot } from './snapshot.ts'

/** A condition as Kubernetes has them (meta/v1 Condition). */
export interface ObjectCondition {
  readonly type: string
  readonly status: string
  readonly reason: string
  readonly message: string
  readonly observedGeneration: number
  readonly lastTransitionTime: string
}

export interface ObjectStatus {
  readonly phase: string
  readonly observedGeneration: number
  readonly conditions: readonly ObjectCondition[]
  readonly [field: string]: unknown
}

/** The longest message of a condition (meta/v1: 32,768 bytes); ours stays far below. */
const longestMessage = 4_096

export interface StatusInput {
  readonly status: ResourceStatus
  /** What the object carries now. */
  readonly before: unknown
  readonly generation: number
  /** Milliseconds since the epoch. */
  readonly now: number
  readonly snapshot: Snapshot
  /** Public base URL, without a trailing slash. */
  readonly gatewayUrl: string
}

/** What the object shall carry. A time moves only where its condition's status does. */
export function toObjectStatus(input: StatusInput): ObjectStatus {
  const { status, before, generation, now } = input
  const known = conditionsOf(before)
  return {
    phase: status.phase,
    ...detailsOf(input),
    observedGeneration: generation,
    conditions: status.conditions
      .filter(({ type }) => type !== 'BackendReachable')
      .map(({ type, status, reason, message }) => {
        const earlier = known.find((each) => each.type === type)
        const isSame = earlier?.status === status && typeof earlier.lastTransitionTime === 'string'
        return {
          type,
          status,
          reason,
          message: shorten(message),
          observedGeneration: generation,
          lastTransitionTime: isSame ? earlier.lastTransitionTime : toTime(now),
        }
      }),
  }
}

function detailsOf({
  status,
  snapshot,
  gatewayUrl,
}: StatusInput): Readonly<Record<string, unknown>> {
  const { kind, namespace, name } = status
  if (kind === 'ModelRef') return ofModel(snapshot.models.get(`${namespace}/${name}`), gatewayUrl)
  if (kind === 'AccessPolicy') return ofPolicy(snapshot.policies.get(name))
  if (kind === 'Subscription') return ofSubscription(snapshot.subscriptions.get(name))
  return {}
}

/** Clients come to the gateway, unless the resource says where they go. */
function ofModel(model: Model | undefined, gatewayUrl: string): Readonly<Record<string, unknown>> {
  if (model === undefined || model.phase !== 'Ready') return {}
  return { endpoint: model.resource.endpointOverride ?? `${gatewayUrl}/${model.key}` }
}

function ofPolicy(policy: CompiledPolicy | undefined): Readonly<Record<string, unknown>> {
  return policy === undefined ? {} : { models: policy.modelKeys.length }
}

function ofSubscription(
  found: CompiledSubscription | undefined,
): Readonly<Record<string, unknown>> {
  if (found === undefined) return {}
  return {
    models: found.modelKeys.length,
    modelRefStatuses: found.modelKeys.map((key) => {
      const [namespace, name] = key.split('/')
      return found.missing.has(key)
        ? {
            name,
            namespace,
            ready: false,
            reason: 'NotFound',
            message: 'there is no such ModelRef',
          }
        : { name, namespace, ready: true, reason: 'Valid', message: '' }
    }),
  }
}

/** Of an object that cannot be read as what it says it is. */
export function toFailedStatus(
  message: string,
  { before, generation, now }: Pick<StatusInput, 'before' | 'generation' | 'now'>,
): ObjectStatus {
  const earlier = conditionsOf(before).find(({ type }) => type === 'Ready')
  const isSame = earlier?.status === 'False' && typeof earlier.lastTransitionTime === 'string'
  return {
    phase: 'Failed',
    observedGeneration: generation,
    conditions: [
      {
        type: 'Ready',
        status: 'False',
        reason: 'ReconcileFailed',
        message: shorten(message),
        observedGeneration: generation,
        lastTransitionTime: isSame ? earlier.lastTransitionTime : toTime(now),
      },
    ],
  }
}

function conditionsOf(status: unknown): readonly ObjectCondition[] {
  const found = (status as { conditions?: unknown } | null | undefined)?.conditions
  return Array.isArray(found) ? found : []
}

function shorten(message: string): string {
  return message.length <= longestMessage ? message : `${message.slice(0, longestMessage - 1)}…`
}

/** RFC 3339 in whole seconds, as Kubernetes keeps times. */
function toTime(now: number): string {
  return new Date(now).toISOString().replace(/\.\d+Z$/, 'Z')
}
