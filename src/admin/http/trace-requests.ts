/** A span for each request whose client asks for one. */

import type { FastifyInstance } from 'fastify'

/** An open span, as the listeners use it. */
interface RequestSpan {
  run<Result>(act: () => Result): Result
  end(attributes: Record<string, string | number>, failed: boolean): void
}

/** Returns undefined if the request has no span. */
export type OpenRequestSpan = (
  name: string,
  traceparent: string | undefined,
) => RequestSpan | undefined

declare module 'fastify' {
  interface FastifyRequest {
    span: RequestSpan | undefined
  }
}

export function traceRequests(app: FastifyInstance, open: OpenRequestSpan | undefined): void {
  if (open === undefined) return
  app.decorateRequest('span', undefined)
  app.addHook('onRequest', (request, _reply, done) => {
    const { method, routeOptions, headers } = request
    request.span = open(
      `${method} ${routeOptions.url ?? ''}`.trim(),
      headers.traceparent?.toString(),
    )
    if (request.span === undefined) done()
    else request.span.run(done)
  })
  // Reading the body leaves the span's context.
  app.addHook('preValidation', (request, _reply, done) => {
    if (request.span === undefined) done()
    else request.span.run(done)
  })
  app.addHook('onResponse', async (request, { statusCode }) => {
    const { span, method, routeOptions, refusedWith } = request
    span?.end(
      {
        'http.request.method': method,
        'http.response.status_code': statusCode,
        ...(routeOptions.url !== undefined && { 'http.route': routeOptions.url }),
        ...(refusedWith !== null && { 'error.type': refusedWith }),
      },
      statusCode >= 500,
    )
  })
}
