/** `GET /health` (contract, 3.1): shows only that the process responds. */

import type { FastifyInstance } from 'fastify'
import { object } from '../http/schema.ts'

const schema = {
  operationId: 'health',
  summary: 'Whether the service runs',
  tags: ['Service'],
  security: [],
  response: {
    200: {
      description: 'It does.',
      ...object('Health', { status: { type: 'string', const: 'healthy' } }),
    },
  },
} as const

export function health(app: FastifyInstance): void {
  app.get('/health', { schema }, () => ({ status: 'healthy' }))
}
