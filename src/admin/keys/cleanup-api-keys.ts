/** `POST /internal/v1/api-keys/cleanup` (contract, 3.13). */

import type { OperatorDeps } from '../deps.ts'
import type { Api } from '../http/api.ts'
import { addToOutcome, recordIntent } from '../http/audit.ts'
import { ignoreBodies } from '../http/body.ts'
import { refusals, untitledObject } from '../http/schema.ts'

const schema = {
  operationId: 'cleanupApiKeys',
  summary: 'Delete ephemeral API keys that expired more than 30 minutes ago',
  tags: ['Internal'],
  response: {
    200: {
      description: 'Done, even if there was nothing to delete.',
      ...untitledObject({
        deletedCount: { type: 'integer', minimum: 0 },
        message: { type: 'string' },
      }),
    },
    ...refusals(500, 503),
  },
} as const

/** Adds the route. The body is ignored. Safe to run concurrently with the schedule and with itself. */
export function cleanupApiKeys(app: Api, { keys, clock }: OperatorDeps): void {
  app.register(async (scope) => {
    ignoreBodies(scope)
    const config = { audit: 'key.cleanup' } as const
    scope.post('/internal/v1/api-keys/cleanup', { schema, config }, async (request) => {
      await recordIntent(request)
      const deletedCount = await keys.deleteExpiredEphemeral(clock())
      addToOutcome(request, {}, deletedCount)
      const what = deletedCount === 1 ? '1 ephemeral key' : `${deletedCount} ephemeral keys`
      return { deletedCount, message: `Deleted ${what}.` }
    })
  })
}
