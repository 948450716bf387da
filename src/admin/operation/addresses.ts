/**
 * `GET /internal/v1/addresses`: where else this process listens, for whoever knows only its internal listener.
 */

import type { FastifyInstance } from 'fastify'
import { showAddress } from '../../formats/address.ts'
import type { OperatorDeps } from '../deps.ts'

export function addresses(app: FastifyInstance, { metricsAddress }: OperatorDeps): void {
  const metrics = metricsAddress === undefined ? null : showAddress(metricsAddress)
  app.get('/internal/v1/addresses', () => ({ metrics }))
}
