/** `/livez` and `/readyz` of the internal listener (docs/settings.md). */

import type { FastifyInstance } from 'fastify'
import type { OperatorDeps } from '../deps.ts'

export function probes(app: FastifyInstance, { ready, degraded }: OperatorDeps): void {
  app.get('/livez', () => ({ status: 'alive' }))
  app.get('/readyz', async (_request, reply) => {
    if (!ready()) return reply.code(503).send({ status: 'not ready' })
    const unavailable = await degraded()
    return { status: 'ready', ...(unavailable.length > 0 && { degraded: unavailable }) }
  })
}
