/** `GET /v1/admin/limits`: what is left of shared limits, for administrators. */

import type { FromSchema } from 'json-schema-to-ts'
import { sharedLimits, subscriptionAndModels } from '../../models/rules/shared-limits.ts'
import type { Snapshot } from '../../models/rules/snapshot.ts'
import { inSlices } from '../../runtime/slices.ts'
import type { ExternalDeps } from '../deps.ts'
import type { Api } from '../http/api.ts'
import { noteForeignRead, recordForeignRead } from '../http/audit.ts'
import { hasMoreField, pageOf, pageQuery, readPage } from '../http/page.ts'
import { objects, responses } from '../http/schema.ts'
import {
  currencyOf,
  currencySchema,
  isSelectedLimit,
  type LimitSelection,
  limitFields,
  limitsIn,
  type OwnLimit,
  readShownLimits,
  sortLimits,
} from './limit-state.ts'

/** An empty filter is none. */
const text = { type: 'string', maxLength: 1_024 } as const

const schema = {
  operationId: 'listSharedLimits',
  summary: 'List shared limits with their use',
  description:
    'For administrators: an entry for each counter of each limit that is per group, subscription, model, organization or installation.',
  tags: ['Administration'],
  security: [{ identityToken: [] }],
  querystring: {
    type: 'object',
    properties: {
      subscription: { ...text, description: 'Only those that apply in this subscription.' },
      model: {
        ...text,
        description: 'Only those that apply to this model.',
        examples: ['llm/sim-small'],
      },
      name: { ...text, description: 'Only limits with this name.' },
      ...pageQuery,
    },
  },
  response: responses(
    'A page: limits of subscriptions, then of models, then of the installation; each ordered by the name of its resource, model, kind and length of the window.',
    [400],
    'SharedLimitList',
    {
      object: { type: 'string', const: 'list' },
      data: objects('SharedLimit', limitFields),
      currency: currencySchema,
      has_more: hasMoreField,
    },
  ),
} as const

/** The response. */
export type SharedLimitList = FromSchema<(typeof schema.response)[200]>

/** Adds the route, in a scope of administrators. */
export function listSharedLimits(app: Api, deps: ExternalDeps): void {
  const config = { audit: 'counter.read' } as const
  app.get('/v1/admin/limits', { schema, config }, async (request) => {
    const { query } = request
    noteForeignRead(request, {})
    const page = readPage(query)
    const { subscription, model, name } = query
    const only = { subscription: subscription || undefined, model: model || undefined }
    const found = await selectSharedLimits(deps.snapshot(), { ...only, name: name || undefined })
    const { data: own, has_more } = pageOf(sortLimits(found), page)
    const data = (await readShownLimits(deps, own)).map(({ shown }) => shown)
    await recordForeignRead(request, data.length)
    return { object: 'list', data, ...currencyOf(data, deps.billingCurrency), has_more }
  })
}

/** Each of their counters once, in no order. */
export async function selectSharedLimits(
  snapshot: Snapshot,
  selected: LimitSelection,
): Promise<OwnLimit[]> {
  const found = await inSlices(sharedLimits(snapshot, selected))
  return found
    .filter(({ limit }) => isSelectedLimit(limit, { name: selected.name }))
    .map(({ subscription, model, ...on }) => {
      return { ...subscriptionAndModels(on.limit, model, subscription), ...on }
    })
}

/** Which limits by name are meant; `user`: whose. */
export interface NamedSelection extends LimitSelection {
  readonly name: string
  readonly user?: string | undefined
}

/** The limits that apply there, whoever uses them. */
export async function limitsOfSelection(
  { subscription, model, name, user = '' }: Partial<NamedSelection>,
  snapshot: Snapshot,
): Promise<readonly OwnLimit[]> {
  const { subscriptions } = snapshot
  const open =
    subscription === undefined
      ? subscriptions.values()
      : [subscriptions.get(subscription)].filter((each) => each !== undefined)
  const drawing = { user, poolIn: undefined, mayUse: () => true }
  return [
    ...(await selectSharedLimits(snapshot, { subscription, model, name })),
    ...limitsIn(open, { model, name }, drawing),
  ]
}
