/** `GET /v1/api-keys/{id}` (contract, 3.4). */

import { onlyKeyOf } from '../../keys/rules/caps-of-caller.ts'
import type { ExternalDeps } from '../deps.ts'
import type { Api } from '../http/api.ts'
import { noteForeignRead, recordForeignRead } from '../http/audit.ts'
import { callerOf } from '../http/authenticate-api.ts'
import { optional, responses } from '../http/schema.ts'
import { apiKeySchema, keyIdParams, toApiKeyJson } from './api-key-record.ts'
import { isUuid, requireKey } from './key-access.ts'
import { keyUsageSchema, readKeyUsage } from './key-usage.ts'

const schema = {
  operationId: 'getApiKey',
  summary: 'Read an API key',
  description: 'Your own key, or any for an administrator; a key with caps reads only itself.',
  tags: ['API keys'],
  params: keyIdParams,
  response: responses("The key's record, and its use.", [404], 'ApiKeyWithUsage', {
    ...apiKeySchema.properties,
    usage: optional(keyUsageSchema),
  }),
} as const

/** Adds the route. Another user's key and an unknown id get the same response. */
export function getApiKey(app: Api, { keys, isAdmin, clock, usage, keyReach }: ExternalDeps): void {
  const config = { audit: 'key.read' } as const
  app.get('/v1/api-keys/:id', { schema, config }, async (request) => {
    const caller = callerOf(request)
    const { id } = request.params
    const isOpen = isUuid(id) && id === (onlyKeyOf(caller, keyReach) ?? id)
    const record = requireKey(isOpen ? await keys.findById(id) : undefined)
    const { id: keyId, user, subscription } = record
    const isOwn = user === caller.user
    if (!isOwn) noteForeignRead(request, { keyId, user, subscription })
    requireKey(isOwn || (await isAdmin(caller)) ? record : undefined)
    await recordForeignRead(request)
    const now = clock()
    // A key sees only its own use.
    const isItself = caller.by === 'token' || caller.keyId === record.id
    const used = isItself ? await readKeyUsage(usage, record.id, now) : undefined
    return { ...toApiKeyJson(record, now), ...(used && { usage: used }) }
  })
}
