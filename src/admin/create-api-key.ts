/** `POST /v1/api-keys` (contract, 3.2). */

import { randomBytes, randomUUID } from 'node:crypto'
import type { FastifyInstance } from 'fastify'
import { type ApiKeyRecord, keyIdBytes, keySecretBytes, mintKey } from '../core/api-key.ts'
import { ServiceError } from '../core/errors.ts'
import { expiryOf } from '../core/lifetime.ts'
import { selectForKey } from '../core/selection.ts'
import type { Snapshot } from '../core/snapshot.ts'
import type { ApiKeyStore } from '../store/api-keys.ts'
import { toTimestamp } from './api-key-record.ts'
import { callerOf } from './authenticate.ts'
import { requirePlainText } from './body.ts'

export interface CreateApiKeyDeps {
  readonly keys: ApiKeyStore
  readonly snapshot: () => Snapshot
  readonly clock: () => number
  readonly keyMarker: string
  /** The setting; the Tenant's own maximum wins over it. */
  readonly maxExpirationDays: number
}

interface Body {
  readonly name?: string | null
  readonly description?: string | null
  readonly subscription?: string | null
  readonly expiresIn?: unknown
  readonly ephemeral?: boolean | null
}

/** `expiresIn` is left to `lifetime`, whose refusals say more than a schema's. */
const body = {
  type: 'object',
  properties: {
    name: { type: 'string', nullable: true },
    description: { type: 'string', nullable: true },
    subscription: { type: 'string', nullable: true },
    expiresIn: {},
    ephemeral: { type: 'boolean', nullable: true },
  },
} as const

/** Adds the route. The answer is the only place where the plaintext is ever shown. */
export function createApiKey(app: FastifyInstance, deps: CreateApiKeyDeps): void {
  const { keys, snapshot, clock } = deps
  app.post<{ Body: Body }>('/v1/api-keys', { schema: { body } }, async (request, reply) => {
    const caller = callerOf(request)
    if (caller.by !== 'token') throw new ServiceError('identity_token_required')
    const current = snapshot()
    const now = clock()
    const ephemeral = request.body.ephemeral ?? false
    const description = request.body.description ?? ''
    requirePlainText('description', description)
    const name = nameOf(request.body, ephemeral)
    const expiresAt = expiryOf({
      expiresIn: request.body.expiresIn,
      ephemeral,
      maximumDays: current.tenant?.maxExpirationDays ?? deps.maxExpirationDays,
      now,
    })
    const requested = request.body.subscription?.trim() || undefined
    const subscription = selectForKey(current, caller, requested).name

    const minted = mintKey(deps.keyMarker, randomBytes(keyIdBytes), randomBytes(keySecretBytes))
    const record: ApiKeyRecord = {
      id: randomUUID(),
      hash: minted.hash,
      user: caller.user,
      groups: caller.groups,
      name,
      description,
      subscription,
      status: 'active',
      ephemeral,
      createdAt: now,
      expiresAt,
      lastUsedAt: null,
    }
    await keys.insert(record)
    return reply
      .code(201)
      .header('cache-control', 'no-store')
      .send({
        key: minted.key,
        keyPrefix: minted.prefix,
        id: record.id,
        name,
        subscription,
        createdAt: toTimestamp(now),
        expiresAt: toTimestamp(expiresAt),
        ephemeral,
      })
  })
}

/** Required and non-empty, but for ephemeral keys, which get one of their own. */
function nameOf({ name }: Body, ephemeral: boolean): string {
  if (name) {
    requirePlainText('name', name)
    return name
  }
  if (!ephemeral) throw new ServiceError('invalid_request', { message: 'name is required.' })
  return `ephemeral-${process.hrtime.bigint() + epochOffsetNs}`
}

/** What turns the steady clock into Unix nanoseconds, so that two names made at once differ. */
const epochOffsetNs = BigInt(Date.now()) * 1_000_000n - process.hrtime.bigint()
