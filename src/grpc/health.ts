/** grpc.health.v1.Health: SERVING from the start, NOT_SERVING while this process cannot serve, and once draining. */

import type { Subscriber } from './call.ts'
import { WireWriter } from './wire.ts'

/** HealthCheckResponse.ServingStatus. */
const serving = 1
const notServing = 2

export function createHealth() {
  let status = serving
  const watchers = new Set<Subscriber>()
  let isDraining = false
  const current = (): Buffer => new WireWriter(16).unsigned(1, status).finish()

  /** Sets the status of later responses, and tells watchers. */
  function note(isServing: boolean): void {
    const next = isServing && !isDraining ? serving : notServing
    if (next === status) return
    status = next
    for (const watcher of watchers) watcher.send(current())
  }

  return {
    unary: { '/grpc.health.v1.Health/Check': current },
    serverStreaming: {
      '/grpc.health.v1.Health/Watch': (watcher: Subscriber) => {
        watcher.send(current())
        watchers.add(watcher)
        return () => watchers.delete(watcher)
      },
    },
    note,
    /** Permanently NOT_SERVING; ends all watches. */
    drain(): void {
      note(false)
      isDraining = true
      for (const watcher of watchers) watcher.end()
      watchers.clear()
    },
  }
}
