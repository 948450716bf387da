/** `PATCH /v1/api-keys/{id}` (contract, 3.4). */

import { isDeepStrictEqual } from 'node:util'
import { invalidRequest, ServiceError } from '../../formats/errors.ts'
import type { Caller } from '../../identity/rules/caller.ts'
import { type ApiKeyRecord, statusAt } from '../../keys/rules/api-key.ts'
import { describeWidening } from '../../keys/rules/key-caps.ts'
import type { KeyChanges } from '../../keys/store.ts'
import type { ExternalDeps } from '../deps.ts'
import type { Api } from '../http/api.ts'
import { addToOutcome, recordIntent } from '../http/audit.ts'
import { callerOf, requireToken } from '../http/authenticate-api.ts'
import { type BodyOf, requirePlainText } from '../http/body.ts'
import { optional, responses } from '../http/schema.ts'
import { apiKeySchema, keyIdParams, toApiKeyJson } from './api-key-record.ts'
import { actOnKey, isUuid, requireKey } from './key-access.ts'
import { capFields, hasCapFields, readCaps } from './key-caps.ts'
import { descriptionField, labelsField, nameField, readLabels, readName } from './key-fields.ts'
import { orUnsure, propagationSchema } from './propagation.ts'

const schema = {
  operationId: 'changeApiKey',
  summary: 'Change an API key',
  description:
    'Your own active key, or any for an administrator. Needs an identity token. Absent fields do not change. A holder may narrow the caps models, tokenRateLimits, limits and allowedAddresses; an administrator may also widen and remove them.',
  tags: ['API keys'],
  security: [{ identityToken: [] }],
  params: keyIdParams,
  body: {
    title: 'ApiKeyChanges',
    type: 'object',
    additionalProperties: false,
    minProperties: 1,
    properties: {
      name: nameField,
      description: { ...descriptionField, description: 'null or an empty string removes it.' },
      labels: { ...labelsField, description: 'Replaces all present labels.' },
      ...capFields,
    },
  },
  response: responses('The changed record.', [400, 404, 413], 'ChangedApiKey', {
    ...apiKeySchema.properties,
    propagation: optional({
      ...propagationSchema,
      description:
        'If the request has caps: which replicas have applied them, after waiting at most a second.',
    }),
  }),
} as const

type Body = BodyOf<typeof schema.body>

const unsure =
  'The key store did not respond: the change may or may not have been made. Repeat it until there is a response.'

/** How long a change of caps is repeated while other requests change them, as long as it waits for a locked row. */
const turnsMs = 1_000
const busy =
  'Other requests are changing the caps of this API key, so nothing was changed; try again in a few seconds.'

/** Adds the route. An ended key, another user's and an unknown one get the same response. */
export function changeApiKey(app: Api, deps: ExternalDeps): void {
  const { keys, isAdmin, clock, propagation, snapshot } = deps
  const config = { audit: 'key.change' } as const

  /** The record, the caller's or for an administrator any; active at `now`. */
  async function find(id: string, caller: Caller, now: number): Promise<ApiKeyRecord> {
    const record = await keys.findById(id)
    const isOpen = record && (record.user === caller.user || (await isAdmin(caller)))
    return requireKey(isOpen && statusAt(record, now) === 'active' ? record : undefined)
  }

  /** Checks and changes the caps; begins again if they have changed meanwhile. */
  async function changeCaps(id: string, caller: Caller, body: Body, now: number) {
    const changes = readChanges(body)
    const giveUpAt = performance.now() + turnsMs
    while (performance.now() < giveUpAt) {
      const { user, subscription, caps: from } = await find(id, caller, now)
      const caps = readCaps(body, from, subscription, snapshot())
      const widening = describeWidening(from, caps)
      if (widening !== undefined && !(await isAdmin(caller))) {
        const message = `Only an administrator may widen caps: ${widening}`
        throw new ServiceError('admin_required', { message })
      }
      const changing = keys.change(id, user, { ...changes, caps }, now, from)
      const changed = await orUnsure(changing, unsure)
      if (changed === undefined) continue
      // The response to a first request may be lost: a repeated one waits for all that was changed before.
      const others = isDeepStrictEqual(from, caps) ? [] : [changed]
      return { changed, propagation: await propagation(others, 'capped') }
    }
    throw new ServiceError('store_locked', { message: busy })
  }

  app.patch('/v1/api-keys/:id', { schema, config }, async (request) => {
    const caller = callerOf(request)
    requireToken(caller, 'change API keys')
    const changes = readChanges(request.body)
    const { id } = request.params
    requireKey(isUuid(id) ? id : undefined)
    await recordIntent(request, { keyId: id })
    const now = clock()
    if (hasCapFields(request.body)) {
      const { changed, ...told } = await changeCaps(id, caller, request.body, now)
      addToOutcome(request, { user: changed.user, subscription: changed.subscription })
      return { ...toApiKeyJson(changed, now), ...told }
    }
    const change = (owner: string | undefined) => keys.change(id, owner, changes, now)
    const changed = requireKey(await actOnKey(caller, isAdmin, change))
    addToOutcome(request, { user: changed.user, subscription: changed.subscription })
    return toApiKeyJson(changed, now)
  })
}

function readChanges({ name, description, labels }: Body): KeyChanges {
  requirePlainText('description', description ?? undefined)
  const named = readName(name)
  if (name !== undefined && named === undefined) {
    throw invalidRequest('name must not be empty.')
  }
  return {
    ...(named !== undefined && { name: named }),
    ...(description !== undefined && { description: description ?? '' }),
    ...(labels !== undefined && { labels: readLabels('labels', labels) }),
  }
}
