/**
 * Schemas of the objects that `tollgate controller` writes: the statuses of our kinds, and the two
 * generated kinds. Only their definitions need them: the controller writes these objects, and never reads one.
 */

import { integer, list, object, optional, type Schema, text } from '../src/formats/schema.ts'

const count = (description: string) => optional(integer(0, 2_147_483_647, { description }))

/** As meta/v1 has it. */
const message = text({ maxLength: 32_768 })

const conditions: Schema = list(
  object({
    type: text(),
    status: text({ enum: ['True', 'False', 'Unknown'] }),
    reason: text(),
    message,
    observedGeneration: optional(integer(0, Number.MAX_SAFE_INTEGER)),
    lastTransitionTime: text({ format: 'date-time' }),
  }),
  { description: 'conditions, one entry per type' },
)

const reported = {
  observedGeneration: optional(
    integer(0, Number.MAX_SAFE_INTEGER, {
      description: 'the generation that this status describes',
    }),
  ),
  conditions,
} as const

function phase(...phases: readonly string[]) {
  return optional(text({ enum: phases, description: 'state in one word' }))
}

/** The state of a reference, or of an object generated for it. */
function references(description: string, more: Readonly<Record<string, Schema>> = {}): Schema {
  return list(
    object({
      name: text(),
      namespace: text(),
      ready: { type: 'boolean' },
      reason: optional(text()),
      message: optional(message),
      ...more,
    }),
    { description },
  )
}

const name = optional(text())
const models = count('how many models it names')

export const statuses = {
  ModelRef: object({
    phase: phase('Pending', 'Ready', 'Unhealthy', 'Failed'),
    endpoint: optional(text({ description: 'where clients send requests', maxLength: 4_096 })),
    httpRouteName: name,
    httpRouteNamespace: name,
    httpRouteGatewayName: name,
    httpRouteGatewayNamespace: name,
    httpRouteHostnames: list(text()),
    ...reported,
  }),
  AccessPolicy: object({
    phase: phase('Pending', 'Active', 'Degraded', 'Failed'),
    models,
    authPolicies: references('the ModelAuthPolicy of each model', {
      model: name,
      modelNamespace: name,
    }),
    ...reported,
  }),
  Subscription: object({
    phase: phase('Pending', 'Active', 'Degraded', 'Failed'),
    models,
    modelRefStatuses: references('each model that it names'),
    tokenRateLimitStatuses: references('the TokenRateLimitPolicy of each model', {
      model: name,
    }),
    ...reported,
  }),
  Tenant: object({ phase: phase('Pending', 'Active', 'Degraded', 'Failed'), ...reported }),
} as const

const names = list(text(), { description: 'the first ones in order', maxItems: 100 })
const digest = text({
  description: 'digest of all its sources; equal content has an equal digest',
})
const modelRef = object({
  name: text({ description: 'the ModelRef, in this namespace' }),
})

/** Generated for each model that is named: counts, never the rules themselves. */
export const generatedSchemas = {
  ModelAuthPolicy: {
    description: 'Who may use one model, generated from all AccessPolicies that name it.',
    spec: object({
      modelRef,
      accessPolicies: names,
      accessPolicyCount: count('how many AccessPolicies name the model'),
      users: count('users that may use it by name'),
      groups: count('groups whose members may use it'),
      digest,
    }),
  },
  TokenRateLimitPolicy: {
    description: 'The limits for one model, generated from all Subscriptions that name it.',
    spec: object({
      modelRef,
      subscriptions: names,
      subscriptionCount: count('how many Subscriptions name the model'),
      limits: count('limits in all of them'),
      digest,
    }),
  },
} as const satisfies Readonly<Record<string, { description: string; spec: Schema }>>

export const generatedStatus = object(reported)
