/**
 * `POST`, `GET` and `DELETE /v1/admin/increases` (contract, 3.22): temporary increases of limits by name, for
 * administrators.
 */

import type { FromSchema } from 'json-schema-to-ts'
import { invalidRequest, ServiceError } from '../../formats/errors.ts'
import type { ExactInt } from '../../formats/exact.ts'
import { toEndTimestamp, toTimestamp } from '../../formats/time.ts'
import { statusAt } from '../../keys/rules/api-key.ts'
import type { ApiKeyStore } from '../../keys/store.ts'
import { sharerOfCounter } from '../../models/rules/shared-limits.ts'
import type { Snapshot } from '../../models/rules/snapshot.ts'
import { maxIncreases, type StoredIncrease } from '../../ratelimit/increases/active-increases.ts'
import {
  counterKeyPrefix,
  parseCounterKey,
  userInLines,
} from '../../ratelimit/rules/counter-key.ts'
import { inSlices } from '../../runtime/slices.ts'
import type { ExternalDeps } from '../deps.ts'
import type { Api } from '../http/api.ts'
import { addToOutcome, noteForeignRead, recordForeignRead, recordIntent } from '../http/audit.ts'
import { callerOf } from '../http/authenticate-api.ts'
import { ignoreBodies, requirePlainText } from '../http/body.ts'
import {
  boolean,
  objects,
  optional,
  responses,
  string,
  timestamp,
  untitledObject,
} from '../http/schema.ts'
import { isUuid, requireKey } from '../keys/key-access.ts'
import { orUnsure, propagationSchema } from '../keys/propagation.ts'
import {
  currencyOf,
  currencySchema,
  limitsOfKeyRecord,
  nameSchema,
  type OwnLimit,
} from '../usage/limit-state.ts'
import { unknownLimitError } from '../usage/unknown-limit.ts'
import {
  limitAuditTarget,
  limitIdentityFields,
  limitsByName,
  readIncreaseUntil,
  readLimitFigure,
  requireEnforcedLimit,
  requireHigherLimit,
  toLimitIdentityJson,
  tooManyIncreases,
  wantedLimitFields,
} from './wanted-limit.ts'

const body = {
  title: 'NewIncrease',
  type: 'object',
  additionalProperties: false,
  required: ['name', 'limit', 'until', 'reason'],
  properties: {
    ...wantedLimitFields,
    user: { ...nameSchema, description: 'The user, for a limit per user; must not be yourself.' },
    keyId: {
      ...nameSchema,
      description:
        "For a key's own limit: the id of the key, without model, user and whom; must not be one of your own keys.",
    },
    whom: {
      ...nameSchema,
      description:
        'If the limit has several counters, the one to increase: the group (`users` for the users that the subscription names), the organization, or for a limit of a model the subscription.',
    },
  },
} as const

const fields = {
  id: { type: 'string' },
  ...limitIdentityFields,
  user: optional(string('The user of a limit per user, or the owner of the key.')),
  keyId: optional(string("The key, for a key's own limit.")),
  until: timestamp,
  reason: { type: 'string' },
  createdBy: { type: 'string' },
  createdAt: timestamp,
} as const

const changed = { ...fields, currency: currencySchema, propagation: propagationSchema } as const

const route = { tags: ['Administration'], security: [{ identityToken: [] }] } as const

const createSchema = {
  ...route,
  operationId: 'createIncrease',
  summary: 'Increase a limit until a time',
  description: `For administrators. The highest of the limit and its increases applies. Counters do not change, and no model is opened. At most ${maxIncreases.toLocaleString('en')} are in force at a time. The response is sent when every replica has applied it, or after a second: \`propagation\` says which.`,
  body,
  response: responses(
    'The increase, which is in force.',
    [400, 404, 413],
    'IncreaseCreated',
    changed,
  ),
} as const

