/** A model in responses (contract, 3.7). */

import type { ListedModel } from '../../models/rules/model-list.ts'
import { boolean, integer, object, objects, optional, string } from '../http/schema.ts'
import { withoutEmpty } from '../http/without-empty.ts'
import { billingRateSchema, toBillingRateJson } from './subscription-record.ts'

export const modelSchema = object('Model', {
  id: string(
    "The name that the model's server lists, or publishers/<namespace>/models/<name> if a body may not use that name.",
    { examples: ['sim-small'] },
  ),
  object: { type: 'string', const: 'model' },
  created: integer('Unix seconds.', { examples: [1_704_067_200] }),
  owned_by: string('<namespace>/<name> of the ModelRef.', { examples: ['llm/sim-small'] }),
  kind: string('Kind of the object that serves the model.', { examples: ['LLMInferenceService'] }),
  url: optional(
    string('Base URL for clients, to which /v1/… is added. Absent if there is none.', {
      examples: ['http://127.0.0.1:8000/llm/sim-small'],
    }),
  ),
  context_length: optional(
    integer('Tokens; absent unless the annotation opendatahub.io/context-window is a number.', {
      minimum: 1,
      examples: [131_072],
    }),
  ),
  ready: boolean('Whether it is in the phase Ready.'),
  modelDetails: optional({
    title: 'ModelDetails',
    type: 'object',
    description: 'Descriptions for people; empty fields are absent.',
    properties: {
      displayName: { type: 'string', examples: ['Sim Small'] },
      description: { type: 'string' },
      genaiUseCase: { type: 'string' },
      contextWindow: { type: 'string' },
      modelCapabilities: {
        type: 'array',
        items: { type: 'string', examples: ['tool-calling'] },
        description: 'The annotation opendatahub.io/model-capabilities.',
      },
    },
  }),
  subscriptions: {
    description: 'Your subscriptions that include it.',
    ...objects('ModelSubscription', {
      name: { type: 'string', examples: ['team-a-premium'] },
      displayName: optional({ type: 'string', examples: ['Team A premium'] }),
      description: optional({ type: 'string' }),
      billing_rate: optional(billingRateSchema),
    }),
  },
})

export function toModelJson(listed: ListedModel): Record<string, unknown> {
  const { modelCapabilities, ...texts } = listed.details
  const details = {
    ...withoutEmpty(texts),
    ...(modelCapabilities.length > 0 && { modelCapabilities }),
  }
  return {
    id: listed.id,
    object: 'model',
    created: listed.created,
    owned_by: listed.ownedBy,
    kind: listed.kind,
    ...withoutEmpty({ url: listed.url, context_length: contextLengthOf(texts.contextWindow) }),
    ready: listed.ready,
    ...(Object.keys(details).length > 0 && { modelDetails: details }),
    subscriptions: listed.subscriptions.map(({ billingRate, ...texts }) => ({
      ...withoutEmpty(texts),
      ...(billingRate !== undefined && { billing_rate: toBillingRateJson(billingRate) }),
    })),
  }
}

/** People also write `128k`, which may mean two numbers. */
function contextLengthOf(raw: string): number | undefined {
  return /^[1-9][0-9]{0,11}$/.test(raw) ? Number(raw) : undefined
}
