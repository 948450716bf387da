/**
 * `GET /v1/models` and `GET /v1/models/{id}` (contract, 3.7): the models that the caller can use,
 * from the model servers' own lists, requested through our gateway.
 */

import type { FastifyReply, FastifyRequest } from 'fastify'
import { mayUseModel } from '../../decide/access.ts'
import { candidateModels, isUnambiguousName } from '../../decide/name-lookup.ts'
import {
  accessibleSubscriptions,
  findSubscription,
  isHealthySubscription,
  requestedSubscriptionOf,
} from '../../decide/subscription-selection.ts'
import { ServiceError } from '../../formats/errors.ts'
import { lastHeaderValue } from '../../formats/headers.ts'
import { getOrAdd } from '../../formats/lists.ts'
import { quoteName } from '../../formats/redact.ts'
import { toTimestamp } from '../../formats/time.ts'
import type { Caller } from '../../identity/rules/caller.ts'
import { isModelAllowed } from '../../keys/rules/caps-of-caller.ts'
import { type FoundModel, mergeModels, modelEndpoint } from '../../models/rules/model-list.ts'
import type { CompiledSubscription, Model, Snapshot } from '../../models/rules/snapshot.ts'
import { forEachConcurrently } from '../../runtime/concurrency.ts'
import { inSlices } from '../../runtime/slices.ts'
import type { ExternalDeps } from '../deps.ts'
import type { Api } from '../http/api.ts'
import { bearerOf, callerOf } from '../http/authenticate-api.ts'
import { object, responsesWith, string, untitledObject } from '../http/schema.ts'
import { isAnthropicClient, sendAnthropicList, sendAnthropicModel } from './anthropic-models.ts'
import type { ProbeRequest } from './model-probe.ts'
import { modelSchema, toModelJson } from './model-record.ts'

/** Models queried concurrently, and how long one may block those behind it. */
const concurrency = 100
const defaultBlockMs = 500
/** All have been queried after this time, even if none responds. */
const allAskedMs = 1_000
/** After this time, waiting stops once this many checks in a row have seen no response arrive. */
const defaultMs = 2_000
const checkEveryMs = 50
const quietChecks = 5

const schema = {
  operationId: 'listModels',
  summary: 'List the models that the caller may use',
  description: `With an API key: the models of its subscription. With an identity token: the models of
all your subscriptions, or of the one that X-MaaS-Subscription names. Each model's server is queried
through the gateway; a model that you may not use, or whose server does not respond in time, is not listed.
Requests with the header anthropic-version are answered in Anthropic's format.`,
  tags: ['Models'],
  headers: {
    type: 'object',
    properties: {
      'x-maas-subscription': string('With an identity token: only models of this subscription.', {
        examples: ['team-a-premium'],
      }),
    },
  },
  response: responsesWith('Ordered by id, url and owner.', [], {
    headers: {
      'cache-control': { type: 'string', enum: ['no-store'] },
      'x-access-checked-at': string('When the model servers were queried.', {
        format: 'date-time',
      }),
    },
    ...object('ModelList', {
      object: { type: 'string', const: 'list' },
      data: { type: 'array', items: modelSchema },
    }),
  }),
} as const

const oneSchema = {
  operationId: 'getModel',
  summary: 'Read one of the models that the caller may use',
  description:
    'The entry of the list with this id; if several have it, the first. 503 `model_unavailable` if the server of the model that this id means does not respond.',
  tags: ['Models'],
  headers: schema.headers,
  params: untitledObject({ id: string('Slashes stay as they are, or are escaped once (`%2F`).') }),
  response: responsesWith('The model.', [400, 404], modelSchema),
} as const

/** Adds the routes. */
export function listModels(app: Api, deps: ExternalDeps): void {
  async function list(request: FastifyRequest, reply: FastifyReply) {
    const caller = callerOf(request)
    const snapshot = deps.snapshot()
    const requested = lastHeaderValue(request.headers['x-maas-subscription']?.toString())
    const subscriptions = subscriptionsOf(snapshot, caller, requested)
    reply.header('cache-control', 'no-store')
    reply.header('x-access-checked-at', toTimestamp(deps.clock()))
    const authorization = bearerOf(request)
    const { boundAddress: address } = request
    const search = { snapshot, caller, authorization, address, subscriptions }
    const asking = { caller, requestedSubscription: requested }
    const { found, silent } = await findModels(deps, search)
    const models = await inSlices(
      mergeModels(found, {
        isUsable: (name) => isUnambiguousName(name, asking, snapshot),
        sharedUrl: deps.gatewayUrl,
      }),
    )
    const findSilent = (name: string) =>
      candidateModels(name, asking, snapshot).find((model) => silent.has(model))
    return { models, findSilent }
  }
  app.get('/v1/models', { schema }, async (request, reply) => {
    const { models } = await list(request, reply)
    if (isAnthropicClient(request)) return sendAnthropicList(reply, models)
    return { object: 'list', data: models.map(toModelJson) }
  })
  async function one(id: string, request: FastifyRequest, reply: FastifyReply) {
    const { models, findSilent } = await list(request, reply)
    const found = models.find((model) => model.id === id)
    if (found !== undefined)
      return isAnthropicClient(request) ? sendAnthropicModel(reply, found) : toModelJson(found)
    const silent = findSilent(id)
    const message = silent
      ? `The server of the model ${silent.key} does not respond, or fails; try again in a few seconds.`
      : `There is no model ${quoteName(id)}, you may not use it, or its server does not respond.`
    throw new ServiceError(silent ? 'model_unavailable' : 'not_found', { message })
  }
  app.get('/v1/models/:id', { schema: oneSchema }, (request, reply) =>
    one(request.params.id, request, reply),
  )
  // Ids contain slashes, which not every client escapes.
  app.get(
    '/v1/models/*',
    { schema: { ...oneSchema, params: untitledObject({ '*': string('The id.') }), hide: true } },
    (request, reply) => one(request.params['*'], request, reply),
  )
}

