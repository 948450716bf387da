/** `GET /v1/api-keys/config`: what a new key may ask for. */

import { ephemeralMaximum, maxLifetimeDays } from '../../keys/rules/key-lifetime.ts'
import type { ExternalDeps } from '../deps.ts'
import type { Api } from '../http/api.ts'
import { responses, string } from '../http/schema.ts'

const schema = {
  operationId: 'getApiKeyConfig',
  summary: 'Read the limits of new API keys',
  tags: ['API keys'],
  response: responses('The limits.', [], 'ApiKeyConfig', {
    max_expiration_days: { type: 'integer', minimum: 1, examples: [90] },
    ephemeral_max_expiration: string('A duration, as in `expiresIn`.', { examples: ['1h'] }),
  }),
} as const

/** Adds the route. */
export function getApiKeyConfig(app: Api, deps: ExternalDeps): void {
  app.get('/v1/api-keys/config', { schema }, async () => ({
    max_expiration_days: maxLifetimeDays(deps.snapshot().tenant, deps.maxExpirationDays),
    ephemeral_max_expiration: ephemeralMaximum,
  }))
}
