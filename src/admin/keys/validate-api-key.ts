/** `POST /internal/v1/api-keys/validate` (contract, 3.10): for gateways that use HTTP. */

import { hashOfKey, statusAt } from '../../keys/rules/api-key.ts'
import type { KnownKey } from '../../keys/store.ts'
import type { OperatorDeps } from '../deps.ts'
import type { Api } from '../http/api.ts'
import { refusals, string, strings, untitledObject } from '../http/schema.ts'
import { addressOf } from '../http/trusted-proxies.ts'

const schema = {
  operationId: 'validateApiKey',
  summary: 'Report whose API key this is, and whether it is valid',
  tags: ['Internal'],
  body: untitledObject({ key: string('The plaintext.', { minLength: 1 }) }),
  response: {
    200: {
      description: 'The result, for a valid key or an invalid one.',
      type: 'object',
      required: ['valid'],
      properties: {
        valid: { type: 'boolean' },
        reason: string('Only when not valid.', {
          enum: [
            'invalid key format',
            'key not found',
            'key revoked or expired',
            'key has no subscription bound',
          ],
        }),
        userId: string("The key's id."),
        keyId: string('The same id as userId.'),
        keyName: string('The name of the key; left out while the key store is unavailable.'),
        username: { type: 'string' },
        groups: strings("The owner's when the key was made; left out when empty."),
        subscription: string('Bare name.'),
      },
    },
    ...refusals(400, 413, 500, 503),
  },
} as const

/** Adds the route. An expired row is not updated: its date already makes it `expired` everywhere. */
export function validateApiKey(app: Api, deps: OperatorDeps): void {
  /** The cache does not hold names; a key that it answers for in an outage stays valid without. */
  async function nameOf({ id, ageMs }: KnownKey): Promise<{ readonly keyName?: string }> {
    if (ageMs !== undefined) return {}
    const record = await deps.keys.findById(id).catch(() => undefined)
    return record === undefined ? {} : { keyName: record.name }
  }

  app.post('/internal/v1/api-keys/validate', { schema }, async (request) => {
    const hash = hashOfKey(request.body.key, deps.markers)
    if (hash === undefined) return refuse('invalid key format')
    const found = await deps.keys.findByHash(hash, () => addressOf(request))
    if (found === undefined) return refuse('key not found')
    const now = deps.clock()
    if (statusAt(found, now) !== 'active') return refuse('key revoked or expired')
    const { id, user, groups, subscription } = found
    if (subscription.trim() === '') return refuse('key has no subscription bound')
    deps.noteUse?.(hash, now)
    return {
      valid: true,
      userId: id,
      keyId: id,
      ...(await nameOf(found)),
      username: user,
      ...(groups.length > 0 && { groups }),
      subscription,
    }
  })
}

function refuse(reason: string): { readonly valid: false; readonly reason: string } {
  return { valid: false, reason }
}