const listSchema = {
  ...route,
  operationId: 'listIncreases',
  summary: 'List limit increases in force',
  description: 'For administrators.',
  response: responses('Increases that have not ended, the highest first.', [], 'IncreaseList', {
    object: { type: 'string', const: 'list' },
    data: objects('Increase', {
      ...fields,
      effective: boolean(
        'Whether it raises a limit now; false if the limit itself is as high, is no longer in force, or has another counter.',
      ),
    }),
    currency: currencySchema,
  }),
} as const

const endSchema = {
  ...route,
  operationId: 'endIncrease',
  summary: 'End an increase of a limit',
  description:
    'For administrators. The limit in the resource applies again. The response is sent when every replica has applied it, or after a second: `propagation` says which.',
  params: untitledObject({ increaseId: { type: 'string' } }),
  response: responses('The increase, which has ended.', [404], 'IncreaseEnded', changed),
} as const

/** The response. */
export type IncreaseList = FromSchema<(typeof listSchema.response)[200]>

type Body = FromSchema<typeof body>

const named = ['subscription', 'model', 'name', 'user', 'keyId', 'whom'] as const

const unsure =
  'The key store did not respond: the change may or may not have been made. GET /v1/admin/increases lists the increases in force.'

/** Adds the routes, in a scope of administrators. */
export function increaseRoutes(app: Api, deps: ExternalDeps): void {
  const { snapshot, clock, keys, increases, whenIncreased } = deps

  /** Finds the key's own limit that is meant. */
  async function findOfKey({ keyId = '', name, subscription, ...others }: Body, now: number) {
    for (const field of ['model', 'user', 'whom'] as const)
      if (others[field] !== undefined)
        throw invalidRequest(`${field}: keyId says whose limit it is; leave ${field} out.`)
    const key = requireKey(isUuid(keyId) ? await keys.findById(keyId) : undefined)
    if ((subscription ?? key.subscription) !== key.subscription)
      throw invalidRequest(`subscription: the key's is ${key.subscription}; leave this field out.`)
    const status = statusAt(key, now)
    if (status !== 'active')
      throw invalidRequest(`keyId: the key is ${status}; only an active key can get an increase.`)
    const found = limitsOfKeyRecord(key, snapshot()).find(({ limit }) => limit.limitName === name)
    if (found !== undefined) return { chosen: found, user: key.user }
    const message =
      'The key has no limit of this name; its record lists its limits. For a limit of its subscription, name subscription and user.'
    throw new ServiceError('not_found', { message })
  }

  async function findOfResource(asked: Body) {
    const found = await limitsByName(asked, snapshot())
    if (found.length === 0) throw await unknownLimitError(asked, snapshot())
    return choose(found, asked)
  }

  async function respond(shown: ReturnType<typeof toJson>) {
    const currency = currencyOf([shown], deps.billingCurrency)
    return { ...shown, ...currency, propagation: await whenIncreased() }
  }

  const creation = { schema: createSchema, config: { audit: 'increase.create' } } as const
  app.post('/v1/admin/increases', creation, async (request) => {
    const { body: asked } = request
    for (const field of [...named, 'reason'] as const) requirePlainText(field, asked[field])
    const target = limitAuditTarget(asked)
    addToOutcome(request, target)
    const now = clock()
    const until = readIncreaseUntil(asked.until, now)
    const { chosen, user } =
      asked.keyId === undefined
        ? { chosen: await findOfResource(asked), user: asked.user }
        : await findOfKey(asked, now)
    const { user: createdBy } = callerOf(request)
    // A long name is shortened in lines, and the counter has the shortened one.
    if (user !== undefined && userInLines(user) === userInLines(createdBy)) {
      const message = 'Nobody increases their own limit; ask another administrator.'
      throw new ServiceError('admin_required', { message })
    }
    if (user !== undefined) addToOutcome(request, { user })
    requireEnforcedLimit(chosen)
    const { limit, counter } = chosen
    const higher = readLimitFigure(limit.kind, asked.limit)
    requireHigherLimit(higher, limit)
    await recordIntent(request, { ...target, ...(user !== undefined && { user }) })
    const { reason } = asked
    const { key } = counter
    const added = await orUnsure(
      increases.add({
        counter: key,
        per: limit.scope,
        limit: higher,
        until,
        reason,
        createdBy,
        createdAt: now,
      }),
      unsure,
    )
    if (added === undefined) throw tooManyIncreases()
    return await respond(toJson(added))
  })
  const listing = { schema: listSchema, config: { audit: 'increase.read' } } as const
  app.get('/v1/admin/increases', listing, async (request) => {
    noteForeignRead(request, {})
    const found = await increases.list()
    const isEffective = await effectiveIncreases(found, snapshot(), keys, clock())
    const data = found.map((each) => ({ ...toJson(each), effective: isEffective(each) }))
    await recordForeignRead(request, data.length)
    return { object: 'list', data, ...currencyOf(data, deps.billingCurrency) }
  })
  app.register(async (scope: Api) => {
    ignoreBodies(scope)
    const ending = { schema: endSchema, config: { audit: 'increase.end' } } as const
    scope.delete('/v1/admin/increases/:increaseId', ending, async (request) => {
      const { increaseId: id } = request.params
      if (isUuid(id)) await recordIntent(request)
      const ended = isUuid(id) ? await orUnsure(increases.end(id), unsure) : undefined
      if (ended === undefined) {
        const message = 'There is no such increase, or it is over.'
        throw new ServiceError('not_found', { message })
      }
      const shown = toJson(ended)
      addToOutcome(request, limitAuditTarget(shown))
      return await respond(shown)
    })
  })
}

