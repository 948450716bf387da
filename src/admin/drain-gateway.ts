/** `POST /internal/v1/drain`: asked before Envoy is ended, by whoever ends it on this machine. */

import type { FastifyInstance } from 'fastify'
import { ignoreBodies } from './body.ts'
import { sendError } from './errors.ts'
import { refusals } from './schemas.ts'

export interface DrainState {
  /**
   * `draining`: ask again; `overdue`: requests still run, and are waited for no longer;
   * `unreachable`: Envoy's admin page does not answer.
   */
  readonly status: 'draining' | 'drained' | 'overdue' | 'unreachable'
  /** That are running; undefined: not known. */
  readonly requests?: number
}

export interface GatewayDrain {
  /** Whether it was asked for, ever. */
  readonly isAsked: boolean
  /** Begins it with the first call. Settles when it has ended, or in some seconds as it stands. */
  ask(): Promise<DrainState>
}

export interface DrainGatewayDeps {
  readonly gatewayDrain: GatewayDrain
}

const schema = {
  operationId: 'drainGateway',
  summary: 'Be ready no more, and have Envoy finish what it has and take nothing new',
  tags: ['Internal'],
  response: {
    200: {
      description: 'How it stands, when it has ended or after five seconds.',
      type: 'object',
      required: ['status'],
      properties: {
        status: { type: 'string', enum: ['draining', 'drained', 'overdue', 'unreachable'] },
        requests: { type: 'integer', minimum: 0 },
      },
    },
    ...refusals(403, 500),
  },
} as const

/**
 * Adds the route. Only this machine (in a pod: its containers) may ask, and needs no certificate for
 * that: others who reach the listener could take the gateway out of service.
 */
export function drainGateway(app: FastifyInstance, { gatewayDrain }: DrainGatewayDeps): void {
  app.register(async (scope) => {
    ignoreBodies(scope)
    scope.post('/internal/v1/drain', { schema }, async ({ raw }, reply) =>
      isLocal(raw.socket.remoteAddress) ? gatewayDrain.ask() : sendError(reply, 'local_only'),
    )
  })
}

/**
 * A Unix socket's peer has no address. Not all of 127.0.0.0/8: Istio's proxy comes from 127.0.0.6 for
 * whoever is outside.
 */
function isLocal(address: string | undefined): boolean {
  return address === undefined || /^(::ffff:)?127\.0\.0\.1$|^::1$/.test(address)
}
