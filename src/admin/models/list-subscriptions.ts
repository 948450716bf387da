/** `GET /v1/subscriptions` and `GET /v1/model/{model-id}/subscriptions` (contract, 3.8). */

import type { FastifyRequest } from 'fastify'
import {
  accessibleSubscriptions,
  requestedSubscriptionOf,
} from '../../decide/subscription-selection.ts'
import { onlyKeyOf } from '../../keys/rules/caps-of-caller.ts'
import type { CompiledSubscription } from '../../models/rules/snapshot.ts'
import type { ExternalDeps } from '../deps.ts'
import type { Api } from '../http/api.ts'
import { callerOf } from '../http/authenticate-api.ts'
import { responsesWith, string, untitledObject } from '../http/schema.ts'
import { subscriptionSchema, toSubscriptionJson } from './subscription-record.ts'

const order = 'Ordered by name; empty when there is none.'
const listed = { type: 'array', items: subscriptionSchema } as const

const schema = {
  operationId: 'listSubscriptions',
  summary: 'List the subscriptions of the caller',
  description: 'Those that can be used now: Active or Degraded.',
  tags: ['Subscriptions'],
  response: responsesWith(order, [], listed),
} as const

const modelSchema = {
  operationId: 'listSubscriptionsOfModel',
  summary: 'List the subscriptions of the caller that include a model',
  description: 'The list is empty for a model that does not exist.',
  tags: ['Subscriptions'],
  params: untitledObject({
    modelId: string('Name of the ModelRef, in any namespace.', { examples: ['sim-small'] }),
  }),
  response: responsesWith(order, [400, 404], listed),
} as const

/** Adds both routes. The responses are bare arrays. */
export function listSubscriptions(app: Api, { snapshot, keyReach }: ExternalDeps): void {
  function list(request: FastifyRequest, matches: (each: CompiledSubscription) => boolean) {
    const [current, caller] = [snapshot(), callerOf(request)]
    // A key that sees only itself does not learn what else its owner has.
    const only = onlyKeyOf(caller, keyReach) && requestedSubscriptionOf(caller, undefined)
    return accessibleSubscriptions(current, caller)
      .filter((each) => matches(each) && each.name === (only ?? each.name))
      .map((each) => toSubscriptionJson(each, current, caller))
  }
  app.get('/v1/subscriptions', { schema }, async (request) => {
    return list(request, () => true)
  })
  app.get('/v1/model/:modelId/subscriptions', { schema: modelSchema }, async (request) => {
    const { modelId } = request.params
    return list(request, (subscription) => includes(subscription, modelId))
  })
}

/** Whether it covers an existing model with this name. */
function includes({ limits, resource }: CompiledSubscription, name: string): boolean {
  return resource.modelRefs.some(
    (model) => model.name === name && limits.has(`${model.namespace}/${name}`),
  )
}