/** The subscriptions to list. Throws 403 for one that the caller may not list. */
function subscriptionsOf(
  snapshot: Snapshot,
  caller: Caller,
  requested: string | undefined,
): readonly CompiledSubscription[] {
  const name = requestedSubscriptionOf(caller, requested)
  if (name === undefined) return accessibleSubscriptions(snapshot, caller)
  const subscription = findSubscription(snapshot, name)
  // Foreign and unknown ones get the same response, so that names cannot be guessed.
  if (subscription === undefined || !mayUseModel(caller, subscription)) {
    throw new ServiceError('subscription_not_allowed', {
      message: 'You have no access to the subscription.',
    })
  }
  if (!isHealthySubscription(subscription)) throw new ServiceError('subscription_not_ready')
  return [subscription]
}

interface Search extends Pick<ProbeRequest, 'snapshot' | 'caller' | 'authorization' | 'address'> {
  readonly subscriptions: readonly CompiledSubscription[]
}

/**
 * Queries each model once, through the first subscription that opens it, since each allows this
 * caller to list. At the timeout it returns the models found so far. `silent`: those whose server has not responded.
 */
async function findModels(deps: ExternalDeps, search: Search) {
  const { snapshot, caller, authorization, address, subscriptions } = search
  const found: FoundModel[] = []
  const asked = new Map<Model, { endpoint: string; subscriptions: CompiledSubscription[] }>()
  for (const subscription of subscriptions) {
    for (const key of subscription.limits.keys()) {
      const model = snapshot.models.get(key) as Model
      if (!isModelAllowed(caller, key)) continue
      const endpoint = modelEndpoint(model, deps.gatewayUrl)
      if (model.resource.backend.kind === 'ExternalModel') {
        // A provider's own list is not about this model, so only its phase counts.
        if (model.phase !== 'Ready') continue
        found.push({ model, subscription, endpoint: endpoint ?? '', served: undefined })
      } else if (endpoint !== undefined && model.cluster === undefined) {
        // The gateway does not lead there, and the caller's credential must not go there.
        if (mayUseModel(caller, model))
          found.push({ model, subscription, endpoint, served: undefined })
      } else if (endpoint !== undefined) {
        const make = () => ({ endpoint, subscriptions: [] })
        getOrAdd(asked, model, make).subscriptions.push(subscription)
      }
    }
  }

  const deadline = new AbortController()
  const { signal } = deadline
  const begun = performance.now()
  let checks = 0
  const timer = setInterval(() => {
    checks += 1
    const tookMs = performance.now() - begun
    const isQuiet = tookMs >= defaultMs && checks >= quietChecks
    if (isQuiet || tookMs >= deps.accessCheckTimeoutMs) deadline.abort()
  }, checkEveryMs)
  const items = [...asked]
  const silent = new Set(asked.keys())
  const maxBlockMs = Math.min(defaultBlockMs, (allAskedMs * concurrency) / items.length)
  const asking = forEachConcurrently(
    items,
    { concurrency, maxBlockMs, signal },
    async ([model, { endpoint, subscriptions }]) => {
      const subscription = subscriptions[0]?.name ?? ''
      const request = { model: model.key, authorization, address, caller, subscription, snapshot }
      checks = 0
      const outcome = await deps.probeModel(request)
      if (outcome === 'silent') return
      silent.delete(model)
      if (outcome === 'closed') return
      checks = 0
      // A server without a list is represented by its ModelRef.
      const { modelIds, server } = model.resource
      const isNamed = modelIds.length > 0 || server.upstreamModel !== undefined
      if (outcome === 'missing' && !isNamed) return
      const served = typeof outcome === 'string' ? undefined : outcome
      // A listed model must be callable by the next request.
      if (served !== undefined) deps.onServed?.(model, served)
      for (const subscription of subscriptions)
        found.push({ model, subscription, endpoint, served })
    },
  )
  await asking.finally(() => clearInterval(timer))
  return { found: [...found], silent: new Set(silent) }
}
