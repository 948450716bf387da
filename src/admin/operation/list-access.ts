/** `GET /v1/admin/access`: who may use which model, by which policies and subscriptions. */

import type { FromSchema } from 'json-schema-to-ts'
import { type AccessRow, accessRows } from '../../decide/access-matrix.ts'
import { limitsOnModel } from '../../models/rules/shared-limits.ts'
import type { CountedLimit } from '../../ratelimit/rules/limit.ts'
import { inSlices } from '../../runtime/slices.ts'
import type { ExternalDeps } from '../deps.ts'
import { type Locate, resourceFields, toResourceJson } from '../explain/resource-place.ts'
import type { Api } from '../http/api.ts'
import { hasMoreField, pageOf, pageQuery, readPage } from '../http/page.ts'
import { boolean, integer, objects, optional, responses, strings } from '../http/schema.ts'
import { modelRefsSchema } from '../models/subscription-record.ts'

/** Policies, and subscriptions, of one entry. */
const shownOfEach = 20

const name = { type: 'string', maxLength: 1_024 } as const
const more = integer('How many are omitted, if any.', { minimum: 1 })
/** Policies and subscriptions are always known. */
const placed = { ...resourceFields, namespace: { type: 'string' } } as const

const { request_rate_limits, concurrency } = modelRefsSchema.items.properties

const schema = {
  operationId: 'listAccess',
  summary: 'List who may use which model, by which policies and subscriptions',
  description:
    'For administrators: an entry for each model and each user or group that an AccessPolicy or a Subscription names for it. A user has the entries of their name and of all their groups together.',
  tags: ['Administration'],
  security: [{ identityToken: [] }],
  querystring: {
    type: 'object',
    properties: {
      model: {
        ...name,
        description: "Only of this model: <namespace>/<name>, or a name as in a request's body.",
        examples: ['llm/sim-small'],
      },
      subject: { ...name, description: 'Only for the user or group with exactly this name.' },
      ...pageQuery,
    },
  },
  response: responses(
    'A page of them, ordered by model, groups before users, and name.',
    [400],
    'AccessList',
    {
      object: { type: 'string', const: 'list' },
      data: objects('Access', {
        model: { type: 'string', examples: ['llm/sim-small'] },
        subject_kind: { type: 'string', enum: ['group', 'user'] },
        subject: { type: 'string', examples: ['team-a'] },
        usable: boolean(
          'Whether this alone is enough: the model is ready, a policy opens it, and a subscription pays.',
        ),
        policies: {
          description: 'Policies that open the model.',
          ...objects('OpeningPolicy', placed),
        },
        more_policies: optional(more),
        subscriptions: {
          description: 'Subscriptions that include the model.',
          ...objects('IncludingSubscription', {
            ...placed,
            pays: boolean('Whether it is ready for the model.'),
            limits: objects('Limit', {
              limit: integer('Tokens.'),
              window: { type: 'string', examples: ['1m'] },
            }),
            request_rate_limits,
            concurrency,
            limit_names: optional(
              strings('Limits by name that also apply; GET /v1/admin/limits has the shared ones.'),
            ),
          }),
        },
        more_subscriptions: optional(more),
      }),
      has_more: hasMoreField,
    },
  ),
} as const

/** The response. */
export type AccessList = FromSchema<(typeof schema.response)[200]>

/** Adds the route. */
export function listAccess(app: Api, { snapshot, locate }: ExternalDeps): void {
  app.get('/v1/admin/access', { schema }, async (request) => {
    const { limit, offset } = readPage(request.query)
    // An empty filter is none.
    const model = request.query.model || undefined
    const subject = request.query.subject || undefined
    const rows = await inSlices(accessRows(snapshot(), { model, subject, offset, limit }))
    const { data, has_more } = pageOf(rows, { limit, offset: 0 })
    return { object: 'list', data: data.map((row) => toRow(row, locate)), has_more }
  })
}

function toRow({ model, kind, name, policies, subscriptions }: AccessRow, locate: Locate) {
  const isOpen = model.cluster !== undefined && policies.length > 0
  return {
    model: model.key,
    subject_kind: kind,
    subject: name,
    usable: isOpen && subscriptions.some(({ pays }) => pays),
    policies: policies
      .slice(0, shownOfEach)
      .map(({ resource }) => toResourceJson(resource, locate)),
    ...leftOut('more_policies', policies),
    subscriptions: subscriptions.slice(0, shownOfEach).map(({ subscription, pays }) => ({
      ...toResourceJson(subscription.resource, locate),
      pays,
      ...toLimitsJson([...limitsOnModel(subscription, model.key)].map(({ limit }) => limit)),
    })),
    ...leftOut('more_subscriptions', subscriptions),
  }
}

function toLimitsJson(all: readonly CountedLimit[]) {
  const names = new Set(all.flatMap(({ limitName }) => limitName ?? []))
  const ratesOf = (wanted: CountedLimit['kind']) =>
    all
      .filter(({ kind, limitName }) => kind === wanted && limitName === undefined)
      .map(({ limit, window }) => ({ limit, window }))
  const [requests, [concurrency]] = [ratesOf('requests'), ratesOf('concurrency')]
  return {
    limits: ratesOf('tokens'),
    ...(requests.length > 0 && { request_rate_limits: requests }),
    ...(concurrency && { concurrency: concurrency.limit }),
    ...(names.size > 0 && { limit_names: [...names] }),
  }
}

function leftOut(field: string, all: readonly unknown[]): Readonly<Record<string, number>> {
  const count = all.length - shownOfEach
  return count > 0 ? { [field]: count } : {}
}
