/** `POST /internal/v1/subscriptions/select` (contract, 3.11): for gateways that use HTTP. */

import type { FastifyError } from 'fastify'
import {
  chooseSubscription,
  type SelectionRefusal,
  selectionErrors,
} from '../../decide/subscription-selection.ts'
import { errorEntry, ServiceError } from '../../formats/errors.ts'
import { displayOf } from '../../models/rules/display-names.ts'
import type { CompiledSubscription } from '../../models/rules/snapshot.ts'
import type { SharedDeps } from '../deps.ts'
import type { Api } from '../http/api.ts'
import { boolean, integer, labelsSchema, optional, string, untitledObject } from '../http/schema.ts'
import { withoutEmpty } from '../http/without-empty.ts'
import { modelRefsSchema, toModelRefsJson } from './subscription-record.ts'

const schema = {
  operationId: 'selectSubscription',
  summary: 'Select the subscription that serves a request',
  description: 'Refusals also have status 200; they have the field error.',
  tags: ['Internal'],
  body: untitledObject({
    username: { type: 'string', pattern: '\\S' },
    groups: optional({ type: ['array', 'null'], items: { type: 'string' } }),
    requestedSubscription: optional({
      type: ['string', 'null'],
      description: 'Bare name or namespace/name. If absent, the only one that matches.',
    }),
    requestedModel: optional({
      type: ['string', 'null'],
      description: '<namespace>/<ModelRef name>.',
      examples: ['llm/sim-small'],
    }),
  }),
  response: {
    200: {
      description: 'The subscription, or why there is none.',
      type: 'object',
      required: ['phase', 'ready'],
      properties: {
        name: { type: 'string' },
        namespace: { type: 'string' },
        displayName: string('Absent if empty, like the other fields.'),
        description: { type: 'string' },
        priority: integer('Left out when 0.'),
        modelRefs: modelRefsSchema,
        organizationId: { type: 'string' },
        costCenter: { type: 'string' },
        labels: labelsSchema,
        deletionTimestamp: string('Only while it is being deleted.'),
        phase: string('Empty where there is no subscription.'),
        ready: boolean('Whether everything that it names exists.'),
        error: string('Only with a refusal.', {
          enum: ['bad_request', ...selectionErrors, 'internal_error'],
        }),
        message: string('Only with a refusal; for people.'),
      },
    },
  },
} as const

/** Adds the route. Always returns 200: gateways read `error`, not the status. */
export function selectSubscription(app: Api, { snapshot }: SharedDeps): void {
  app.post(
    '/internal/v1/subscriptions/select',
    {
      schema,
      errorHandler(error: FastifyError, request, reply) {
        if (isOfTheRequest(error)) {
          const message = 'The body must be a JSON object with a username.'
          return reply.code(200).send(refuse('bad_request', message))
        }
        request.log.error(
          { code: 'subscription_selection_failed', err: error },
          'cannot select a subscription',
        )
        return reply.code(200).send(refuse('internal_error', errorEntry('internal').message))
      },
    },
    async (request) => {
      const { username, groups, requestedSubscription, requestedModel } = request.body
      const person = {
        user: username,
        groups: (groups ?? []).map((group) => group.trim()).filter((group) => group !== ''),
      }
      const name = requestedSubscription?.trim() || undefined
      const model = requestedModel?.trim() || undefined
      const selected = chooseSubscription(snapshot(), person, name, model)
      if (!('error' in selected)) return toSelectedJson(selected)
      const message = describeRefusal(selected, username, name, model)
      return refuse(selected.error, message, selected.found?.phase)
    },
  )
}

/** For operators, so it includes the requested names. */
function describeRefusal(
  { error, found }: SelectionRefusal,
  user: string,
  name: string | undefined,
  model: string | undefined,
): string {
  switch (error) {
    case 'not_found': {
      if (name !== undefined) return `There is no subscription ${name}.`
      const what = model === undefined ? '' : ` that includes the model ${model}`
      return `${user} has no access to a subscription${what}.`
    }
    case 'access_denied':
      return `${user} has no access to the subscription ${name}.`
    case 'model_not_in_subscription':
      return `The subscription ${name} does not include the model ${model}.`
    case 'multiple_subscriptions':
      return 'Several subscriptions match; name one of them in X-MaaS-Subscription.'
    case 'model_unhealthy': {
      const state = found?.resource.metadata.deleting ? 'being deleted' : found?.phase
      return `The subscription ${found?.name} is ${state} and cannot serve this.`
    }
  }
}

function isOfTheRequest(error: FastifyError): boolean {
  if (error instanceof ServiceError) return errorEntry(error.code).status < 500
  const { validation, statusCode } = error
  return validation !== undefined || (statusCode !== undefined && statusCode < 500)
}

function refuse(error: string, message: string, phase = ''): Record<string, unknown> {
  return { error, message, phase, ready: false }
}

function toSelectedJson(subscription: CompiledSubscription): Record<string, unknown> {
  const { name, phase, priority, resource } = subscription
  const { namespace, deletionTimestamp } = resource.metadata
  const { displayName, description } = displayOf(resource.metadata)
  const { organizationId, costCenter, labels } = resource.attribution
  return {
    name,
    namespace,
    ...withoutEmpty({ displayName, description, organizationId, costCenter, deletionTimestamp }),
    ...(priority !== 0 && { priority }),
    modelRefs: toModelRefsJson(resource.modelRefs),
    ...(Object.keys(labels).length > 0 && { labels }),
    phase,
    ready: phase === 'Active',
  }
}
