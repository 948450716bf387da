/** Endpoints without a credential: `/health`, and `/livez`, `/readyz` and addresses of the internal listener (docs/settings.md). */

import type { FastifyReply } from 'fastify'
import { formatAddress } from '../../formats/address.ts'
import type { OperatorDeps } from '../deps.ts'
import type { Api } from '../http/api.ts'
import { object } from '../http/schema.ts'
import { isDraining, isFromGateway } from './drain.ts'

const schema = {
  operationId: 'health',
  summary: 'Whether the service runs',
  tags: ['Service'],
  security: [],
  response: {
    200: {
      description: 'It runs.',
      ...object('Health', { status: { type: 'string', const: 'healthy' } }),
    },
  },
} as const

/**
 * `GET /health` (contract, 3.1): shows only that the process responds. While it shuts down a health check fails, so that
 * Envoy closes its connections even if it has no requests for them; a client of the gateway does not see that.
 */
export function healthRoute(app: Api): void {
  app.get('/health', { schema }, ({ raw }, reply: FastifyReply) => {
    if (!isDraining(reply.raw) || isFromGateway(raw)) return { status: 'healthy' }
    return reply.code(503).send({ status: 'stopping' })
  })
}

/** `/livez`, `/readyz`, which names what is unavailable, and the address of the metrics, for the internal listener. */
export function probeRoutes(app: Api, deps: OperatorDeps): void {
  const { ready, degraded, metricsAddress } = deps
  const metrics = metricsAddress === undefined ? null : formatAddress(metricsAddress)
  // The other listeners of this process, for commands that know only the internal one.
  app.get('/internal/v1/addresses', () => ({ metrics }))
  app.get('/livez', () => ({ status: 'alive' }))
  app.get('/readyz', async (_request, reply) => {
    if (!ready()) return reply.code(503).send({ status: 'not ready' })
    const unavailable = await degraded()
    return { status: 'ready', ...(unavailable.length > 0 && { degraded: unavailable }) }
  })
}
