/** Reports the refusals of the listeners. */

import type { FastifyInstance } from 'fastify'
import type { RefusedRequest } from '../../decide/refused-request.ts'
import { describe } from '../../formats/errors.ts'
import { addressOf } from './trusted-proxies.ts'

/** Calls back for every refusal caused by the request; our own bugs are logged elsewhere. */
export function reportRefusals(
  app: FastifyInstance,
  onRefused: ((refused: RefusedRequest) => void) | undefined,
): void {
  if (onRefused === undefined) return
  app.addHook('onResponse', async (request) => {
    const { refusedWith: code, caller, method, routeOptions, headers } = request
    if (!code || describe(code).status >= 500) return
    onRefused({
      code,
      caller: caller ?? null,
      method,
      route: routeOptions.url,
      address: addressOf(request),
      requestId: request.id,
      traceparent: headers.traceparent?.toString(),
    })
  })
}
