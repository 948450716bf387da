/** The response of `POST /v1/explain`, and a past refusal in it and in lists. */

import type { FromSchema } from 'json-schema-to-ts'
import { stepNames } from '../../decide/decide.ts'
import {
  integer,
  nullableTimestamp,
  object,
  objects,
  optional,
  responses,
  string,
  strings,
  timestamp,
} from '../http/schema.ts'
import { currencySchema, figureSchema, limitFields, limitNameFields } from '../usage/limit-state.ts'
import { tableField } from './explain-table.ts'
import { resourceFields } from './resource-place.ts'

const status = integer('The HTTP status of the refusal.', { examples: [429] })
const code = { type: 'string', examples: ['rate_limit_exceeded'] } as const
const message = string('The message of the refusal.')

const outcome = {
  reason: optional(string('For administrators: the reason in more detail than the message.')),
  at: timestamp,
  user: optional({ type: 'string' }),
  keyId: optional(string('Present only for a key.')),
  model: optional({ type: 'string', examples: ['llm/sim-small'] }),
  limits: {
    description: 'Empty if the decision ended before limits were checked.',
    ...objects('LimitState', {
      ...limitNameFields,
      limit: limitFields.limit,
      used: limitFields.used,
      held: optional({
        ...figureSchema,
        description: 'The amount held by requests in progress, if any.',
      }),
      remaining: limitFields.remaining,
      percentLeft: limitFields.percentLeft,
      startsAt: limitFields.startsAt,
      resetsAt: { ...nullableTimestamp, description: 'null for a limit on concurrency.' },
      increasedUntil: limitFields.increasedUntil,
      refuses: optional({
        ...{ type: 'boolean', const: true },
        description:
          'Present only for the limit that refuses the request; absent for past refusals.',
      }),
    }),
  },
} as const

/** Schema of the result of `toPastJson`. */
export const pastRefusal = object('PastRefusal', {
  requestId: { type: 'string' },
  status,
  code,
  message,
  ...outcome,
  method: optional({ type: 'string' }),
  path: optional({ type: 'string' }),
})

export const responseSchema = responses(
  'The decision, as it would be made at that time.',
  [400, 404, 413],
  'Explanation',
  {
    allowed: { type: 'boolean' },
    status: optional(status),
    code: optional(code),
    message: optional(message),
    ...outcome,
    askedAs: optional({
      description:
        'The key assumed for the named user, or for a caller whose identity token does not suffice.',
      ...object('AskedAs', {
        key: string(
          'newest: the newest active key that is not ephemeral; new: a hypothetical new key.',
          {
            enum: ['newest', 'new'],
          },
        ),
        keyId: optional(string('Absent for a new key.')),
        name: optional(string('Absent for a new key.')),
        subscription: string('Bare name of the subscription of the key.'),
        otherwise: optional({
          description:
            'Other keys, among the 20 newest, with which the result would differ; absent if there are none.',
          type: 'array',
          items: object('OtherKey', {
            keyId: { type: 'string' },
            name: { type: 'string' },
            subscription: { type: 'string' },
            allowed: { type: 'boolean' },
            code: optional(code),
          }),
        }),
      }),
    }),
    backend: optional({
      description:
        "Only if the last request to the model's server failed, as far as the responding process knows. It refuses no request.",
      ...object('BackendFailure', {
        reachable: { type: 'boolean', const: false },
        reason: { type: 'string', examples: ['refused'] },
        detail: optional(string('For administrators.')),
      }),
    }),
    unlistedName: optional({
      description:
        "Only if the model's server does not list the name that it would be sent, so that it may respond with 404: set spec.upstreamModel of the ModelRef to a name that it lists. It refuses no request.",
      ...object('UnlistedName', {
        sent: string("The name in the body, or the ModelRef's if only the path names the model."),
        listed: strings('At most five of them.'),
      }),
    }),
    steps: {
      description: 'In order, up to the step that decided.',
      ...objects('DecisionStep', {
        step: string(
          'Only administrators see access; for others it is part of model. budget is present only if an operation is refused because it is not counted under a limit on cost.',
          { enum: stepNames },
        ),
        passed: { type: 'boolean' },
        resource: optional({
          description: 'The resource that decided the step.',
          ...object('ResourcePlace', resourceFields),
        }),
      }),
    },
    policies: {
      description: 'Policies that name the model; for users only those that give them access.',
      ...objects('ConsideredPolicy', { ...resourceFields, opens: { type: 'boolean' } }),
    },
    subscriptions: {
      description:
        'Subscriptions of the user, and the requested one; empty if the decision ended before they were checked.',
      ...objects('ConsideredSubscription', {
        ...resourceFields,
        pays: { type: 'boolean' },
        passedOver: optional(
          string('not_named: the key or the request names another subscription.', {
            enum: [
              'not_named',
              'not_found',
              'access_denied',
              'model_not_in_subscription',
              'model_unhealthy',
              'multiple_subscriptions',
            ],
          }),
        ),
      }),
    },
    currency: currencySchema,
    ...tableField,
    changesAt: optional({
      ...timestamp,
      description:
        'When the limit resets, an increase of a limit ends or the key expires, if the result changes then.',
    }),
    refusal: optional({
      ...pastRefusal,
      description: 'Only with requestId: the refusal as it was sent.',
    }),
  },
)

/** The response. */
export type ExplainResponse = FromSchema<(typeof responseSchema)[200]>
