/** Reports the refusals of the listeners. */

import type { FastifyInstance } from 'fastify'
import type { Caller } from '../core/decision/caller.ts'
import { describe, type ErrorCode } from '../core/decision/errors.ts'
import { addressOf } from './trusted-proxies.ts'

export interface RefusedRequest {
  readonly code: ErrorCode
  /** null: no valid credential. */
  readonly caller: Caller | null
  readonly method: string
  /** The route's pattern; undefined for an unknown path. */
  readonly route: string | undefined
  readonly address: string
  readonly requestId: string
  readonly traceparent: string | undefined
}

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