/** Chooses the counter that is meant. */
function choose(found: readonly OwnLimit[], { user, whom }: Body): OwnLimit {
  const [first] = found as [OwnLimit]
  const { scope } = first.limit
  if (scope === 'user') {
    if (whom !== undefined) throw invalidRequest('whom: the limit is per user; give user instead.')
    if (user === undefined) throw invalidRequest('user is needed: the limit is per user.')
    return first
  }
  if (user !== undefined)
    throw invalidRequest(`user: the limit is per ${scope}, not per user; leave it out.`)
  const chosen = found.find(({ limit, counter }) => sharerOfCounter(limit, counter) === whom)
  if (chosen !== undefined) return chosen
  if (whom === undefined) throw invalidRequest(`whom is needed: the limit is per ${scope}.`)
  if (sharerOfCounter(first.limit, first.counter) === undefined)
    throw invalidRequest(
      `whom: the limit is per ${scope} and has one counter, which all share; leave it out.`,
    )
  throw invalidRequest(`whom: no ${scope} of this name shares the limit.`)
}

function toJson({ id, until, reason, createdBy, createdAt, ...meant }: StoredIncrease) {
  return {
    id,
    ...toLimitIdentityJson(meant),
    until: toEndTimestamp(until),
    reason,
    createdBy,
    createdAt: toTimestamp(createdAt),
  }
}

/** The figures of enforced limits, by counter key without its user or group. */
type Figures = Map<string, ExactInt>

/** `now`: milliseconds since the epoch. Rejects if the database is unavailable. */
async function effectiveIncreases(
  increases: readonly StoredIncrease[],
  snapshot: Snapshot,
  keys: Pick<ApiKeyStore, 'findById'>,
  now: number,
): Promise<(increase: StoredIncrease) => boolean> {
  const figures = await inSlices(figuresIn(snapshot))
  for (const id of new Set(increases.flatMap((each) => toLimitIdentityJson(each).keyId ?? []))) {
    const key = await keys.findById(id)
    if (key === undefined || statusAt(key, now) !== 'active') continue
    for (const { limit, isEnforced } of limitsOfKeyRecord(key, snapshot))
      if (isEnforced) figures.set(limit.keyPrefix, limit.limit)
  }
  return ({ counter, limit }) =>
    limit > (figures.get(counterKeyPrefix(parseCounterKey(counter))) ?? limit)
}

function* figuresIn({ subscriptions }: Snapshot): Generator<undefined, Figures> {
  const figures: Figures = new Map()
  for (const { limits } of subscriptions.values()) {
    for (const { keyPrefix, limit } of [...limits.values()].flat()) figures.set(keyPrefix, limit)
    yield
  }
  return figures
}
