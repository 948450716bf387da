/** `/livez` and `/readyz` of the internal listener (docs/settings.md). */

import type { FastifyInstance } from 'fastify'

export interface ProbeDeps {
  /** Whether requests should come here: resources loaded, not draining. */
  readonly ready: () => boolean
  /** Names of the parts that are out of reach; being degraded is no reason to be taken out. */
  readonly degraded: () => Promise<readonly string[]>
}

export function probes(app: FastifyInstance, { ready, degraded }: ProbeDeps): void {
  app.get('/livez', () => ({ status: 'alive' }))
  app.get('/readyz', async (_request, reply) => {
    if (!ready()) return reply.code(503).send({ status: 'not ready' })
    const away = await degraded()
    return { status: 'ready', ...(away.length > 0 && { degraded: away }) }
  })
}
