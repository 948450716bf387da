/** `POST /internal/v1/drain`: called before Envoy is stopped, by its supervisor on this machine. */

import type { OperatorDeps } from '../deps.ts'
import type { Api } from '../http/api.ts'
import { ignoreBodies } from '../http/body.ts'
import { sendError } from '../http/error-handler.ts'
import { optional, refusals, untitledObject } from '../http/schema.ts'

const schema = {
  operationId: 'drainGateway',
  summary: 'Make the process not ready, and drain its Envoy',
  tags: ['Internal'],
  response: {
    200: {
      description: 'The state of the drain, once it has ended or after five seconds.',
      ...untitledObject({
        status: { type: 'string', enum: ['draining', 'drained', 'overdue', 'unreachable'] },
        requests: optional({ type: 'integer', minimum: 0 }),
      }),
    },
    ...refusals(403, 500),
  },
} as const

/**
 * Adds the route. Only callers on this machine (in a pod: its containers) may use it, and need no
 * certificate: others that reach the listener could take the gateway out of service.
 */
export function drainGateway(app: Api, { gatewayDrain }: OperatorDeps): void {
  app.register(async (scope) => {
    ignoreBodies(scope)
    const options = { schema, config: { audit: 'gateway.drain' } } as const
    scope.post('/internal/v1/drain', options, async ({ raw }, reply) =>
      isLocal(raw.socket.remoteAddress) ? gatewayDrain.ask() : sendError(reply, 'local_only'),
    )
  })
}

/**
 * The peer of a Unix socket has no address. Not all of 127.0.0.0/8: Istio's proxy uses 127.0.0.6 for external callers.
 */
function isLocal(address: string | undefined): boolean {
  return address === undefined || /^(::ffff:)?127\.0\.0\.1$|^::1$/.test(address)
}
