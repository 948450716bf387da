/** `GET /v1/api-keys/{id}` (contract, 3.4). */

import type { FastifyInstance } from 'fastify'
import { ServiceError } from '../../formats/errors.ts'
import { onlyKeyOf } from '../../keys/rules/compiled-caps.ts'
import type { ExternalDeps } from '../deps.ts'
import { lookAtOthers, showOthers } from '../http/audit.ts'
import { callerOf } from '../http/authenticate.ts'
import { answers, optional } from '../http/schema.ts'
import { apiKeyRecord, keyIdParams, showRecord } from './api-key-record.ts'
import { keyUsage, readKeyUsage } from './key-usage.ts'

const schema = {
  operationId: 'getApiKey',
  summary: 'Read an API key',
  description: 'Your own key, or any for an administrator; a key with caps reads itself only.',
  tags: ['API keys'],
  params: keyIdParams,
  response: answers("The key's record, and what it has used.", [404], 'ApiKeyWithUsage', {
    ...apiKeyRecord.properties,
    usage: optional(keyUsage),
  }),
} as const

/** The message for an unknown id and for another user's key. */
export const keyNotFound = 'There is no such API key.'

/** Adds the route. Another user's key and an unknown id get the same response. */
export function getApiKey(
  app: FastifyInstance,
  { keys, isAdmin, clock, usage, keyReach }: ExternalDeps,
): void {
  const config = { audit: 'key.read' } as const
  app.get<{ Params: { id: string } }>('/v1/api-keys/:id', { schema, config }, async (request) => {
    const caller = callerOf(request)
    const { id } = request.params
    const isOpen = isKeyId(id) && id === (onlyKeyOf(caller, keyReach) ?? id)
    const record = isOpen ? await keys.findById(id) : undefined
    if (record !== undefined && record.user !== caller.user) {
      const { id: keyId, user, subscription } = record
      lookAtOthers(request, { keyId, user, subscription })
    }
    if (record === undefined || (record.user !== caller.user && !(await isAdmin(caller)))) {
      throw new ServiceError('not_found', { message: keyNotFound })
    }
    await showOthers(request)
    const now = clock()
    // A key sees only its own use.
    const isItself = caller.by === 'token' || caller.keyId === record.id
    const used = isItself ? await readKeyUsage(usage, record.id, now) : undefined
    return { ...showRecord(record, now), ...(used && { usage: used }) }
  })
}

/** Whether an id has the form of a key's; others are not worth a query. */
export function isKeyId(id: string): boolean {
  return /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(id)
}
