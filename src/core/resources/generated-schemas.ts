/**
 * Schemas of what `tollgate controller` writes: the statuses of our kinds, and the two generated
 * kinds.
 */

import { integer, list, object, type Schema, text } from '../formats/schema.ts'

const count = (description: string): Schema => integer(0, 2_147_483_647, { description })

const conditions: Schema = list(
  object(
    {
      type: text(),
      status: text({ enum: ['True', 'False', 'Unknown'] }),
      reason: text(),
      message: text(),
      observedGeneration: integer(0, Number.MAX_SAFE_INTEGER),
      lastTransitionTime: text({ format: 'date-time' }),
    },
    ['type', 'status', 'reason', 'message', 'lastTransitionTime'],
  ),
  { description: 'conditions, one entry per type' },
)

const reported = {
  observedGeneration: integer(0, Number.MAX_SAFE_INTEGER, {
    description: 'the generation that this status describes',
  }),
  conditions,
} as const

function phase(...phases: readonly string[]): Schema {
  return text({ enum: phases, description: 'state in one word' })
}

/** The state of a reference, or of what was generated for it. */
function references(description: string, more: Readonly<Record<string, Schema>> = {}): Schema {
  return list(
    object(
      {
        name: text(),
        namespace: text(),
        ready: { type: 'boolean' },
        reason: text(),
        message: text(),
        ...more,
      },
      ['name', 'namespace', 'ready'],
    ),
    { description },
  )
}

const models = count('how many models it names')

export const statuses = {
  ModelRef: object({
    phase: phase('Pending', 'Ready', 'Unhealthy', 'Failed'),
    endpoint: text({ description: 'where clients send requests' }),
    httpRouteName: text(),
    httpRouteNamespace: text(),
    httpRouteGatewayName: text(),
    httpRouteGatewayNamespace: text(),
    httpRouteHostnames: list(text()),
    ...reported,
  }),
  AccessPolicy: object({
    phase: phase('Pending', 'Active', 'Degraded', 'Failed'),
    models,
    authPolicies: references('the ModelAuthPolicy of each model', {
      model: text(),
      modelNamespace: text(),
    }),
    ...reported,
  }),
  Subscription: object({
    phase: phase('Pending', 'Active', 'Degraded', 'Failed'),
    models,
    modelRefStatuses: references('each model that it names'),
    tokenRateLimitStatuses: references('the TokenRateLimitPolicy of each model', { model: text() }),
    ...reported,
  }),
  Tenant: object({ phase: phase('Pending', 'Active', 'Degraded', 'Failed'), ...reported }),
} as const

const names = list(text(), { description: 'the first ones in order', maxItems: 100 })
const digest = text({
  description: 'digest of all its sources; equal content has an equal digest',
})
const modelRef = object({ name: text({ description: 'the ModelRef, in this namespace' }) }, [
  'name',
])

/** Generated for each model that is named: counts, never the rules themselves. */
export const generated = {
  ModelAuthPolicy: {
    description: 'Who may use one model, generated from all AccessPolicies that name it.',
    spec: object(
      {
        modelRef,
        accessPolicies: names,
        accessPolicyCount: count('how many AccessPolicies name the model'),
        users: count('users that may use it by name'),
        groups: count('groups whose members may use it'),
        digest,
      },
      ['modelRef', 'digest'],
    ),
  },
  TokenRateLimitPolicy: {
    description: 'The limits for one model, generated from all Subscriptions that name it.',
    spec: object(
      {
        modelRef,
        subscriptions: names,
        subscriptionCount: count('how many Subscriptions name the model'),
        limits: count('limits in all of them'),
        digest,
      },
      ['modelRef', 'digest'],
    ),
  },
} as const satisfies Readonly<Record<string, { description: string; spec: Schema }>>

export const generatedStatus = object(reported)
