/** `Idempotency-Key` of the requests whose response has a secret (contract, 3.2.2). */

import { hash, randomUUID } from 'node:crypto'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { errorBody, invalidRequest, ServiceError } from '../../formats/errors.ts'
import type { Attempt, MadeSecret } from '../../keys/idempotency.ts'
import type { ApiKeyRecord } from '../../keys/rules/api-key.ts'
import type { ExternalDeps } from '../deps.ts'
import { callerOf } from '../http/authenticate-api.ts'
import { errorEnvelope, refusals, string } from '../http/schema.ts'
import { apiKeySchema, toApiKeyJson } from './api-key-record.ts'

/** How to do a request; both are undefined without an idempotency key. */
interface Once {
  readonly attempt?: Attempt
  /** It was done before: only an unused secret may be replaced. */
  readonly made?: MadeSecret | undefined
}

const header = 'idempotency-key'

export const idempotencyHeaders = {
  type: 'object',
  properties: {
    [header]: string(
      'A random text of 1 to 255 visible ASCII characters for each request, remembered for a day. If the response is lost, repeat the request with it: nothing is done twice, and a secret that was not used yet is replaced by a new one.',
    ),
  },
} as const

/** The refusals of `runOnce` and `refuseRepeated`. */
export const idempotencyRefusals = {
  409: {
    ...errorEnvelope,
    title: 'RepeatedRequest',
    description:
      'A request with this Idempotency-Key is in progress (idempotency_busy), or was done (idempotency_done).',
    properties: {
      ...errorEnvelope.properties,
      record: {
        ...apiKeySchema,
        description: 'Id of the key that was created, if it still exists.',
      },
    },
  },
  ...refusals(422),
} as const

/**
 * Does the request, which must be valid, unless another one with its idempotency key is in progress or had another
 * body. `act` must not send its response, but return it: whoever has the response may repeat the request at once.
 */
export async function runOnce<T>(
  request: FastifyRequest,
  { idempotency, clock }: ExternalDeps,
  act: (how: Once) => Promise<T>,
): Promise<T> {
  const raw = request.headers[header]
  if (raw === undefined) return await act({})
  if (typeof raw !== 'string' || !/^[!-~]{1,255}$/.test(raw)) {
    const message = 'Idempotency-Key must be one text of 1 to 255 visible ASCII characters.'
    throw invalidRequest(message)
  }
  const { method, url } = request
  const scope = digest([callerOf(request).user, method, url.replace(/\?.*$/s, ''), raw])
  const attempt = { scope, id: randomUUID() }
  const claim = await idempotency.claim(attempt, digest(request.body ?? null), clock())
  if (claim.state !== 'mine') {
    throw new ServiceError(claim.state === 'busy' ? 'idempotency_busy' : 'idempotency_mismatch')
  }
  try {
    return await act({ attempt, made: claim.made })
  } finally {
    // If this fails, the attempt ends by itself in a few seconds.
    await idempotency.release(attempt).catch(() => {})
  }
}

/** The response to a request that was done before, with its status set. */
export function refuseRepeated(
  reply: FastifyReply,
  record: ApiKeyRecord | undefined,
  now: number,
): object {
  reply.request.refusedWith = 'idempotency_done'
  const shown = record && { record: toApiKeyJson(record, now) }
  reply.code(409)
  return { ...errorBody('idempotency_done'), ...shown }
}

function digest(value: unknown): string {
  return hash('sha256', JSON.stringify(value), 'hex')
}
