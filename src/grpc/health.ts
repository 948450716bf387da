/** grpc.health.v1.Health: SERVING from the start, NOT_SERVING once draining. */

import type { ServerStreaming, Subscriber, Unary } from './methods.ts'
import { WireWriter } from './wire.ts'

/** HealthCheckResponse.ServingStatus. */
const serving = 1
const notServing = 2

export interface Health {
  readonly unary: Readonly<Record<string, Unary>>
  readonly serverStreaming: Readonly<Record<string, ServerStreaming>>
  /** Sends NOT_SERVING to all watchers, and in all later responses. */
  drain(): void
}

export function createHealth(): Health {
  let status = serving
  const watchers = new Set<Subscriber>()
  const current = (): Buffer => new WireWriter(16).unsigned(1, status).finish()

  return {
    unary: { '/grpc.health.v1.Health/Check': current },
    serverStreaming: {
      '/grpc.health.v1.Health/Watch': (watcher) => {
        watcher.send(current())
        watchers.add(watcher)
        return () => watchers.delete(watcher)
      },
    },
    drain() {
      status = notServing
      for (const watcher of watchers) {
        watcher.send(current())
        watcher.end()
      }
      watchers.clear()
    },
  }
}
