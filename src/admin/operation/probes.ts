/** `/livez` and `/readyz` of the internal listener (docs/settings.md). */

import type { FastifyInstance } from 'fastify'

export interface ProbeDeps {
  /** Whether requests may be sent here: resources loaded, not draining. */
  readonly ready: () => boolean
  /** Names of unavailable parts; a degraded process should still get requests. */
  readonly degraded: () => Promise<readonly string[]>
}

export function probes(app: FastifyInstance, { ready, degraded }: ProbeDeps): void {
  app.get('/livez', () => ({ status: 'alive' }))
  app.get('/readyz', async (_request, reply) => {
    if (!ready()) return reply.code(503).send({ status: 'not ready' })
    const unavailable = await degraded()
    return { status: 'ready', ...(unavailable.length > 0 && { degraded: unavailable }) }
  })
}
