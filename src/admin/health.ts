/** `GET /health` (contract, 3.1): the process answers, nothing more. */

import type { FastifyInstance } from 'fastify'

export function health(app: FastifyInstance): void {
  app.get('/health', () => ({ status: 'healthy' }))
}
